"""Manifest and SHA256SUMS of what is released.

checksums.py FOLDER: bring both up to date with what is there.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

SUMS = "SHA256SUMS"
MANIFEST = ".manifest.json"


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, with every other file of the folder, and then the sums of all."""
    for old in (*folder.glob(f"*{MANIFEST}"), *folder.glob(f"{SUMS}*")):
        old.unlink()
    files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in sorted(folder.iterdir())}
    place = folder / f"{manifest['name']}{MANIFEST}"
    place.write_text(json.dumps({**manifest, "files": files}, indent=1) + "\n")
    digests = {name: one["sha256"] for name, one in files.items()} | {place.name: sha256(place)}
    (folder / SUMS).write_text("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))


def main() -> None:
    """Bring both up to date with what is in the folder now."""
    folder = Path(sys.argv[1])
    [place] = folder.glob(f"*{MANIFEST}")
    write_manifest(folder, json.loads(place.read_text()))


if __name__ == "__main__":
    main()
