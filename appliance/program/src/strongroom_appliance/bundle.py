"""The support bundle: what helps to find a fault, and no secret.

Only what is named here goes in: outputs of programs and files whose content is known. The answer
file is written without its secrets, configurations without what follows `Password` and its like.
Whatever the secrets of this machine are (passphrases, tokens, hashes, private keys), every text is
searched for them once more before it goes in.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import OperatingSystemError, os_errors
from strongroom.base.printable import printable, printable_lines
from strongroom_appliance.machine import STATE_FOLDER, run_for_code
from strongroom_appliance.state import STATE_FILE

_COMMANDS: Final = {
    "system/version": ["strongroom", "version"],
    "system/uname": ["uname", "-a"],
    "system/uptime": ["uptime"],
    "system/memory": ["free", "-m"],
    "system/disks": ["lsblk", "--output", "NAME,TYPE,SIZE,MODEL,FSTYPE,LABEL,MOUNTPOINTS"],
    "system/space": ["df", "-h"],
    "system/time": ["timedatectl"],
    "system/packages": ["dpkg-query", "-W"],
    "system/failed-units": ["systemctl", "--failed", "--no-pager"],
    "system/units": ["systemctl", "status", "--no-pager", "--lines=0", "strongroom-*"],
    "network/addresses": ["ip", "-brief", "address"],
    "network/routes": ["ip", "route"],
    "network/links": ["networkctl", "--no-pager", "status", "--all", "--lines=0"],
    "network/listening": ["ss", "--listening", "--tcp", "--udp", "--numeric"],
    "strongroom/configuration": ["strongroom", "config", "check", "/etc/strongroom"],
    "log/strongroom": [
        "journalctl", "--no-pager", "--lines=5000", "--output=short-iso", "--unit=strongroom-*",
    ],
    "log/warnings": [
        "journalctl", "--no-pager", "--lines=2000", "--output=short-iso", "--priority=warning",
    ],
}  # fmt: skip
_FILES: Final = (STATE_FILE, f"{STATE_FOLDER}/answers.yml", "/etc/strongroom/appliance.toml")
_FOLDERS: Final = ("/etc/systemd/network", "/etc/strongroom")
_ENDINGS: Final = (".conf", ".network", ".netdev", ".toml")
_GREATEST_BYTES: Final = 4 << 20
# Where this machine keeps secrets. A text with one of their lines does not leave it.
_SECRET_FOLDERS: Final = (
    "/var/lib/strongroom/director",
    "/var/lib/strongroom/storage",
    "/var/lib/strongroom/ca",
    "/var/lib/strongroom/agent",
    f"{STATE_FOLDER}/tokens",
    "/root/.config/strongroom",
    "/etc/ssh",
)
_SHORTEST: Final = 8
_CONFIGURED: Final = re.compile(
    r"""(?ix) \b ((?:password|passphrase|secret|token|url|header)s? (?:[ _]?\w+)? \s* [:=] \s*)
    ("(?:\\.|[^"\\])*" | [^;\s}#]+)"""
)
_SHAPES: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL),
    re.compile(r"\$(?:y|gy|2b|6|7)\$[!-9;-~]{20,400}"),
    re.compile(r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"),
)
_GONE: Final = "[removed]"


def write_bundle(path: str) -> None:
    """Write the bundle to a new file of root's. Raises UsageError."""
    with os_errors(f"cannot make {printable(path)}"):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    secrets = _secrets()
    with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in _texts().items():
            _add(archive, name, cleaned(text, secrets))


def cleaned(text: str, secrets: frozenset[str]) -> str:
    """A text without secrets: known ones, and what looks like one."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _GONE)
    text = _CONFIGURED.sub(rf"\1{_GONE}", text)
    for shape in _SHAPES:
        text = shape.sub(_GONE, text)
    return text


def _texts() -> dict[str, str]:
    found = {}
    for name, words in _COMMANDS.items():
        try:
            code, output = run_for_code(words)
            found[f"{name}.txt"] = output if code == 0 else f"{output}\n(exit code {code})\n"
        except OperatingSystemError as error:
            found[f"{name}.txt"] = f"{error}\n"
    paths = [path for path in _FILES if os.path.isfile(path)]
    for folder in _FOLDERS:
        for place, _, names in os.walk(folder):
            paths += [os.path.join(place, name) for name in names if name.endswith(_ENDINGS)]
    for path in sorted(set(paths)):
        if os.path.isfile(path) and not os.path.islink(path):
            found[f"files{path}"] = _read(path)
    return found


def _secrets() -> frozenset[str]:
    """Lines of all files that may hold secrets, and the hashes of passwords."""
    found = set()
    for folder in _SECRET_FOLDERS:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                is_secret = os.path.isfile(path) and not os.stat(path).st_mode & 0o077
                if is_secret and os.stat(path).st_size <= _GREATEST_BYTES:
                    found |= _lines_of(_read(path))
    for path in (f"{STATE_FOLDER}/answers.pending.yml", "/etc/shadow"):
        if os.path.isfile(path):
            for line in _read(path).splitlines():
                found |= {word.strip("\"' ") for word in re.split(r"[: ]", line) if "$" in word}
    return frozenset(one for one in found if len(one) >= _SHORTEST)


def _lines_of(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if not line.startswith(("-----", "#"))}


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_GREATEST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"cannot be read: {error.strerror}\n"


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = printable_lines(text).encode()
    entry = tarfile.TarInfo(f"strongroom-support/{name}")
    entry.size, entry.mode = len(data), 0o600
    entry.mtime = clock.now_ns() // clock.SECOND_NS
    archive.addfile(entry, io.BytesIO(data))
