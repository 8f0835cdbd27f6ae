"""What an answer file can say. The reader, the schema, the reference and the menu follow it.

A field's text is its description in the reference. `kind` names an entry of `kinds.KINDS`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, field

VERSION: Final = 1


def _text(kind: str, description: str) -> Meta:
    return Meta(description=description, extra={"kind": kind})


def _described(description: str) -> Meta:
    return Meta(description=description)


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the file."""


Addresses = list[Annotated[str, _text("interface address", "An address with its prefix.")]]
Servers = list[Annotated[str, _text("server", "A DNS name or an address.")]]
Names = list[Annotated[str, _text("interface", "A name of an interface.")]]


class _Addressed(_Part, frozen=True, kw_only=True):
    """What interfaces, bonds and VLANs have in common."""

    dhcp: Annotated[
        Literal["no", "ipv4", "ipv6", "yes"],
        _described(
            "Which addresses come from a DHCP server; with `ipv6`, router advertisements too."
        ),
    ] = "no"
    addresses: Annotated[Addresses, _described("Static addresses.")] = field(default_factory=list)
    gateway: Annotated[str, _text("address", "The default router for IPv4.")] | None = None
    gateway6: Annotated[str, _text("address", "The default router for IPv6.")] | None = None
    mtu: Annotated[int, Meta(ge=1280, le=9216, description="Largest packet in bytes.")] | None = (
        None
    )


class Interface(_Addressed, frozen=True, kw_only=True):
    """A network card, chosen by `name` or by `mac`."""

    name: Annotated[str, _text("interface", "Its name.")] | None = None
    mac: Annotated[str, _text("hardware address", "Its hardware address.")] | None = None


class Bond(_Addressed, frozen=True, kw_only=True):
    """Several network cards as one."""

    name: Annotated[str, _text("interface", "The name it gets.")]
    members: Annotated[Names, Meta(min_length=1, description="The cards it is made of.")]
    mode: Annotated[
        Literal["active-backup", "802.3ad", "balance-xor", "balance-alb", "balance-rr"],
        _described("How the cards share the work; `802.3ad` needs a switch that is set up for it."),
    ] = "active-backup"


class Vlan(_Addressed, frozen=True, kw_only=True):
    """A VLAN on a card or a bond."""

    name: Annotated[str, _text("interface", "The name it gets.")]
    parent: Annotated[str, _text("interface", "The card or bond that carries it.")]
    id: Annotated[int, Meta(ge=1, le=4094, description="Its number.")]


class Network(_Part, frozen=True, kw_only=True):
    """The network. Without this part every card asks a DHCP server."""

    interfaces: Annotated[list[Interface], _described("Network cards.")] = field(
        default_factory=list
    )
    bonds: Annotated[list[Bond], _described("Bonds.")] = field(default_factory=list)
    vlans: Annotated[list[Vlan], _described("VLANs.")] = field(default_factory=list)
    dns: Annotated[
        list[Annotated[str, _text("address", "An address.")]],
        _described("Name servers; a DHCP server may name more."),
    ] = field(default_factory=list)
    search: Annotated[
        list[Annotated[str, _text("host name", "A domain.")]], _described("Domains to search.")
    ] = field(default_factory=list)


class Time(_Part, frozen=True, kw_only=True):
    """The clock."""

    zone: Annotated[str, _text("time zone", "The time zone.")] = "Etc/UTC"
    ntp: Annotated[Servers, _described("Time servers. None: those of the distribution.")] = field(
        default_factory=list
    )


class DataDisk(_Part, frozen=True, kw_only=True):
    """The disk for backups: XFS, mounted at /srv/strongroom.

    A disk with anything on it is refused, unless `erase` names it. One with the XFS that was made
    for it is taken as it is.
    """

    device: Annotated[str, _text("device", "The disk or partition.")]
    erase: (
        Annotated[
            str,
            _text(
                "disk name",
                "The last part of `device`, if all that is on the disk may go. It is erased once.",
            ),
        ]
        | None
    ) = None
    encryption: Annotated[
        Literal["none", "passphrase", "tpm2"],
        _described(
            "Whether the disk is encrypted (LUKS2). With `passphrase` it has to be unlocked on the "
            "console after every start, with `tpm2` the TPM of this machine does that."
        ),
    ] = "none"
    passphrase: (
        Annotated[str, _text("passphrase", "Unlocks the disk, also if the TPM does not.")] | None
    ) = None


class Admin(_Part, frozen=True, kw_only=True):
    """The administrator of the machine, who may use sudo."""

    name: Annotated[str, _text("user", "The user's name.")] = "admin"
    ssh_keys: Annotated[
        list[Annotated[str, _text("ssh key", "A public key.")]],
        _described("Keys that may log in by ssh. The ssh server runs only if there is one."),
    ] = field(default_factory=list)
    password_hash: (
        Annotated[
            str,
            _text("password hash", "Hash of the password for the menu on the console, and sudo."),
        ]
        | None
    ) = None


class RepositoryKey(_Part, frozen=True, kw_only=True):
    """The passphrase of the restore key."""

    mode: Annotated[
        Literal["generate", "import"],
        _described(
            "`generate`: a random one. `import`: that of a repository that is on the data disk."
        ),
    ] = "generate"
    passphrase: Annotated[str, Meta(
        min_length=1, max_length=1024, description="With `import`: the passphrase, as on paper."
    )] | None = None  # fmt: skip


class Token(_Part, frozen=True, kw_only=True):
    """An enrolment token, with which machines join."""

    group: Annotated[str, _text("group", "A group of `appliance.groups`; its jobs they get.")]
    names: Annotated[str, _text("name pattern", "Names it is good for.")] = "*"
    uses: Annotated[int, Meta(ge=1, le=10_000, description="For how many machines.")] = 1
    lifetime: Annotated[str, _text("time span", "How long it is good.")] = "1 day"


class Agents(_Part, frozen=True, kw_only=True):
    """Machines that will be backed up."""

    tokens: Annotated[
        list[Token],
        _described("Each is made once, into /var/lib/strongroom/appliance/tokens/GROUP-NUMBER."),
    ] = field(default_factory=list)


class Updates(_Part, frozen=True, kw_only=True):
    """Updates of the system."""

    security: Annotated[bool, _described("Whether security updates are installed every day.")] = (
        True
    )
    source: (
        Annotated[
            str,
            _text("web address", "Where the image's update file is; an installed Debian uses apt."),
        ]
        | None
    ) = None
    reboot: (
        Annotated[
            str,
            _text(
                "clock", "When to restart if an update needs that. Without it: never automatically."
            ),
        ]
        | None
    ) = None


class Installation(_Part, frozen=True, kw_only=True):
    """For an unattended installation from the ISO: where to.

    `disk: first` is the first disk, in the order of the slots of the hardware, that nothing uses,
    that is not removable, not the data disk, and whose size is between `min_size` and `max_size`.
    """

    disk: Annotated[str, _text("target disk", "The disk for the system.")]
    min_size: Annotated[str, _text("size", "With `first`: no smaller disk.")] | None = None
    max_size: Annotated[str, _text("size", "With `first`: no larger disk.")] | None = None
    erase: (
        Annotated[
            str,
            _text(
                "disk name",
                "The last part of `disk`, or `first`, if all that is on the disk may go.",
            ),
        ]
        | None
    ) = None
    finish: Annotated[
        Literal["reboot", "poweroff", "stay"], _described("What to do when it is done.")
    ] = "poweroff"


class AnswerFile(_Part, frozen=True, kw_only=True):
    """A whole answer file. What it does not name stays as it is."""

    version: Annotated[int, Meta(ge=VERSION, le=VERSION, description="Version of this format: 1.")]
    hostname: Annotated[str, _text("host name", "The machine's name.")] | None = None
    keyboard: (
        Annotated[str, _text("keyboard layout", "The keyboard at the screen of the machine.")]
        | None
    ) = None
    network: Network | None = None
    time: Time | None = None
    data_disk: DataDisk | None = None
    admin: Admin | None = None
    repository_key: RepositoryKey | None = None
    appliance: (
        Annotated[
            dict[str, Any],
            _described(
                "Answers of `strongroom setup appliance`. `address` may be left out where there is "
                "a `hostname`. Without this part no director and no storage daemon is set up."
            ),
        ]
        | None
    ) = None
    agents: Agents | None = None
    updates: Updates | None = None
    installation: Installation | None = None


SECRETS: Final = (
    ("data_disk", "passphrase"),
    ("repository_key", "passphrase"),
    ("admin", "password_hash"),
)


def without_secrets(answers: AnswerFile) -> AnswerFile:
    """The same, without passphrases and hashes."""
    for part, name in SECRETS:
        value = getattr(answers, part)
        if value is not None:
            cleaned = msgspec.structs.replace(value, **{name: None})
            answers = msgspec.structs.replace(answers, **{part: cleaned})
    return answers
