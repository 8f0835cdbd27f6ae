"""Write an update file from the file system of a root.

update_file.py ROOT KEY.pem TARGET --image ID --version V: ROOT is compressed, its digest put into a manifest, and the
manifest signed by the Ed25519 key. Needs openssl and zstd. What the appliance makes of the file is in
strongroom_appliance.updates.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path


def signature(manifest: bytes, key: Path, work: Path) -> bytes:
    """Sign by openssl, which asks for the passphrase of a key that has one."""
    text, signed = work / "manifest.json", work / "manifest.sig"
    text.write_bytes(manifest)
    command: list[str | Path] = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", text, "-out", signed]
    subprocess.run(command, check=True)
    return signed.read_bytes()


def write_update(root: Path, key: Path, target: Path, image: str, version: str, level: int) -> None:
    """Write it; the same root, key and words give the same bytes."""
    with root.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    manifest_file = {"type": "strongroom-update", "version": version, "image": image}
    manifest = json.dumps({**manifest_file, "bytes": root.stat().st_size, "sha256": digest}, indent=1).encode() + b"\n"
    with tempfile.TemporaryDirectory(dir=target.resolve().parent) as folder:
        work = Path(folder)
        packed = work / "root.zst"
        # With room for the window that the appliance permits.
        subprocess.run(["zstd", "--quiet", f"-{level}", "-T0", "-f", root, "-o", packed], check=True)
        members = (("manifest.json", manifest), ("manifest.sig", signature(manifest, key, work)))
        with tarfile.open(work / "update", "w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in members:
                archive.addfile(member(name, len(content)), io.BytesIO(content))
            with packed.open("rb") as file:
                archive.addfile(member("root.zst", packed.stat().st_size), file)
        (work / "update").rename(target)


def member(name: str, size: int) -> tarfile.TarInfo:
    """The head of a file of no one in particular."""
    made = tarfile.TarInfo(name)
    made.size = size
    return made


def main() -> None:
    """Write what the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("key", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--image", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--level", type=int, default=10, help="of zstd")
    arguments = parser.parse_args()
    write_update(arguments.root, arguments.key, arguments.target, arguments.image, arguments.version, arguments.level)


if __name__ == "__main__":
    main()
