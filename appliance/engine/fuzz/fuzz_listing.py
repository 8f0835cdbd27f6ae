"""Coverage-guided fuzzing of the listing page decoder.

    python fuzz/fuzz_listing.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_listing.py DIRECTORY [libFuzzer options]

Whatever the bytes are, decoding gives rows or DamageError. What decodes is well formed: it can be
written again, and that page decodes to the same rows, which hold no name that leads elsewhere.
"""

from __future__ import annotations

import hashlib
import random
import sys
from array import array
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["strongroom"]):
    from strongroom.base.errors import DamageError
    from strongroom.engine.repository.listing.page import decode_page, encode_page
    from strongroom.engine.rows.rows import CHANGED, UNREADABLE, Rows, new_rows
    from strongroom.engine.rows.views import views
    from strongroom.engine.scan.attributes import encode_xattrs


def check_page(data: bytes) -> None:
    try:
        groups = decode_page(data)
    except DamageError:
        return
    for rows in groups:
        for view in views(rows):
            assert b"/" not in view.name
            assert b"\0" not in view.name
            assert view.name not in (b".", b"..")
            assert b".." not in view.path.split(b"/")
    assert decode_page(encode_page(groups)) == groups


def seed_pages() -> list[bytes]:
    """Small pages that use every part of the format."""
    plain = seed_rows(b"home/ann", [b"a", b"file1", b"file2", "é".encode()])
    rich = seed_rows(b"home/bob", [b"%03d" % number for number in range(20)])
    rich.part_counts = array("I", [number % 3 for number in range(20)])
    count = sum(rich.part_counts)
    rich.part_blocks = b"".join(bytes((number // 4,)) * 24 for number in range(count))
    rich.part_slots = array("H", [number % 4 for number in range(count)])
    rich.targets = {1: b"../elsewhere", 2: b"\xff"}
    rich.xattrs = {3: encode_xattrs([(b"user.a", b"1")]), 4: encode_xattrs([(b"user.b", b"")])}
    rich.flags = {5: 0x40}
    rich.states = {6: UNREADABLE, 7: CHANGED}
    rich.extents = {8: [(0, 4096), (1 << 40, 1)]}
    signed = seed_rows(b"signed", [b"x", b"y"])
    signed.signature_name, signed.signatures = "md5", bytes(range(32))
    root = seed_rows(b"", [b"", b"home"])
    wide = seed_rows(b"wide", [b"file%05d" % number for number in range(300)])
    many = [seed_rows(b"many/d%03d" % number, [b"Makefile"]) for number in range(40)]
    pages = [[plain], [rich], [signed], [root, plain, rich], [wide], many]
    return [encode_page(page) for page in pages]


def seed_rows(directory: bytes, names: list[bytes]) -> Rows:
    chance = random.Random(directory)
    stats = array("q")
    for number in range(len(names)):
        when = 1_700_000_000_000_000_000 + chance.randrange(10**12)
        mode = chance.choice([0o100644, 0o40755, 0o120777])
        stats.extend((mode, 1000, 1000, chance.randrange(10**6), when, when, number, 65, 1, 0))
    return new_rows(directory, names, stats)


def main() -> None:
    if sys.argv[1:2] == ["--seeds"]:
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for page in seed_pages():
            (folder / hashlib.sha256(page).hexdigest()[:16]).write_bytes(page)
        return
    atheris.Setup(sys.argv, check_page)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
