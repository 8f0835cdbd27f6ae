"""Backups by a FileSet, with the real program and a real repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.user import Outcome, User
from strongroom.engine.content.codecs import GZIP, NONE
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.rows.views import views
from strongroom.engine.stores.local import LocalStore


def back_up(user: User, body: str, *words: str, code: int = 0) -> Outcome:
    file = user.folder / "fileset.conf"
    file.write_text(f'FileSet {{\n Name = "Set"\n {body}\n}}\n')
    return user.backup("--fileset-config", f"{file}:Set", *words, code=code)


def fill(source: Path, **files: bytes) -> None:
    for name, data in files.items():
        path = source / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_a_fileset_backs_up_what_it_says(user: User, source: Path) -> None:
    fill(source, a_txt=b"a", b_tmp=b"b", keep__c_tmp=b"c", out__d=b"d", cache__nobackup=b"")
    outcome = back_up(
        user,
        f"""Include {{
              Options {{ WildFile = "*/keep/*.tmp" }}
              Options {{ Exclude = yes; WildFile = "*.tmp"; RegexDir = "/out$" }}
              Options {{ Signature = MD5 }}
              File = {source}
              File = {source}/none
              Exclude Dir Containing = nobackup
            }}""",
        code=3,
    )
    assert user.names(source) == {"a.txt", "keep", "keep/c.tmp"}
    assert list(outcome.problems) == [f"{source}/none"]
    (snapshot,) = user.snapshots()
    assert snapshot["fileset"] == "Set"
    assert back_up(user, f"Include {{ File = {source} }}").summary["files_read"] == 5


def test_a_second_backup_reads_only_what_changed(user: User, source: Path) -> None:
    fill(source, a=b"a", b_gz=b"b" * 5000, c=b"c")
    body = f"""Include {{ File = {source}
                 Options {{ Compression = none; AclSupport = no; WildFile = "*.gz" }}
                 Options {{ Compression = gzip9; Signature = sha256 }} }}"""
    back_up(user, body)
    fill(source, c=b"changed")
    assert back_up(user, body).summary["files_read"] == 1
    # Which files have signatures is another matter now, so nothing is taken over.
    other = body.replace("*.gz", "a")
    assert back_up(user, other).summary["files_read"] == 3


@pytest.mark.parametrize("words", [("--workers=2",), ("--scan-threads=4",), ()])
def test_files_are_compressed_signed_and_kept_as_their_block_says(
    user: User, source: Path, words: tuple[str, ...]
) -> None:
    for kind in ("raw", "zip"):
        (source / f"small.{kind}").write_bytes(kind.encode() * 3000)
        (source / f"large.{kind}").write_bytes(kind.encode() * 1_000_000)
        for number in range(24):  # more than a shard reads itself of one directory
            (source / f"{number}.{kind}").write_bytes(os.urandom(1 << 10) * (1 << 9))
    os.setxattr(source / "small.raw", "user.colour", b"blue")
    os.setxattr(source / "small.zip", "user.colour", b"red")
    back_up(
        user,
        f"""Include {{ File = {source}
              Options {{ Compression = none; Signature = none; XattrSupport = no; Wild = "*.raw" }}
              Options {{ Compression = gzip; Signature = md5 }} }}""",
        *words,
    )
    repository = Repository.open(LocalStore(str(user.repository)), b"correct horse")
    (snapshot,) = repository.snapshots()
    blocks = repository.load_index().of_client(snapshot.owner)
    listing = Listing(repository.snapshot(snapshot.id).pages, repository.block_reader(blocks))
    codecs = {
        (os.path.splitext(row.name)[1], blocks.locate(block).codec)
        for rows in listing.rows(os.fsencode(source).strip(b"/"))
        for row in views(rows)
        for block, _ in row.parts
    }
    assert codecs == {(b".raw", NONE), (b".zip", GZIP)}
    signed = {
        row.name: any(row.signature)
        for rows in listing.rows(os.fsencode(source).strip(b"/"))
        for row in views(rows)
    }
    assert signed == {name: name.endswith(b".zip") for name in signed}
    target = user.restore() / str(source).lstrip("/")
    assert os.listxattr(target / "small.zip") == ["user.colour"]
    assert os.listxattr(target / "small.raw") == []
    assert (target / "large.zip").read_bytes() == b"zip" * 1_000_000


def test_streams_of_plugins_stand_beside_paths(user: User, source: Path) -> None:
    fill(source, a=b"a")
    body = f"""Include {{ File = {source}
                 Plugin = "bpipe:file=/x/0first:reader=echo first:writer=cat"
                 Plugin = "bpipe:file=/x/zlast:reader=echo last:writer=cat" }}"""
    back_up(user, body, code=9)
    back_up(user, body, "--allow-commands")
    back_up(user, body, "--allow-commands")
    restored = user.restore()
    assert (restored / "0first").read_bytes() == b"first\n"
    assert (restored / "zlast").read_bytes() == b"last\n"
    assert (restored / str(source).lstrip("/") / "a").read_bytes() == b"a"
    top = str(source).split("/")[1]
    back_up(user, body.replace("zlast", top), "--allow-commands", code=4)
    back_up(user, body.replace("echo last", "false"), "--allow-commands", code=4)


def test_other_ways_to_say_what_to_back_up_are_refused(user: User, source: Path) -> None:
    for words in ([str(source)], ["--stdin"], ["-e", "*.tmp"], ["-x"], ["--source", "command"]):
        back_up(user, f"Include {{ File = {source} }}", *words, code=2)


def test_a_dry_run_and_a_damaged_regular_expression(user: User, source: Path) -> None:
    fill(source, a=b"a")
    outcome = back_up(user, f"Include {{ File = {source} }}", "--dry-run")
    assert outcome.summary["files"] == 1
    assert user.snapshots() == []
    wrong = f'Include {{ File = {source}\n Options {{ Exclude = yes; Regex = "a**{{" }} }}'
    assert back_up(user, wrong, code=40).error == "configuration"
