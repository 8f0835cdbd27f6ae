"""Make a release: one folder from which everything can be installed.

    make_release.py FOLDER --pythons "3.11 3.12" --machines x86_64 --libraries FOLDER --key KEY
                    [--apt FOLDER --suites "trixie bookworm"] [--images FOLDER]

Run by `make release`, which builds the Debian packages and their apt repository first. FOLDER is made beside its place
and put there when it is complete:

    wheels/                the engine, the appliance's program, and every library that they need, as wheels
    *.tar.gz               the same two as source; the Ansible collection
    strongroom.pyz         the one-file program
    apt/                   the signed apt repository, with the Debian packages
    strongroom-*.cdx.json  bills of materials
    images/                the appliance's images, if there are any (--images)
    SHA256SUMS, SHA256SUMS.sig, signer    the digests of all files, signed by KEY; and KEY's public half

The same commit, packages and keys give the same bytes. KEY is a private key of ssh-keygen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [str(PROJECT / "packer")]

from checksums import SUMS, sha256  # noqa: E402
from inventory import Component, bill_of_materials, python_packages  # noqa: E402

import one_file  # noqa: E402
from archives import normalise_tarball  # noqa: E402
from libraries import Target, fetch, needed_by, read_lock, wheels_for  # noqa: E402

NAMESPACE = "strongroom-release"
ENGINE = "appliance/engine"
PROGRAM = "appliance/program"
# Of the Ansible's environment, which has ansible-core and nothing of the engine.
GALAXY = PROJECT / ".venv-ansible" / "bin" / "ansible-galaxy"


def main() -> int:
    """Make it; the exit status."""
    arguments = _arguments()
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    folder: Path = arguments.folder.absolute()
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "wheels").mkdir(parents=True)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        source = Path(work) / "source"
        _export(source)
        version = _version(source)
        if folder.name != version:
            raise SystemExit(f"the folder of version {version} has its name, not {folder.name}")
        _say("source and our own wheels")
        own = _own_distributions(source, new, seconds)
        _say("libraries")
        targets = [Target(one, machine) for machine in arguments.machines for one in arguments.pythons]
        wheels = _libraries(source, new / "wheels", arguments.libraries, targets, Path(work))
        _say("one-file program")
        chosen = {one: [own["strongroom"], *needed_by(own["strongroom"], wheels[one], one)] for one in targets}
        one_file.make(new / "strongroom.pyz", version, chosen, source / "appliance", seconds)
        _say("collection")
        _collection(source, new, seconds)
        bills = {"python": _of_wheels(new / "wheels")}
        if arguments.apt:
            _say("packages")
            shutil.copytree(arguments.apt, new / "apt")
            for suite in arguments.suites:
                bills[f"packages-{suite}"] = _of_packages(new / "apt", suite, version, Path(work))
        if arguments.images:
            shutil.copytree(arguments.images, new / "images")
        for name, components in bills.items():
            bill = bill_of_materials(
                f"strongroom-{name}",
                version,
                datetime.fromtimestamp(seconds, UTC),
                components,
                "application",
            )
            (new / f"strongroom-{version}-{name}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    for name in ("LICENSE", "CHANGELOG.md"):
        shutil.copyfile(PROJECT / name, new / name)
    sign(new, arguments.key)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    _say(f"{folder} is complete")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make_release", description="Make the folder of a release.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pythons", type=str.split, required=True)
    parser.add_argument("--machines", type=str.split, required=True)
    parser.add_argument("--libraries", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--apt", type=Path)
    parser.add_argument("--suites", type=str.split, default=[])
    parser.add_argument("--images", type=Path)
    return parser.parse_args()


def _export(into: Path) -> None:
    """The files of the commit's tree as they are now, without anything that was built in it."""
    listed = _output("git", "-C", PROJECT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        path = PROJECT / name
        if not path.exists() and not path.is_symlink():
            continue
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)
        if not path.is_symlink():
            target.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _version(source: Path) -> str:
    lines = (source / ENGINE / "pyproject.toml").read_text().splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith('version = "'))


def _own_distributions(source: Path, folder: Path, seconds: int) -> dict[str, Path]:
    """Build the sdists, and the wheels from what these contain; name -> wheel."""
    found = {}
    unpacked = source.with_name("unpacked")
    for part, name in ((ENGINE, "strongroom"), (PROGRAM, "strongroom_appliance")):
        shutil.copyfile(source / "LICENSE", source / part / "LICENSE")
        code = "import sys; from importlib import import_module; import_module(sys.argv[1]).build_sdist(sys.argv[2])"
        backend = "with_manuals" if part == ENGINE else "setuptools.build_meta"
        environment = {**os.environ, "PYTHONPATH": str(source / ENGINE / "build_backend")}
        _run(sys.executable, "-c", code, backend, folder, cwd=source / part, env=environment)
        (tarball,) = folder.glob(f"{name}-[0-9]*.tar.gz")
        normalise_tarball(tarball, seconds)
        with tarfile.open(tarball) as archive:
            archive.extractall(unpacked)  # noqa: S202  # made above
        _run(
            *(
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "wheel",
                "--quiet",
                "--no-deps",
            ),
            *("--no-build-isolation", "--no-index", "--wheel-dir", folder / "wheels"),
            unpacked / tarball.name.removesuffix(".tar.gz"),
        )
        (found[name],) = (folder / "wheels").glob(f"{name}-[0-9]*.whl")
    return found


def _libraries(
    source: Path, folder: Path, cache: Path, targets: list[Target], work: Path
) -> dict[Target, dict[str, Path]]:
    """Every library for every target, fetched into `cache` if it is not there; target -> name -> wheel."""
    locked = {
        (one.name, one.version): one
        for lock in (f"{ENGINE}/requirements-runtime.lock", "appliance/release/requirements.lock")
        for one in read_lock(source / lock)
    }.values()
    cache.mkdir(parents=True, exist_ok=True)
    found = {}
    for target in targets:
        try:
            taken = wheels_for(list(locked), target, cache)
        except SystemExit:
            fetch(list(locked), target, cache, work / "libraries.lock")
            taken = wheels_for(list(locked), target, cache)
        for name, wheel in taken.items():
            taken[name] = folder / wheel.name
            if not taken[name].exists():
                shutil.copyfile(wheel, taken[name])
        found[target] = taken
    return found


def _collection(source: Path, folder: Path, seconds: int) -> None:
    _run(GALAXY, "collection", "build", "--force", "--output-path", folder, cwd=source)
    (tarball,) = folder.glob("strongroom-backup-*.tar.gz")
    # Its list of files is in the order of the folders on this disk.
    with tarfile.open(tarball) as archive:
        listed, manifest = (
            json.loads(archive.extractfile(name).read())  # type: ignore[union-attr]
            for name in ("FILES.json", "MANIFEST.json")
        )
    listed["files"].sort(key=lambda one: one["name"])
    files = _json(listed)
    path = folder / "FILES.json"
    path.write_bytes(files)
    manifest["file_manifest_file"]["chksum_sha256"] = sha256(path)
    path.unlink()
    normalise_tarball(tarball, seconds, {"FILES.json": files, "MANIFEST.json": _json(manifest)})


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"


def _of_wheels(folder: Path) -> list[Component]:
    found = {}
    for wheel in sorted(folder.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        name = name.lower().replace("_", "-")
        found[name, version] = Component(name, version, f"pkg:pypi/{name}@{version}")
    return list(found.values())


def _of_packages(apt: Path, suite: str, version: str, work: Path) -> list[Component]:
    """Our packages of a suite, and the libraries that they contain."""
    release = {"bookworm": "deb12", "trixie": "deb13"}[suite]
    tree = work / suite
    found = []
    for package in sorted(apt.glob(f"pool/**/*_{version}-*~{release}_*.deb")):
        name, full, architecture = package.stem.split("_")
        purl = f"pkg:deb/debian/{name}@{full}?arch={architecture}&distro=debian-{release[3:]}"
        found.append(Component(name, full, purl))
        _run("dpkg-deb", "--extract", package, tree)
    if not found:
        raise SystemExit(f"build/packages/apt has no packages of {version} for {suite}: make packages")
    return found + python_packages(tree / "opt/strongroom")


def sign(folder: Path, key: Path) -> None:
    """Write the digests of all files, signed by `key`, and its public half."""
    public = _output("ssh-keygen", "-y", "-f", key).split()[:2]
    (folder / "signer").write_text(f'{NAMESPACE} namespaces="{NAMESPACE}" {" ".join(public)}\n')
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{sha256(path)}  {path.relative_to(folder)}\n" for path in paths]
    (folder / SUMS).write_text("".join(lines))
    _run("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", NAMESPACE, folder / SUMS)


def _run(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} failed:\n{done.stdout}{done.stderr}")


def _output(*words: str | Path) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _say(what: str) -> None:
    sys.stderr.write(f"release: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
