"""Archives whose bytes depend on their contents and one time alone."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path


def write_zip(path: Path | io.BytesIO, entries: Iterable[tuple[str, bytes]], seconds: int, *, packed: bool) -> None:
    """A zip archive of names and contents, sorted by name."""
    method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method, compresslevel=9 if packed else None) as archive:
        for name, content in sorted(entries):
            information = zipfile.ZipInfo(name, time.gmtime(max(seconds, 315_532_800))[:6])
            information.compress_type = method
            information.create_system = 3
            information.external_attr = 0o100644 << 16
            archive.writestr(information, content)


def normalise_tarball(path: Path, seconds: int, changed: dict[str, bytes] | None = None) -> None:
    """Write a .tar.gz anew: sorted, of no one, with one time; contents in `changed` replaced."""
    with tarfile.open(path) as archive:
        members = [(one, file.read() if (file := archive.extractfile(one)) else b"") for one in archive]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for old, content in sorted(members, key=lambda one: one[0].name):
            new = tarfile.TarInfo(old.name)
            data = (changed or {}).get(old.name, content)
            new.type, new.linkname, new.size = old.type, old.linkname, len(data)
            new.mode = 0o755 if old.isdir() or old.mode & 0o100 else 0o644
            new.mtime = seconds
            archive.addfile(new, io.BytesIO(data))
    path.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))
