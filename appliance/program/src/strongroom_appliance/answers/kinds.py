"""Kinds of text in an answer file: what each must look like, and how people read it."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zoneinfo import available_timezones

from strongroom.config.values.measures import duration_seconds, size_bytes

_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_INTERFACE: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,14}")
_HARDWARE: Final = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_HASH: Final = re.compile(r"\$(?:y|gy|2b|6|7)\$[!-9;-~]{20,400}")
_CLOCK: Final = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_WEB_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.\[\]:-]{1,260}/[!-~]{1,1000}")
_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_PATTERN: Final = re.compile(r"[A-Za-z0-9*?._-]{1,253}")
_DEVICE: Final = re.compile(r"/dev/[A-Za-z0-9._:+@=,/-]{1,200}")
_KEYBOARD: Final = re.compile(r"[a-z]{2,8}(?:-[A-Za-z0-9_-]{1,30})?")
# The layouts that there are, where the package xkb-data is installed.
_KEYBOARDS: Final = "/usr/share/X11/xkb/rules/base.lst"
_KEY_TYPES: Final = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
# Instead of the path of a disk.
FIRST: Final = "first"
SHORTEST_PASSPHRASE: Final = 12
_LONGEST_PASSPHRASE: Final = 512
_SYSTEM_USERS: Final = frozenset(
    ("root", "daemon", "bin", "sys", "sync", "mail", "nobody", "sshd", "strongroom")
)


@dataclass(frozen=True, slots=True)
class Kind:
    """expected: in words, for messages and the reference."""

    expected: str
    fits: Callable[[str], bool]


def is_address(text: str) -> bool:
    """Whether it is an address of a host, IPv4 or IPv6."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_interface_address(text: str) -> bool:
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        return False
    if "/" not in text or "%" in text or found.is_multicast or found.is_unspecified:
        return False
    prefix = text.partition("/")[2]
    return prefix.isdigit() and int(prefix) > 0


def is_host_name(text: str) -> bool:
    """Whether it is a DNS name. Capitals are kept, and mean the same."""
    labels = text.split(".")
    is_named = all(_LABEL.fullmatch(one) for one in labels) and not labels[-1].isdigit()
    return len(text) <= 253 and is_named


def _is_ssh_key(text: str) -> bool:
    words = text.split(None, 2)
    if len(words) < 2 or words[0] not in _KEY_TYPES or not text.isprintable():
        return False
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (ValueError, binascii.Error):
        return False
    name = words[0].encode()
    return len(blob) > 32 and blob.startswith(struct.pack(">I", len(name)) + name)


def _is_passphrase(text: str) -> bool:
    length = len(text.encode("utf-8", "replace"))
    return text.isprintable() and SHORTEST_PASSPHRASE <= length <= _LONGEST_PASSPHRASE


def _is_device(text: str) -> bool:
    return bool(_DEVICE.fullmatch(text)) and ".." not in text.split("/")


def is_keyboard(text: str) -> bool:
    """Whether it is a layout of keyboards, and one that this machine knows."""
    if not _KEYBOARD.fullmatch(text):
        return False
    try:
        with open(_KEYBOARDS, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return True
    layout, _, variant = text.partition("-")
    # A variant is listed as `nodeadkeys  de: German (no dead keys)`.
    part, wanted = ("variant", [variant, f"{layout}:"]) if variant else ("layout", [layout])
    present = ""
    for line in lines:
        words = line.split()
        if line.startswith("!"):
            present = words[1]
        elif present == part and words[: len(wanted)] == wanted:
            return True
    return False


KINDS: Final = {
    "host name": Kind("a DNS name such as vault.example.org", is_host_name),
    "keyboard layout": Kind(
        "a layout such as us, de or fr, or with a variant, such as ch-fr or de-nodeadkeys",
        is_keyboard,
    ),
    "server": Kind("a DNS name or an address", lambda text: is_host_name(text) or is_address(text)),
    "address": Kind("an address such as 192.0.2.1 or 2001:db8::1", is_address),
    "interface address": Kind(
        "an address with its prefix, such as 192.0.2.10/24", _is_interface_address
    ),
    "interface": Kind(
        "a name of an interface of at most 15 characters, such as eth0",
        lambda text: bool(_INTERFACE.fullmatch(text)),
    ),
    "hardware address": Kind(
        "a hardware address such as 52:54:00:12:34:56",
        lambda text: bool(_HARDWARE.fullmatch(text.lower())),
    ),
    "time zone": Kind(
        "a time zone such as Europe/Berlin or Etc/UTC", lambda text: text in available_timezones()
    ),
    "device": Kind("a path in /dev, best in /dev/disk/by-id", _is_device),
    "target disk": Kind(
        f"`{FIRST}`, or a path in /dev, best in /dev/disk/by-id",
        lambda text: text == FIRST or _is_device(text),
    ),
    "size": Kind("a size such as 100 GB", lambda text: bool(size_bytes(text))),
    "disk name": Kind(
        "the last part of the device's path",
        lambda text: bool(re.fullmatch(r"[A-Za-z0-9._:+@=,-]{1,200}", text)),
    ),
    "passphrase": Kind(
        f"a text of {SHORTEST_PASSPHRASE} to {_LONGEST_PASSPHRASE} bytes without control "
        "characters, and with no other white space than the space",
        _is_passphrase,
    ),
    "user": Kind(
        "a user's name such as admin, none of the system's own",
        lambda text: (
            bool(_USER.fullmatch(text))
            and text not in _SYSTEM_USERS
            and not text.startswith("strongroom-")
        ),
    ),
    "ssh key": Kind("a public key as in id_ed25519.pub, on one line", _is_ssh_key),
    "password hash": Kind(
        "a hash such as `mkpasswd` or `openssl passwd -6` prints",
        lambda text: bool(_HASH.fullmatch(text)),
    ),
    "web address": Kind(
        "an address such as https://updates.example.org/strongroom-amd64.update",
        lambda text: bool(_WEB_ADDRESS.fullmatch(text)),
    ),
    "clock": Kind("a time such as 03:30", lambda text: bool(_CLOCK.fullmatch(text))),
    "group": Kind(
        "letters, digits, dots, dashes and underscores",
        lambda text: bool(_GROUP.fullmatch(text)),
    ),
    "name pattern": Kind(
        "a name of machines, with * and ?, such as web*",
        lambda text: bool(_PATTERN.fullmatch(text)),
    ),
    "time span": Kind("a time such as 7 days", lambda text: bool(duration_seconds(text))),
}
