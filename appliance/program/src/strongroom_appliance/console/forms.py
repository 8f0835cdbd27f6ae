"""Forms: what is filled in becomes a part of the answers, is checked as such, and is applied."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Several
from dataclasses import replace
from typing import Any

import msgspec

from strongroom.base.errors import StrongroomError
from strongroom.net.identities.private_files import SECRET_MODE
from strongroom_appliance import first_boot
from strongroom_appliance.answers.model import VERSION, AnswerFile, without_secrets
from strongroom_appliance.answers.nodes import Mapping as MappingNode
from strongroom_appliance.answers.nodes import Node, Sequence, Text
from strongroom_appliance.answers.reading import examine, examine_node, read_bytes
from strongroom_appliance.answers.writing import yaml_text
from strongroom_appliance.applying import apply
from strongroom_appliance.console.fields import Field
from strongroom_appliance.console.screen import Screen
from strongroom_appliance.machine import Machine
from strongroom_appliance.next_steps import next_steps

MODES = ("active-backup", "802.3ad", "balance-xor", "balance-alb", "balance-rr")


def fill_in_and_apply(
    screen: Screen,
    title: str,
    fields: Callable[[AnswerFile], Several[Field]],
    part: Callable[[Mapping[str, str]], dict[str, Any]],
    head: Several[str] = (),
    *,
    is_last: bool = False,
) -> None:
    """Show the form until it is right, then apply it. is_last: the machine is set up then."""
    form = list(fields(kept_answers()))
    faults: list[str] = []
    while True:
        filled = screen.form(title, form, faults, head)
        if filled is None:
            return
        form = [_refilled(one, filled) for one in form]
        try:
            answers, faults = checked(part(filled))
            if answers is None:
                continue
            changed = apply(answers, screen.log(title))
        except StrongroomError as error:
            faults = [str(error)]
            continue
        kept = merged(kept_answers(), answers)
        Machine().write(first_boot.KEPT, yaml_text(kept), SECRET_MODE)
        done = ["Done:", "", *changed] if changed else ["It was like this already."]
        if is_last:
            first_boot.become_ready(kept)
        screen.text(title, [*done, "", *next_steps()])
        return


def _refilled(field: Field, filled: Mapping[str, str]) -> Field:
    return replace(field, value=filled[field.name])


def kept_answers() -> AnswerFile:
    """What this machine was set up with, without secrets."""
    if os.path.exists(first_boot.KEPT):
        answers, _ = examine(read_bytes(first_boot.KEPT), whole=False)
        if answers is not None:
            return answers
    return AnswerFile(version=VERSION)


def checked(parts: Mapping[str, Any]) -> tuple[AnswerFile | None, list[str]]:
    """Parts as answers, or what is wrong with them."""
    answers, faults = examine_node(_node({"version": VERSION, **parts}))
    return answers, [f"{one.place}: {one.what}; {one.remedy}" for one in faults]


def merged(kept: AnswerFile, new: AnswerFile) -> AnswerFile:
    """What the machine is set up with from now on."""
    given = {
        name: getattr(new, name) for name in new.__struct_fields__ if getattr(new, name) is not None
    }
    return without_secrets(msgspec.structs.replace(kept, **given))


def words(text: str) -> list[str]:
    """Items of a field, between blanks or commas."""
    return text.replace(",", " ").split()


def network_fields(kept: AnswerFile, cards: list[str]) -> list[Field]:
    """The form of the network, filled with what is there."""
    network = kept.network
    bond = network.bonds[0] if network and network.bonds else None
    vlan = network.vlans[0] if network and network.vlans else None
    card = network.interfaces[0] if network and network.interfaces else None
    link = vlan or bond or card
    names = bond.members if bond else [card.name or ""] if card else cards[:1]
    return [
        Field("cards", "Network cards", " ".join(names),
              hint=f"Several become a bond. There are: {' '.join(cards) or 'none'}"),
        Field("mode", "Mode of a bond", bond.mode if bond else MODES[0], MODES),
        Field("vlan", "VLAN number", str(vlan.id) if vlan else "", hint="Empty: no VLAN"),
        Field("dhcp", "Addresses by DHCP", link.dhcp if link else "yes",
              ("yes", "ipv4", "ipv6", "no")),
        Field("addresses", "Static addresses", " ".join(link.addresses) if link else "",
              hint="With prefix, such as 192.0.2.10/24"),
        Field("gateway", "Router", (link.gateway or "") if link else ""),
        Field("gateway6", "Router for IPv6", (link.gateway6 or "") if link else ""),
        Field("dns", "Name servers", " ".join(network.dns) if network else ""),
        Field("search", "Search domains", " ".join(network.search) if network else ""),
    ]  # fmt: skip


def network_part(filled: Mapping[str, str]) -> dict[str, Any]:
    """The form of the network as its part of the answers."""
    cards = words(filled["cards"])
    addressing: dict[str, Any] = {"dhcp": filled["dhcp"], "addresses": words(filled["addresses"])}
    for name in ("gateway", "gateway6"):
        if filled[name]:
            addressing[name] = filled[name]
    top = "bond0" if len(cards) > 1 else (cards[0] if cards else "")
    own = {} if filled["vlan"] else addressing
    part: dict[str, Any] = {"dns": words(filled["dns"]), "search": words(filled["search"])}
    if len(cards) > 1:
        part["interfaces"] = [{"name": card} for card in cards]
        part["bonds"] = [{"name": top, "members": cards, "mode": filled["mode"], **own}]
    else:
        part["interfaces"] = [{"name": top, **own}]
    if filled["vlan"]:
        vlan = {"name": f"vlan{filled['vlan']}", "parent": top, "id": filled["vlan"]}
        part["vlans"] = [{**vlan, **addressing}]
    return part


def _node(value: Any) -> Node:
    if isinstance(value, dict):
        return MappingNode(
            0, {name: _node(one) for name, one in value.items()}, dict.fromkeys(value, 0)
        )
    if isinstance(value, list):
        return Sequence(0, tuple(map(_node, value)))
    if isinstance(value, bool):
        return Text(0, "yes" if value else "no", is_quoted=False)
    # A field of a form says what it says in a file without quotes; empty is a text.
    return Text(0, str(value), is_quoted=not value)
