"""Make the ISO of an image: make_iso.py DISK.raw TARGET.iso --time T.

Runs among the tools (in_tools.sh). The ISO starts by BIOS and by UEFI, as a CD and as a disk (hybrid). It holds the
disk of the image as one file in a squashfs: root a is started from it, and the installer copies it. Kernel and initial
RAM disk are those of root a; a second, small archive adds how a root is found on the medium (live.sh). The same disk
and time give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
# Where root a begins, see ../base/make_disk.py.
ROOT_OFFSET = 66 * MIB
VOLUME = "STRONGROOM_ISO"
MODULES = [
    *("iso9660", "part_gpt", "part_msdos", "fat", "normal", "configfile", "linux", "search", "search_fs_file"),
    *("test", "echo", "serial", "terminal", "minicmd", "boot", "reboot", "halt", "sleep", "all_video"),
]
REGULAR, FOLDER = 0o100644, 0o040755


def run(*command: str | Path) -> None:
    """Run a tool; its error ends the program, with what it printed."""
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed ({done.returncode}): {(done.stderr or done.stdout)[-2000:].strip()}")


def from_root(raw: Path, command: str) -> str:
    """What debugfs says of root a."""
    words = ["debugfs", "-R", command, f"{raw}?offset={ROOT_OFFSET}"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def file_of_root(raw: Path, name: str, target: Path) -> None:
    """Copy a file of root a."""
    from_root(raw, f"dump {name} {target}")
    if not target.exists() or not target.stat().st_size:
        raise SystemExit(f"the image has no {name}")


def name_in_boot(raw: Path, begin: str) -> str:
    """The one file in /boot with this begin."""
    found = re.findall(rf"/({re.escape(begin)}[^/]+)/", from_root(raw, "ls -p /boot"))
    if len(found) != 1:
        raise SystemExit(f"the image has {len(found)} files /boot/{begin}*, and not one")
    return f"/boot/{found[0]}"


def archive(files: dict[str, bytes]) -> bytes:
    """An initial RAM disk with these files (cpio, newc), each owned by root and of no time."""
    packed = bytearray()
    entries = {name: (REGULAR, content) for name, content in files.items()}
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    entries |= dict.fromkeys(folders, (FOLDER, b""))
    for number, (name, (mode, content)) in enumerate([*sorted(entries.items()), ("TRAILER!!!", (0, b""))], 1):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        packed += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        packed += bytes(-len(packed) % 4)
        packed += content
        packed += bytes(-len(packed) % 4)
    return bytes(packed)


def pack_image(raw: Path, work: Path, target: Path) -> None:
    """Put the disk and its digest into a squashfs."""
    folder = work / "image"
    folder.mkdir()
    os.link(raw, folder / "appliance.raw")
    with raw.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    (folder / "appliance.raw.sha256").write_text(f"{digest}  appliance.raw\n")
    for path in (folder / "appliance.raw.sha256", folder):
        path.chmod(0o755 if path.is_dir() else 0o644)
    raw.chmod(0o644)
    options = ["-all-root", "-no-xattrs", "-no-exports", "-noappend", "-b", "256K"]
    # Times later than SOURCE_DATE_EPOCH become that.
    run("mksquashfs", folder, target, *options, "-comp", "zstd", "-Xcompression-level", "15", "-quiet", "-no-progress")


def make_boot_code(work: Path, tree: Path, identity: str) -> None:
    """Make GRUB for BIOS (El Torito) and, in its own file system, for UEFI."""
    early = work / "early.cfg"
    early.write_text((HERE / "early.cfg").read_text().replace("@ID@", identity))
    settings: list[str | Path] = ["-c", early, "-p", "/boot/grub"]
    run("grub-mkimage", "-O", "i386-pc-eltorito", *settings, "-o", tree / "boot/grub/bios.img", "biosdisk", *MODULES)
    run("grub-mkimage", "-O", "x86_64-efi", *settings, "-o", work / "BOOTX64.EFI", "efi_gop", *MODULES)
    efi = tree / "boot/grub/efi.img"
    with efi.open("wb") as file:
        file.truncate(4 * MIB)
    run("mkfs.vfat", "--invariant", "-F", "12", "-n", "STRONGEFI", efi)
    run("mmd", "-i", efi, "::/EFI", "::/EFI/BOOT")
    run("mcopy", "-i", efi, work / "BOOTX64.EFI", "::/EFI/BOOT/")


def write_iso(tree: Path, target: Path, time: int) -> None:
    """Write the tree so that both kinds of firmware start it, from a CD and from a disk."""
    date = subprocess.check_output(["date", "-u", f"--date=@{time}", "+%Y%m%d%H%M%S00"], text=True).strip()
    options: list[str | Path] = ["-volid", VOLUME, "-r", "-J", "-joliet-long", f"--modification-date={date}"]
    options += ["-b", "boot/grub/bios.img", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"]
    options += ["--grub2-boot-info", "--grub2-mbr", "/usr/lib/grub/i386-pc/boot_hybrid.img"]
    options += ["--protective-msdos-label", "--efi-boot", "boot/grub/efi.img", "-efi-boot-part", "--efi-boot-image"]
    run("xorriso", "-as", "mkisofs", *options, "-o", target, tree)


def main() -> None:
    """Make the ISO that the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("raw", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--time", type=int, required=True)
    arguments = parser.parse_args()
    os.environ["SOURCE_DATE_EPOCH"] = str(arguments.time)
    with tempfile.TemporaryDirectory(dir=arguments.target.resolve().parent) as folder:
        work = Path(folder)
        tree = work / "tree"
        for name in ("boot/grub", "strongroom"):
            (tree / name).mkdir(parents=True)
        file_of_root(arguments.raw, "/usr/lib/strongroom/image/id", work / "id")
        identity = (work / "id").read_text().strip()
        file_of_root(arguments.raw, name_in_boot(arguments.raw, "vmlinuz-"), tree / "boot/vmlinuz")
        file_of_root(arguments.raw, name_in_boot(arguments.raw, "initrd.img-"), tree / "boot/initrd.img")
        (tree / "boot/live.cpio").write_bytes(archive({"scripts/strongroom": (HERE / "live.sh").read_bytes()}))
        (tree / "boot/grub/grub.cfg").write_text((HERE / "grub.cfg").read_text().replace("@ID@", identity))
        for name, text in (("id", f"{identity}\n"), (identity, ""), ("root-offset", f"{ROOT_OFFSET}\n")):
            (tree / "strongroom" / name).write_text(text)
        pack_image(arguments.raw, work, tree / "strongroom/appliance.squashfs")
        make_boot_code(work, tree, identity)
        for path in [tree, *sorted(tree.rglob("*"))]:
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.utime(path, (arguments.time, arguments.time))
        write_iso(tree, work / "iso", arguments.time)
        (work / "iso").rename(arguments.target)


if __name__ == "__main__":
    main()
