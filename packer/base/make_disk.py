"""Make a disk that starts by BIOS and by UEFI from a root as a tar file: make_disk.py ROOT.tar DISK.raw.

Runs among the tools (in_tools.sh), and needs no loop device. The same tar file and SOURCE_DATE_EPOCH give the same
bytes.

Partitions, whose numbers grub.cfg knows: 1 GRUB for BIOS, 2 boot partition (FAT, also UEFI's), 3 and 4 the two roots,
a and b, 5 the state. Root b is empty.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

MIB = 1 << 20
SECTOR = 512
LINUX_ROOT = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
# Name, type, size in MiB.
PARTITIONS = (
    ("strongroom-bios", "21686148-6449-6E6F-744E-656564454649", 1),
    ("strongroom-boot", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", 64),
    ("strongroom-a", LINUX_ROOT, 2048),
    ("strongroom-b", LINUX_ROOT, 2048),
    ("strongroom-state", "0FC63DAF-8483-4772-8E79-3D69D8477DE4", 2048),
)
MODULES = [
    *("part_gpt", "fat", "ext2", "normal", "configfile", "linux", "test", "regexp", "loadenv"),
    *("echo", "serial", "terminal", "minicmd", "boot", "reboot", "halt", "sleep"),
]
NAMES = uuid.UUID("6a2e8f0e-31a5-4ab2-9a3d-57b0c3ab12c9")
HERE = Path(__file__).resolve().parent


def run(*command: str | Path) -> None:
    """Run a tool; its error ends the program."""
    subprocess.run([str(one) for one in command], check=True, stdout=subprocess.DEVNULL)


def starts() -> list[int]:
    """Where each partition begins, in sectors."""
    places, at = [], MIB // SECTOR
    for _, _, size in PARTITIONS:
        places.append(at)
        at += size * MIB // SECTOR
    return places


def write_table(disk: Path) -> None:
    """Write an empty disk with its table of partitions."""
    size = sum(one[2] for one in PARTITIONS) * MIB + 2 * MIB
    with disk.open("wb") as file:
        file.truncate(size)
    lines = ["label: gpt", f"label-id: {uuid.uuid5(NAMES, 'disk')}"]
    for start, (name, kind, mebibytes) in zip(starts(), PARTITIONS, strict=True):
        sectors = mebibytes * MIB // SECTOR
        lines.append(f"start={start}, size={sectors}, type={kind}, name={name}, uuid={uuid.uuid5(NAMES, name)}")
    subprocess.run(["sfdisk", "--quiet", disk], input="\n".join(lines), text=True, check=True)


def make_ext4(file: Path, name: str, mebibytes: int, content: Path | None) -> None:
    """Make a file system with the content of a tar file."""
    with file.open("wb") as made:
        made.truncate(mebibytes * MIB)
    identity = uuid.uuid5(NAMES, name + " file system")
    # The same seed gives folders the same order.
    settings = ["-L", name, "-U", str(identity), "-E", f"hash_seed={identity}", "-m", "1"]
    run("mkfs.ext4", "-q", "-F", *settings, *(["-d", str(content)] if content else []), file)


def make_boot_partition(file: Path, work: Path, mebibytes: int) -> None:
    """Make the boot partition: GRUB for UEFI, grub.cfg and grubenv."""
    with file.open("wb") as made:
        made.truncate(mebibytes * MIB)
    run("mkfs.vfat", "--invariant", "-F", "32", "-n", "STRONGBOOT", file)
    efi, environment = work / "BOOTX64.EFI", work / "grubenv"
    run("grub-mkimage", "-O", "x86_64-efi", "-p", "(,gpt2)/grub", "-o", efi, *MODULES, "efi_gop", "all_video")
    run("grub-editenv", environment, "create")
    run("grub-editenv", environment, "set", "a_state=good", "b_state=0", "order=a b")
    run("mmd", "-i", file, "::/EFI", "::/EFI/BOOT", "::/grub")
    for source, place in ((efi, "/EFI/BOOT"), (HERE / "grub.cfg", "/grub"), (environment, "/grub")):
        run("mcopy", "-i", file, source, f"::{place}/")


def make_bios_code(work: Path, start: int) -> tuple[bytes, bytes]:
    """Make what grub-bios-setup would write: the boot code of the first sector, and the core that begins at START."""
    core_file = work / "core.img"
    run("grub-mkimage", "-O", "i386-pc", "-p", "(,gpt2)/grub", "-o", core_file, "biosdisk", *MODULES)
    code = bytearray(Path("/usr/lib/grub/i386-pc/boot.img").read_bytes()[:440])
    core = bytearray(core_file.read_bytes())
    if len(core) > PARTITIONS[0][2] * MIB:
        raise SystemExit("GRUB does not fit into its partition")
    struct.pack_into("<Q", code, 0x5C, start)
    # Take the number of the disk from the BIOS, as it is.
    code[0x66:0x68] = b"\x90\x90"
    # The first sector of the core lists where the rest is: start, sectors, segment.
    struct.pack_into("<QHH", core, 0x1F4, start + 1, (len(core) - 1) // SECTOR, 0x820)
    return bytes(code), bytes(core)


def copy_sparse(source: Path, disk: Path, start: int) -> None:
    """Copy a file system to its partition, and leave holes."""
    place = f"seek={start * SECTOR // MIB}"
    run("dd", "status=none", f"if={source}", f"of={disk}", f"bs={MIB}", place, "conv=notrunc,sparse")


def main() -> None:
    """Make the disk that the arguments name."""
    content, disk = Path(sys.argv[1]), Path(sys.argv[2])
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    places = starts()
    with tempfile.TemporaryDirectory(dir=disk.resolve().parent) as folder:
        work = Path(folder)
        write_table(disk)
        for start, (name, _, mebibytes) in list(zip(places, PARTITIONS, strict=True))[1:]:
            file = work / name
            if name == "strongroom-boot":
                make_boot_partition(file, work, mebibytes)
            elif name != "strongroom-b":
                make_ext4(file, name, mebibytes, content if name == "strongroom-a" else None)
            else:
                continue
            copy_sparse(file, disk, start)
            file.unlink()
        code, core = make_bios_code(work, places[0])
        with disk.open("r+b") as file_of_disk:
            file_of_disk.write(code)
            file_of_disk.seek(places[0] * SECTOR)
            file_of_disk.write(core)


if __name__ == "__main__":
    main()
