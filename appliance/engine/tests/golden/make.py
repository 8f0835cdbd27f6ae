"""Makes what tests keep of a release: `cd appliance/engine; python -m tests.golden.make`.

Run once for each release, just before it; afterwards what it made is never edited, and never made
anew. It writes, in a folder with the number of the release beside this file,

    repositories.tar.gz    repositories in the folders aes-256-gcm, chacha20-poly1305 and none
    repositories.json.gz   for each repository: put key and restore passphrase, and for each
                           snapshot what `strongroom ls` says of every entry and the SHA-256 of
                           its content
    interfaces.json        what the release promises (interfaces.py)
    inventory/             the example inventory

version-1.tar.gz and version-1.json.gz are repositories of format 1 from before the first release.

The repositories hold what a decoder may meet: every codec, signature and kind of file, several
pages, chunks of large files, sparse extents, attributes, thinned blocks, packs of two prunes, packs
that two clients share and blocks that lost their bytes to them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from golden.interfaces import (
    answers_of_commands,
    answers_of_the_api,
    described_api,
    interfaces,
    write,
)
from kit.director_server import RunningDirector
from kit.project import ENGINE
from kit.user import User
from strongroom import __version__

HERE = Path(__file__).resolve().parent
PASSPHRASE: Final = "golden passphrase"
# Entries name their whole paths, so the place is the same whoever makes them.
TREE = Path("/tmp/strongroom-golden/tree")
SHARED = TREE / "shared"
TIME_NS: Final = 1_700_000_000_123_456_789
ENCRYPTIONS: Final = ("aes-256-gcm", "chacha20-poly1305", "none")


def strongroom(repository: Path, *words: str | Path, data: bytes | None = None) -> list[Any]:
    """Run a command; the JSON objects it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "strongroom", "--json", *map(str, words)],
        env={
            **os.environ,
            "STRONGROOM_REPOSITORY": str(repository),
            "STRONGROOM_PASSWORD": PASSPHRASE,
        },
        input=data or b"",
        stdout=subprocess.PIPE,
        check=True,
    )
    text = done.stdout.strip()
    is_list = text[:1] in ("[", b"[")
    return json.loads(text) if is_list else [json.loads(line) for line in text.splitlines()]


def make_tree(chance: random.Random) -> None:
    """Files of every kind, small ones for the most part."""
    TREE.mkdir(parents=True)
    words = [b"stone", b"iron", b"oak", b"brass", b"slate", b"lime", b"lead", b"copper"]
    page = b" ".join(chance.choices(words, k=2000))
    (TREE / "text").write_bytes(page)
    (TREE / "large").write_bytes(b"".join(b"page %d\n" % number + page for number in range(200)))
    (TREE / "noise").write_bytes(chance.randbytes(3000))
    (TREE / "empty").touch()
    with (TREE / "sparse").open("wb") as file:
        for start in (0, 1 << 20, 5 << 20):
            file.seek(start)
            file.write(chance.randbytes(64) * 64)
        file.truncate(9 << 20)
    (TREE / "link").symlink_to("text")
    os.symlink(b"nowhere/\xff\n", TREE / "dangling")
    os.link(TREE / "text", TREE / "hard")
    os.mkfifo(TREE / "fifo")
    (TREE / "mode").write_bytes(b"mode")
    (TREE / "mode").chmod(0o4751)
    os.setxattr(TREE / "text", "user.colour", b"blue\0green")
    os.setxattr(TREE, "user.empty", b"")
    Path(os.fsdecode(os.fsencode(TREE) + b"/name-\xfe\n\\")).write_bytes(b"odd name")
    for number in range(60):
        path = TREE / f"directory-{number % 4}" / "deeper" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(number * 10))
    os.utime(TREE / "empty", ns=(TIME_NS, -TIME_NS))


def make_repository(repository: Path, encryption: str) -> None:
    """All kinds of objects; of the other ciphers one snapshot is enough."""
    chance = random.Random(encryption)
    make_tree(chance)
    strongroom(repository, "init", "--encryption", encryption)
    backup = ("backup", TREE, "--host", "golden", "--shards", "1", "--share-below", SHARED)
    if encryption == ENCRYPTIONS[0]:
        make_many_snapshots(repository, backup, chance)
    strongroom(repository, *backup, "--tag", "last,of all", "--signature", "sha256")
    strongroom(repository, "check", "--read-data")
    shutil.rmtree(TREE.parent)


def make_many_snapshots(
    repository: Path, backup: tuple[str | Path, ...], chance: random.Random
) -> None:
    """Snapshots of every codec and signature, one of several pages, and what prune makes."""
    wide = TREE / "wide"
    wide.mkdir()
    for number in range(6000):
        os.close(os.open(wide / f"{number:04}", os.O_CREAT | os.O_WRONLY, 0o640))
    strongroom(repository, *backup)
    shutil.rmtree(wide)
    # Half of these stay in use when the snapshot goes: prune then thins their block.
    for number in range(40):
        (TREE / f"passing-{number}").write_bytes(chance.randbytes(500))
    (passing,) = strongroom(repository, *backup, "--job", "passing", "--compression", "zstd19")[-1:]
    for number in range(0, 40, 2):
        (TREE / f"passing-{number}").unlink()
    for number, name in enumerate(("lz4", "lz4hc", "gzip9", "zstd3", "none", "auto")):
        (TREE / f"codec-{name}").write_bytes(f"stored as {name} ".encode() * 300)
        level = ("full", "incremental", "differential")[number % 3]
        signature = ("none", "md5", "sha1", "sha512", "xxh128", "blake3")[number]
        words = ("--compression", name, "--level", level, "--signature", signature)
        strongroom(repository, *backup, "--job", name, "--fileset", "Set", *words)
    stream = ("--stdin", "--stdin-name", "dump.sql", "--host", "golden")
    strongroom(repository, "backup", *stream, data=b"dump;\n" * 9000)
    make_shared(repository, backup, chance)
    strongroom(repository, "forget", passing["snapshot"])
    for _ in range(2):
        strongroom(repository, "prune", "--max-unused", "0", "--grace", "0s")


def make_shared(repository: Path, backup: tuple[str | Path, ...], chance: random.Random) -> None:
    """What two clients have in common: equal blocks, then chunks in blocks that differ."""
    SHARED.mkdir()
    for folder in (TREE.parent, TREE, SHARED):
        folder.chmod(0o755)
    for round_number, hosts_differ in enumerate((False, True)):
        for number in range(20):
            (SHARED / f"{round_number}-{number}").write_bytes(chance.randbytes(number * 40))
            (SHARED / f"{round_number}-{number}").chmod(0o644)
        for host in ("golden", "silver"):
            if hosts_differ:
                (SHARED / "own").write_bytes(host.encode() * 30)
                (SHARED / "own").chmod(0o644)
            strongroom(repository, *backup, "--host", host, "--job", f"share-{round_number}")
        (report,) = strongroom(repository, "share", "--from", "2")[-1:]
        assert report["shared_chunks"] >= 19, report


def describe(repository: Path, work: Path) -> dict[str, Any]:
    """What every later release must find in the repository."""
    put_key = work / "put.key"
    strongroom(repository, "key", "export-put", "--client", "golden", put_key)
    snapshots = {}
    for snapshot in strongroom(repository, "snapshots"):
        if snapshot["type"] != "snapshot":
            continue
        entries = list(strongroom(repository, "ls", snapshot["id"], "/", "-R"))
        target = work / "restored"
        strongroom(repository, "restore", snapshot["id"], "--target", target)
        snapshots[snapshot["id"]] = {
            "snapshot": snapshot,
            "entries": entries,
            "contents": contents(target),
        }
        shutil.rmtree(target)
    key = put_key.read_text()
    put_key.unlink()
    return {"put_key": key, "snapshots": snapshots}


def contents(target: Path) -> dict[str, str]:
    """Path, with stray bytes escaped -> SHA-256 of each regular file below `target`."""
    found = {}
    for folder, _, names in os.walk(target):
        for name in names:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                shown = str(path.relative_to(target)).encode("utf-8", "surrogateescape")
                found[shown.decode("utf-8", "backslashreplace")] = hashlib.sha256(
                    path.read_bytes()
                ).hexdigest()
    return dict(sorted(found.items()))


def make_repositories(folder: Path) -> None:
    """The repositories of the release, and what is expected of them."""
    work = Path(tempfile.mkdtemp())
    described = {}
    with tarfile.open(folder / "repositories.tar.gz", "x:gz", compresslevel=9) as tar:
        for encryption in ENCRYPTIONS:
            make_repository(work / encryption, encryption)
            described[encryption] = describe(work / encryption, work)
            tar.add(work / encryption, encryption)
    with gzip.open(folder / "repositories.json.gz", "xt") as file:
        json.dump(described, file, separators=(",", ":"))
    shutil.rmtree(work)


def make_interfaces(folder: Path) -> None:
    """What the release promises."""
    work = Path(tempfile.mkdtemp())
    promised = interfaces()
    with RunningDirector(work / "director") as director:
        with director.client() as api:
            promised["api"] = described_api(api.get("/openapi.json").json())
        promised["answers of the API"] = answers_of_the_api(director)
    (work / "source").mkdir()
    (work / "user").mkdir()
    user = User(work / "user")
    user.make_repository()
    promised["answers of commands"] = answers_of_commands(user, work / "source")
    write(folder / "interfaces.json", promised)
    shutil.rmtree(work)


def main() -> int:
    folder = HERE / __version__
    if folder.exists():
        raise SystemExit(f"{folder} is there; what is kept of a release is never made anew")
    folder.mkdir()
    make_repositories(folder)
    make_interfaces(folder)
    shutil.copytree(ENGINE.parents[1] / "ansible" / "inventory", folder / "inventory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
