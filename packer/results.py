"""Write what is released from a finished disk: results.py FOLDER --base NAME --version V --time T FORMAT...

Runs among the tools (in_tools.sh). FOLDER has the disk as Packer left it, which is replaced by disks in the formats
that are wanted, SHA256SUMS, a bill of materials (CycloneDX) and a manifest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from checksums import sha256, write_manifest
from inventory import Component, bill_of_materials, debian_packages, python_packages
from virtual_appliance import description

MIB = 1 << 20
# Where root a begins, see base/make_disk.py.
ROOT_OFFSET = 66 * MIB
CONVERSIONS = {
    "qcow2": ["-O", "qcow2", "-c", "-o", "compression_type=zstd"],
    "raw": ["-O", "raw", "-S", "64k"],
    "vmdk": ["-O", "vmdk", "-o", "subformat=streamOptimized"],
    "vhdx": ["-O", "vhdx", "-o", "subformat=dynamic"],
}


def convert(source: Path, target: Path, format_name: str) -> None:
    """Convert the disk."""
    subprocess.run(["qemu-img", "convert", *CONVERSIONS[format_name], source, target], check=True)


def read_root(raw: Path, paths: list[str], into: Path) -> None:
    """Copy folders of root a, without mounting it."""
    for path in paths:
        place = into / path.strip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        command = ["debugfs", "-R", f"rdump {path} {place.parent}", f"{raw}?offset={ROOT_OFFSET}"]
        subprocess.run(command, check=True, capture_output=True)
        if not place.exists():
            raise SystemExit(f"the image has no {path}")


def components_of(raw: Path) -> list[Component]:
    """What is installed in the image."""
    with tempfile.TemporaryDirectory(dir=raw.resolve().parent) as folder:
        read_root(raw, ["/usr/lib/sysimage/dpkg", "/opt/strongroom"], Path(folder))
        status = Path(folder) / "usr/lib/sysimage/dpkg/status"
        return debian_packages(status.read_text()) + python_packages(Path(folder) / "opt/strongroom")


def write_ova(disk: Path, target: Path, name: str, capacity: int) -> None:
    """Write an OVA: description, checksums and disk, in this order."""
    ovf = description(name, disk.name, disk.stat().st_size, capacity).encode()
    sums = f"SHA256({name}.ovf)= {hashlib.sha256(ovf).hexdigest()}\nSHA256({disk.name})= {sha256(disk)}\n".encode()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file_name, content in ((f"{name}.ovf", ovf), (f"{name}.mf", sums)):
            path = Path(folder) / file_name
            path.write_bytes(content)
            archive.add(path, file_name, filter=without_owner)
        archive.add(disk, disk.name, filter=without_owner)


def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same file of no one in particular."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


def wanted() -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("formats", nargs="+", choices=[*CONVERSIONS, "ova"])
    for name in ("base", "version", "commit", "accelerator"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--time", type=int, required=True)
    return parser.parse_args()


def main() -> None:
    """Write the results."""
    arguments = wanted()
    folder: Path = arguments.folder
    name = f"strongroom-{arguments.version}-amd64"
    disk, raw = folder / "disk", folder / f"{name}.raw"
    # Packer leaves a qcow2, a container nothing but the raw disk.
    convert(disk, raw, "raw")
    disk.unlink()
    for format_name in arguments.formats:
        if format_name in ("qcow2", "vhdx") or (format_name == "vmdk" and "ova" not in arguments.formats):
            convert(raw, folder / f"{name}.{format_name}", format_name)
    if "ova" in arguments.formats:
        vmdk = folder / f"{name}.vmdk"
        convert(raw, vmdk, "vmdk")
        write_ova(vmdk, folder / f"{name}.ova", name, raw.stat().st_size)
        if "vmdk" not in arguments.formats:
            vmdk.unlink()
    components = components_of(raw)
    bill = bill_of_materials(name, arguments.version, datetime.fromtimestamp(arguments.time, UTC), components)
    (folder / f"{name}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    capacity = raw.stat().st_size
    if "raw" not in arguments.formats:
        raw.unlink()
    manifest = {
        "name": name,
        "version": arguments.version,
        "commit": arguments.commit,
        "time": datetime.fromtimestamp(arguments.time, UTC).isoformat(),
        "architecture": "amd64",
        "debian": "trixie",
        "base": arguments.base,
        "built_with": arguments.accelerator,
        "disk_bytes": capacity,
        "kernel": next((one.version for one in components if one.name.startswith("linux-image-6")), ""),
        "packages": {one.name: one.version for one in components if one.name.startswith("strongroom")},
    }
    write_manifest(folder, manifest)


if __name__ == "__main__":
    main()
