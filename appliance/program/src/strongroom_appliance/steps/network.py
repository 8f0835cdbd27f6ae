"""The network of the answers: files of systemd-networkd, put in place and into effect."""

from __future__ import annotations

from typing import Final

from strongroom_appliance.answers.model import Bond, Interface, Network, Vlan
from strongroom_appliance.machine import is_enabled, run, run_for_code
from strongroom_appliance.steps.context import Context

FOLDER: Final = "/etc/systemd/network"
PREFIX: Final = "50-strongroom-"
# What every card gets by the package, until something else is set.
DEFAULT_FILE: Final = "80-strongroom-dhcp.network"
_HEAD: Final = "# Written by Strongroom from its answers.\n"


def set_network(context: Context) -> None:
    """Write what is wanted, remove what is not, and let systemd-networkd read it."""
    network = context.answers.network
    assert network is not None
    machine = context.machine
    wanted = network_files(network)
    is_changed = False
    for name, text in wanted.items():
        is_changed |= machine.write(f"{FOLDER}/{name}", text)
    is_changed |= machine.link(f"{FOLDER}/{DEFAULT_FILE}", "/dev/null")
    gone = [name for name in machine.names(FOLDER) if name.startswith(PREFIX)]
    gone = [name for name in gone if name not in wanted]
    for name in gone:
        is_changed |= machine.remove(f"{FOLDER}/{name}")
    if is_changed:
        links = [link.name or link.mac or "" for link in network.interfaces]
        links += [bond.name for bond in network.bonds] + [vlan.name for vlan in network.vlans]
        context.did(f"set the network: {', '.join(links)}")
    if machine.is_running:
        _into_effect(context, gone)


def _into_effect(context: Context, gone: list[str]) -> None:
    """Also after a power cut between the files and here: reading them again harms nothing."""
    for unit in ("systemd-networkd.service", "systemd-resolved.service"):
        if not is_enabled(unit):
            run(["systemctl", "enable", "--quiet", unit])
            context.did(f"enabled {unit}")
    run(["systemctl", "start", "systemd-networkd.service"])
    run_for_code(["systemctl", "start", "systemd-resolved.service"])
    run(["networkctl", "reload"])
    for name in gone:
        if name.endswith(".netdev"):
            run_for_code(["networkctl", "delete", name.removeprefix(PREFIX)[: -len(".netdev")]])


def network_files(network: Network) -> dict[str, str]:
    """Name -> text."""
    found = {}
    members = {member: bond.name for bond in network.bonds for member in bond.members}
    cards = {card.name for card in network.interfaces if card.name}
    carried: dict[str, list[str]] = {}
    for vlan in network.vlans:
        carried.setdefault(vlan.parent, []).append(vlan.name)
    for number, card in enumerate(network.interfaces):
        name = card.name or f"card{number}"
        match = f"Name={card.name}" if card.name else f"PermanentMACAddress={card.mac}"
        bond = members.get(card.name or "")
        vlans = carried.get(card.name or "", [])
        found[f"{PREFIX}{name}.network"] = _network(network, match, card, bond, vlans)
    for member in sorted(members.keys() - cards):
        text = f"{_HEAD}[Match]\nName={member}\n\n[Network]\nBond={members[member]}\n"
        found[f"{PREFIX}{member}.network"] = text
    for bond_link in network.bonds:
        name = bond_link.name
        found[f"{PREFIX}{name}.netdev"] = _bond(bond_link)
        found[f"{PREFIX}{name}.network"] = _network(
            network, f"Name={name}", bond_link, None, carried.get(name, [])
        )
    for vlan in network.vlans:
        name = vlan.name
        text = f"{_HEAD}[NetDev]\nName={name}\nKind=vlan\n\n[VLAN]\nId={vlan.id}\n"
        found[f"{PREFIX}{name}.netdev"] = text
        found[f"{PREFIX}{name}.network"] = _network(network, f"Name={name}", vlan, None, [])
    return found


def _bond(bond: Bond) -> str:
    text = f"{_HEAD}[NetDev]\nName={bond.name}\nKind=bond\n\n[Bond]\nMode={bond.mode}\n"
    text += "MIIMonitorSec=100ms\n"
    if bond.mode in ("802.3ad", "balance-xor"):
        text += "TransmitHashPolicy=layer3+4\n"
    if bond.mode == "802.3ad":
        text += "LACPTransmitRate=fast\n"
    return text


def _network(
    network: Network,
    match: str,
    link: Interface | Bond | Vlan,
    bond: str | None,
    vlans: list[str],
) -> str:
    lines = [_HEAD + "[Match]", match]
    if link.mtu is not None:
        lines += ["", "[Link]", f"MTUBytes={link.mtu}"]
    lines += ["", "[Network]"]
    if bond is not None:
        return "\n".join([*lines, f"Bond={bond}", ""])
    lines.append(f"DHCP={link.dhcp}")
    if link.dhcp not in ("ipv6", "yes"):
        lines.append("IPv6AcceptRA=no")
    is_used = link.dhcp != "no" or bool(link.addresses)
    if not is_used:
        lines.append("LinkLocalAddressing=no")
    lines += [f"VLAN={name}" for name in vlans]
    if is_used:
        lines += [f"DNS={one}" for one in network.dns]
        if network.search:
            lines.append(f"Domains={' '.join(network.search)}")
    for address in link.addresses:
        lines += ["", "[Address]", f"Address={address}"]
    for gateway in (link.gateway, link.gateway6):
        if gateway is not None:
            lines += ["", "[Route]", f"Gateway={gateway}"]
    return "\n".join([*lines, ""])
