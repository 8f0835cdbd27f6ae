"""Putting the network's files in place, and into effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.appliance.machine import run, run_for_code
from strongroom.appliance.steps.network_files import (
    DEFAULT_FILE,
    FOLDER,
    PREFIX,
    network_files,
)

if TYPE_CHECKING:
    from strongroom.appliance.steps.context import Context


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
        if run_for_code(["systemctl", "is-enabled", "--quiet", unit])[0]:
            run(["systemctl", "enable", "--quiet", unit])
            context.did(f"enabled {unit}")
    run(["systemctl", "start", "systemd-networkd.service"])
    run_for_code(["systemctl", "start", "systemd-resolved.service"])
    run(["networkctl", "reload"])
    for name in gone:
        if name.endswith(".netdev"):
            run_for_code(["networkctl", "delete", name.removeprefix(PREFIX)[: -len(".netdev")]])
