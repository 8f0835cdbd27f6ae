#!/usr/bin/env python3
"""Make a signed apt repository of the packages that were built.

    apt_repository.py FOLDER SUITE=PACKAGES ... --time SECONDS [--keep VERSIONS]
                      [--key KEY] [--key-folder FOLDER]

FOLDER is made beside its place and put there when it is complete: `pool`, `dists/SUITE`, and
`strongroom.asc`, the public key that apt is to trust. Any web server can serve it as it is.
The same packages, time and key give the same bytes; only when the files were written differs, by
which web servers tell apt what is new.

--keep says how many versions a suite has at most. Versions that FOLDER had before stay, the
newest first, so that machines can return to them; a version that is given again is replaced, and a
suite that is not given stays. The date of a suite never goes back: apt ignores indexes that are
older than those it has.

--key names a secret key in the keyring of the current user. Without it, a key is made once, with
no passphrase, and kept in --key-folder: anyone who has that folder can sign packages that every
agent installs. Needs gpg and dpkg-deb, and nothing of the engine.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import hashlib
import lzma
import shutil
import subprocess
import sys
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

COMPONENT = "main"
ORIGIN = "Strongroom"


class RepositoryError(Exception):
    """The repository cannot be made; the message says why."""


def main(words: list[str] | None = None) -> int:
    """Make it; the exit status."""
    parser = argparse.ArgumentParser(prog="apt_repository", description="Make an apt repository.")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("suites", nargs="+", metavar="SUITE=PACKAGES")
    parser.add_argument("--time", type=int, required=True, metavar="SECONDS")
    parser.add_argument("--keep", type=int, default=1, metavar="VERSIONS")
    parser.add_argument("--key", metavar="KEY")
    parser.add_argument("--key-folder", type=Path, metavar="FOLDER")
    arguments = parser.parse_intermixed_args(words)
    try:
        suites = dict(one.split("=", 1) for one in arguments.suites)
    except ValueError:
        parser.error("write each suite as SUITE=PACKAGES, such as trixie=build/packages/trixie")
    if bool(arguments.key) == bool(arguments.key_folder):
        parser.error("give one of --key and --key-folder")
    if arguments.keep < 1:
        parser.error("--keep is at least 1, for the version that is given")
    try:
        signer = Signer.given(arguments.key) or Signer.kept_in(arguments.key_folder)
        make(
            arguments.folder,
            {name: Path(folder) for name, folder in suites.items()},
            arguments.time,
            arguments.keep,
            signer,
        )
        signer.end()
    except RepositoryError as error:
        sys.stderr.write(f"apt_repository: {error}\n")  # noqa: TID251
        return 1
    sys.stdout.write(f"{arguments.folder}: signed by {signer.fingerprint}\n")  # noqa: TID251
    return 0


class Signer:
    """A secret key, and the home of gpg that has it (None: the user's own)."""

    def __init__(self, key: str, home: Path | None) -> None:
        """Raises RepositoryError when there is no such secret key."""
        self._home = home
        try:
            listed = self._gpg("--with-colons", "--list-secret-keys", key).decode()
        except RepositoryError as error:
            raise RepositoryError(f"no secret key {key}: {error}") from error
        lines = (line.split(":") for line in listed.splitlines())
        found = list(lines)
        self.fingerprint = next(fields[9] for fields in found if fields[0] == "fpr")
        self._made = next(int(fields[5]) for fields in found if fields[0] == "sec")

    @classmethod
    def given(cls, key: str | None) -> Signer | None:
        """The key of that name, in the keyring of the user."""
        return cls(key, None) if key else None

    @classmethod
    def kept_in(cls, folder: Path) -> Signer:
        """The key in that folder, made if there is none."""
        name = "Strongroom packages"
        if not (folder / "pubring.kbx").exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            making = ("--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never")
            _run("gpg", "--homedir", str(folder), "--batch", "--quiet", *making)
        return cls(name, folder)

    def public_key(self) -> bytes:
        """What apt is to trust."""
        return self._gpg("--armor", "--export", self.fingerprint)

    def sign(self, *how: str, text: bytes, time: int) -> bytes:
        """The text signed: `how` is --clear-sign, or --armor --detach-sign.

        The signature is of `time`, as the text is, but never older than its key.
        """
        signing = ("--local-user", self.fingerprint, "--digest-algo", "SHA512", *how)
        signing = ("--faked-system-time", f"{max(time, self._made)}!", *signing)
        return self._gpg(*signing, text=text)

    def end(self) -> None:
        """End the process that gpg leaves behind, where the key is ours."""
        if self._home:
            _run("gpgconf", "--homedir", str(self._home), "--kill", "all")

    def _gpg(self, *words: str, text: bytes = b"") -> bytes:
        home = ("--homedir", str(self._home)) if self._home else ()
        return _run("gpg", *home, "--batch", "--quiet", *words, text=text)


def make(folder: Path, suites: dict[str, Path], time: int, keep: int, signer: Signer) -> None:
    """Write the repository beside its place, then move it there. Raises RepositoryError."""
    new = folder.with_name(f".{folder.name}.new")
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    new.mkdir(parents=True)
    (new / "strongroom.asc").write_bytes(signer.public_key())
    for suite in sorted({*suites, *(path.name for path in folder.glob("dists/*"))}):
        before = folder / "dists" / suite
        given = sorted(suites[suite].glob("*.deb")) if suite in suites else []
        if suite in suites and not given:
            raise RepositoryError(f"there are no packages of {suite}; make packages builds them")
        _make_suite(
            new,
            suite,
            _with_older(given, _packages_of(folder, before), keep),
            max(time, _date_of(before)),
            signer,
        )
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _fields(package: Path) -> dict[str, str]:
    lines = _control(package).splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith(" "))


@functools.cache
def _control(package: Path) -> str:
    return _run("dpkg-deb", "--field", str(package)).decode()


def _packages_of(folder: Path, suite: Path) -> list[Path]:
    """The packages that the index of a suite names, as far as they are there."""
    named = {
        line.removeprefix("Filename: ")
        for index in suite.glob("*/binary-*/Packages")
        for line in index.read_text().splitlines()
        if line.startswith("Filename: ")
    }
    return sorted(path for name in named if (path := folder / name).is_file())


def _date_of(suite: Path) -> int:
    """The date of the index that is there; 0: there is none."""
    if not (suite / "Release").exists():
        return 0
    lines = (suite / "Release").read_text().splitlines()
    date = next(line.removeprefix("Date: ") for line in lines if line.startswith("Date: "))
    return int(parsedate_to_datetime(date).timestamp())


def _with_older(given: list[Path], before: list[Path], keep: int) -> list[Path]:
    """What is given, and the packages of the newest other versions: `keep` versions in all."""
    versions = {_fields(package)["Version"] for package in given}
    older = {_fields(package)["Version"] for package in before} - versions
    newest = sorted(older, key=functools.cmp_to_key(_order))[: max(keep - len(versions), 0)]
    kept = [package for package in before if _fields(package)["Version"] in newest]
    return sorted([*given, *kept], key=lambda package: package.name)


def _order(one: str, other: str) -> int:
    """By which versions are sorted, the newest first."""
    if one == other:
        return 0
    words = ("dpkg", "--compare-versions", one, "gt", other)
    return -1 if subprocess.run(words, check=False).returncode == 0 else 1


def _make_suite(folder: Path, suite: str, packages: list[Path], time: int, signer: Signer) -> None:
    entries: list[tuple[str, str]] = []
    for package in packages:
        control = _control(package)
        place = f"pool/{COMPONENT}/s/strongroom/{package.name}"
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package, folder / place)
        data = package.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        entry = f"{control.rstrip()}\nFilename: {place}\nSize: {len(data)}\nSHA256: {digest}\n"
        entries.append((_fields(package)["Architecture"], entry))
    architectures = sorted({one for one, _ in entries} - {"all"})
    dist = folder / "dists" / suite
    sums: list[str] = []
    for architecture in architectures:
        index = "\n".join(text for one, text in entries if one in {architecture, "all"}).encode()
        name = f"{COMPONENT}/binary-{architecture}/Packages"
        for path, data in (
            (name, index),
            (f"{name}.gz", gzip.compress(index, 9, mtime=0)),
            (f"{name}.xz", lzma.compress(index)),
        ):
            digest = hashlib.sha256(data).hexdigest()
            sums.append(f" {digest} {len(data)} {path}")
            (dist / path).parent.mkdir(parents=True, exist_ok=True)
            (dist / path).write_bytes(data)
    release = "\n".join(
        (
            f"Origin: {ORIGIN}",
            f"Label: {ORIGIN}",
            f"Suite: {suite}",
            f"Codename: {suite}",
            f"Date: {formatdate(time, usegmt=True)}",
            f"Architectures: {' '.join(architectures)}",
            f"Components: {COMPONENT}",
            "SHA256:",
            *sums,
            "",
        )
    ).encode()
    (dist / "Release").write_bytes(release)
    (dist / "Release.gpg").write_bytes(
        signer.sign("--armor", "--detach-sign", text=release, time=time)
    )
    (dist / "InRelease").write_bytes(signer.sign("--clear-sign", text=release, time=time))


def _run(*words: str, text: bytes = b"") -> bytes:
    try:
        done = subprocess.run(words, input=text, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise RepositoryError(f"{words[0]} is missing; install it") from error
    if done.returncode != 0:
        messages = done.stderr.decode(errors="replace").split("\n")
        raise RepositoryError("; ".join(line for line in messages if line) or f"{words[0]} failed")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
