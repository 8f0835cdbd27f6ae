"""Where an answer file is looked for, in this order; the first that is there is taken.

/run/strongroom/answers.yml; the system credential strongroom.answers; the kernel's command line;
the ISO that this was started from; a disk labelled STRONGROOM; user-data of cloud-init on a disk
labelled cidata; an EFI partition of this machine, where the installer puts it. The installer itself
does not look there: what it put to a disk is no order to install again.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from strongroom.base.errors import StrongroomError, UsageError
from strongroom.base.printable import printable
from strongroom_appliance.answers.nodes import MOST_BYTES
from strongroom_appliance.disks.looking import tags
from strongroom_appliance.disks.partitions import EFI_PARTITION
from strongroom_appliance.machine import RUN_FOLDER, run, run_for_code, settle

RUN_FILE: Final = f"{RUN_FOLDER}/answers.yml"
ON_EFI: Final = "strongroom-answers.yml"
ON_MEDIUM: Final = "/run/live/medium/answers.yml"
_CREDENTIAL: Final = "strongroom.answers"
_OPTION: Final = "strongroom.answers="
_LABEL: Final = "STRONGROOM"
_CLOUD_LABELS: Final = ("cidata", "CIDATA")
_FILE_SYSTEMS: Final = "vfat,iso9660,ext4"
_HEAD: Final = "#cloud-config"


@dataclass(frozen=True, slots=True)
class Found:
    """An answer file. where: in words."""

    data: bytes
    where: str


def find_answers(*, installs: bool = False) -> Found | None:
    """The answers, None if there are none. Raises StrongroomError for a source that is wrong."""
    for found in _sources():
        return found
    for device in () if installs else efi_partitions():
        data = file_on(device, ON_EFI)
        if data is not None:
            return Found(data, f"the installer ({device})")
    return None


def _sources() -> Iterator[Found]:
    data = _file(RUN_FILE)
    if data is not None:
        yield Found(data, RUN_FILE)
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    data = _file(os.path.join(folder, _CREDENTIAL)) if folder else None
    if data is not None:
        yield Found(data, f"the credential {_CREDENTIAL}")
    yield from _command_line()
    data = _file(ON_MEDIUM)
    if data is not None:
        yield Found(data, f"the ISO ({ON_MEDIUM})")
    settle()
    device = _labelled(_LABEL)
    if device:
        data = file_on(device, "answers.yml")
        if data is not None:
            yield Found(data, f"the disk {_LABEL} ({device})")
    for label in _CLOUD_LABELS:
        device = _labelled(label)
        data = file_on(device, "user-data") if device else None
        answers = from_user_data(data) if data is not None else None
        if answers is not None:
            yield Found(answers, f"user-data on the disk {label} ({device})")


def _command_line() -> Iterator[Found]:
    with open("/proc/cmdline", encoding="utf-8", errors="replace") as file:
        words = file.read().split()
    for word in words:
        if not word.startswith(_OPTION):
            continue
        value = word.removeprefix(_OPTION)
        if value.startswith("base64:"):
            try:
                data = base64.b64decode(value.removeprefix("base64:"), validate=True)
            except (ValueError, binascii.Error) as error:
                raise UsageError(
                    f"kernel command line: {_OPTION}base64: is not base64; use `base64 -w0`"
                ) from error
            yield Found(data, "the kernel command line")
        elif value.startswith("LABEL=") and ":/" in value:
            label, _, path = value.removeprefix("LABEL=").partition(":/")
            device = _labelled(label)
            found = file_on(device, path) if device else None
            if found is None:
                raise UsageError(
                    f"kernel command line: there is no disk {printable(label)} with "
                    f"{printable(path)}"
                )
            yield Found(found, f"{printable(path)} on the disk {printable(label)} ({device})")
        else:
            raise UsageError(
                f"kernel command line: {_OPTION} needs base64:TEXT or LABEL=NAME:/PATH"
            )


def from_user_data(data: bytes) -> bytes | None:
    """The answers that cloud-init's write_files would put in place; None if there are none."""
    text = data.decode("utf-8", "replace")
    if not text.startswith(_HEAD):
        return None
    try:
        given = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"user-data is not YAML: {printable(str(error), 200)}") from error
    files = given.get("write_files") if isinstance(given, dict) else None
    for one in files if isinstance(files, list) else []:
        if isinstance(one, dict) and one.get("path") == RUN_FILE:
            return _content(one)
    return None


def _content(one: dict[str, Any]) -> bytes:
    content = one.get("content")
    if not isinstance(content, str):
        raise UsageError(f"user-data: write_files of {RUN_FILE} has no content")
    if one.get("encoding", "text/plain") in ("b64", "base64"):
        try:
            return base64.b64decode(content)
        except (ValueError, binascii.Error) as error:
            raise UsageError(f"user-data: content of {RUN_FILE} is not base64") from error
    return content.encode()


def efi_partitions() -> list[str]:
    """EFI partitions of the disks of this machine."""
    found = []
    for name in sorted(os.listdir("/sys/class/block")):
        if os.path.exists(f"/sys/class/block/{name}/partition"):
            given = tags(f"/dev/{name}")
            if given.get("PART_ENTRY_TYPE") == EFI_PARTITION and given.get("TYPE") == "vfat":
                found.append(f"/dev/{name}")
    return found


def _labelled(label: str) -> str:
    code, given = run_for_code(["blkid", "--label", label])
    return given.strip() if code == 0 else ""


def labelled_file(label: str, path: str) -> bytes | None:
    """A small file on the disk with a label; None if there is no such file."""
    device = _labelled(label)
    return file_on(device, path) if device else None


def file_on(device: str, path: str) -> bytes | None:
    """A small file on a file system that is not mounted; None if it is not there."""
    with contextlib.suppress(StrongroomError), mounted(device, "ro") as folder:
        return _file(os.path.join(folder, path))
    return None


@contextlib.contextmanager
def mounted(device: str, mode: str, folder: str = f"{RUN_FOLDER}/medium") -> Iterator[str]:
    """A file system, mounted for a moment."""
    os.makedirs(folder, 0o700, exist_ok=True)
    options = f"{mode},nosuid,nodev,noexec"
    run(["mount", "--types", _FILE_SYSTEMS, "--options", options, device, folder])
    try:
        yield folder
    finally:
        run_for_code(["umount", folder])


def remove_from_efi(device: str) -> None:
    """Remove what the installer put there, its bytes first: it may have had passphrases."""
    if file_on(device, ON_EFI) is None:
        return
    with mounted(device, "rw") as folder:
        path = os.path.join(folder, ON_EFI)
        if os.path.exists(path):
            with open(path, "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                file.write(bytes(size))
                file.flush()
                os.fsync(file.fileno())
            os.unlink(path)


def _file(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
