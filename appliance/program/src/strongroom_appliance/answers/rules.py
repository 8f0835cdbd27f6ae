"""What must hold between the answers; each answer by itself is right already."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping, Sequence

from strongroom.config.values.measures import size_bytes
from strongroom_appliance.answers.kinds import FIRST
from strongroom_appliance.answers.model import (
    AnswerFile,
    Bond,
    DataDisk,
    Installation,
    Interface,
    Network,
    Vlan,
)
from strongroom_appliance.answers.nodes import Fault

_Problem = tuple[str, str, str]


def broken_rules(answers: AnswerFile, lines: Mapping[str, int]) -> list[Fault]:
    """Faults, with the line of the place, or of the nearest part around it."""
    found = []
    for place, what, remedy in _problems(answers):
        nearest = place
        while nearest and nearest not in lines:
            nearest = nearest[: max(nearest.rfind("."), nearest.rfind("["), 0)]
        found.append(Fault(lines.get(nearest, 0), place, what, remedy))
    return found


def _problems(answers: AnswerFile) -> Iterator[_Problem]:
    if answers.network is not None:
        yield from _network(answers.network)
    if answers.data_disk is not None:
        yield from _data_disk(answers.data_disk)
    if answers.installation is not None:
        yield from _installation(answers.installation, answers.data_disk)
    key = answers.repository_key
    if key is not None:
        if key.mode == "import" and key.passphrase is None:
            yield ("repository_key", "`import` needs the passphrase", "add `passphrase: ...`")
        if key.mode == "generate" and key.passphrase is not None:
            remedy = "remove the passphrase, or write `mode: import`"
            yield ("repository_key.passphrase", "a passphrase is generated", remedy)
        if answers.appliance is None:
            yield ("repository_key", "there is no part `appliance`", "add `appliance:`")
    yield from _appliance(answers)


def _appliance(answers: AnswerFile) -> Iterator[_Problem]:
    given = answers.appliance
    if given is not None:
        if "address" not in given and answers.hostname is None:
            yield ("appliance", "`address` is missing", "add it, or a `hostname`")
        names = [given.get("director_name", "vault-dir"), given.get("storage_name", "vault")]
        if names[0] == names[1]:
            yield ("appliance", "director_name and storage_name are equal", "change one")
    tokens = answers.agents.tokens if answers.agents is not None else []
    if tokens and given is None:
        yield ("agents.tokens", "there is no part `appliance`", "add `appliance:`")
    groups = (given or {}).get("groups", ["servers"])
    for number, token in enumerate(tokens):
        if given is not None and token.group not in groups:
            remedy = f"add it to `appliance.groups`, or use {' or '.join(groups) or 'none'}"
            yield (f"agents.tokens[{number}].group", f"there is no group {token.group}", remedy)


def _data_disk(disk: DataDisk) -> Iterator[_Problem]:
    if disk.encryption != "none" and disk.passphrase is None:
        yield ("data_disk", "encryption needs a passphrase", "add `passphrase: ...`")
    if disk.encryption == "none" and disk.passphrase is not None:
        remedy = "write `encryption: passphrase` or `tpm2`, or remove the passphrase"
        yield ("data_disk.passphrase", "the disk is not to be encrypted", remedy)
    yield from _erase("data_disk", disk.device, disk.erase)


def _installation(target: Installation, disk: DataDisk | None) -> Iterator[_Problem]:
    yield from _erase("installation", target.disk, target.erase)
    least, most = (size_bytes(one) if one else None for one in (target.min_size, target.max_size))
    for name, size in (("min_size", least), ("max_size", most)):
        if size is not None and target.disk != FIRST:
            remedy = f"remove it, or write `disk: {FIRST}`"
            yield (f"installation.{name}", "`disk` names one disk, whatever its size", remedy)
    if least is not None and most is not None and most < least:
        what = "no disk has a size between `min_size` and `max_size`"
        yield ("installation.max_size", what, f"give {target.min_size} at least")
    if disk is not None and disk.device == target.disk:
        remedy = "give backups their own disk"
        yield ("data_disk.device", "this is the disk of the system", remedy)


def _erase(part: str, device: str, erase: str | None) -> Iterator[_Problem]:
    name = os.path.basename(device)
    if erase is not None and erase != name:
        what = "this does not name the disk, so nothing would be erased"
        yield (f"{part}.erase", what, f"write {name} if everything on it may be erased")


def _network(network: Network) -> Iterator[_Problem]:
    if not (network.interfaces or network.bonds or network.vlans):
        remedy = "name interfaces, or remove the part `network`"
        yield ("network", "there is no interface", remedy)
    names: dict[str, str] = {}
    users: dict[str, str] = {}
    for place, link in _links(network):
        if link.name is not None and names.setdefault(link.name, place) != place:
            yield (f"{place}.name", f"{link.name} is named twice", "give each its own name")
        yield from _addressing(place, link)
    for number, card in enumerate(network.interfaces):
        if (card.name is None) == (card.mac is None):
            yield (f"network.interfaces[{number}]", "which card?", "give either `name` or `mac`")
    macs = [card.mac.lower() for card in network.interfaces if card.mac]
    if len(set(macs)) < len(macs):
        yield ("network.interfaces", "a hardware address stands twice", "remove one of them")
    for number, bond in enumerate(network.bonds):
        for position, member in enumerate(bond.members):
            place = f"network.bonds[{number}].members[{position}]"
            if names.get(member, "").startswith(("network.bonds", "network.vlans")):
                yield (place, f"{member} is not a network card", "name cards only")
            if users.setdefault(member, place) != place:
                yield (place, f"{member} is in a bond already", "a card is in one bond only")
    for number, card in enumerate(network.interfaces):
        if card.name in users and _has_addresses(card):
            remedy = "give them to the bond"
            yield (f"network.interfaces[{number}]", "a card of a bond has no addresses", remedy)
    yield from _vlans(network, names, users)


def _vlans(
    network: Network, names: Mapping[str, str], users: Mapping[str, str]
) -> Iterator[_Problem]:
    seen = set()
    for number, vlan in enumerate(network.vlans):
        place = f"network.vlans[{number}]"
        if names.get(vlan.parent, "").startswith("network.vlans"):
            yield (f"{place}.parent", f"{vlan.parent} is a VLAN", "name a card or a bond")
        elif vlan.parent not in names:
            remedy = "name it in `interfaces` or `bonds`"
            yield (f"{place}.parent", f"there is no {vlan.parent}", remedy)
        if vlan.parent in users:
            yield (f"{place}.parent", f"{vlan.parent} is in a bond", "name the bond")
        if (vlan.parent, vlan.id) in seen:
            yield (f"{place}.id", f"{vlan.parent} has this VLAN already", "remove one")
        seen.add((vlan.parent, vlan.id))


def _links(network: Network) -> Iterator[tuple[str, Interface | Bond | Vlan]]:
    kinds: tuple[tuple[str, Sequence[Interface | Bond | Vlan]], ...] = (
        ("interfaces", network.interfaces),
        ("bonds", network.bonds),
        ("vlans", network.vlans),
    )
    for kind, links in kinds:
        for number, link in enumerate(links):
            yield f"network.{kind}[{number}]", link


def _has_addresses(link: Interface | Bond | Vlan) -> bool:
    return link.dhcp != "no" or bool(link.addresses)


def _addressing(place: str, link: Interface | Bond | Vlan) -> Iterator[_Problem]:
    found = [ipaddress.ip_interface(one) for one in link.addresses]
    for number, one in enumerate(found):
        hosts_end = one.network.broadcast_address if one.version == 4 else None
        is_host = one.network.num_addresses <= 2 or one.ip not in (
            one.network.network_address, hosts_end,
        )  # fmt: skip
        if not is_host:
            what = f"{one.ip} is the network's own address, or its broadcast"
            yield (f"{place}.addresses[{number}]", what, "give an address of a host")
    if len({one.ip for one in found}) < len(found):
        yield (f"{place}.addresses", "an address stands twice", "remove one of them")
    for name, version in (("gateway", 4), ("gateway6", 6)):
        text = getattr(link, name)
        if text is None:
            continue
        router = ipaddress.ip_address(text)
        if router.version != version:
            other = "gateway6" if version == 4 else "gateway"
            yield (f"{place}.{name}", f"this is not an address of IPv{version}", f"use `{other}`")
        elif not router.is_link_local and not any(router in one.network for one in found):
            remedy = "check it, and the prefix of the addresses"
            yield (f"{place}.{name}", f"{router} is in no network of `addresses`", remedy)
        elif any(router == one.ip for one in found):
            yield (f"{place}.{name}", "this is the machine's own address", "name the router")
