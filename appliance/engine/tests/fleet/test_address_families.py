"""Daemons listen on IPv4 and IPv6 where nothing else is set, and work where there is only one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kit.made_appliance import MadeAppliance
from kit.packet_link import (
    FAR_ADDRESS,
    IPV6_ADDRESSES,
    NEAR_ADDRESS,
    PacketLink,
    cannot_link_packets,
)

pytestmark = pytest.mark.skipif(bool(cannot_link_packets()), reason=cannot_link_packets())


@pytest.mark.parametrize(
    ("addresses", "dials"),
    [
        pytest.param(IPV6_ADDRESSES, "agent", id="ipv6", marks=pytest.mark.slow),
        pytest.param(IPV6_ADDRESSES, "director", id="ipv6-dialled"),
        pytest.param((NEAR_ADDRESS, FAR_ADDRESS), "agent", id="ipv4", marks=pytest.mark.slow),
    ],
)
def test_a_machine_joins_and_backs_up_over_one_family(
    folder: Path, addresses: tuple[str, str], dials: str
) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "letter").write_text("Dear all\n")
    with PacketLink(addresses=addresses) as link, MadeAppliance(folder, addresses[0]) as made:
        near, far = link.near.run, link.far.run
        near(made.start)
        groups = folder / "etc/director.d/jobdefs/groups.conf"
        groups.write_text(groups.read_text().replace("File = /\n", f'File = "{folder}/data"\n'))
        near(made.command, "reload")
        token = near(made.token, "--group", "servers", "--names", "web1")
        far(made.join, "web1", token)
        if dials == "director":
            _let_the_director_dial(made, addresses[1])
            near(made.command, "reload")
        far(made.start_agent, "web1")
        run = near(made.told, "run", "web1", "--watch")
        assert run["state"] == "done", run
        # Everybody writes an address the same way, whatever the socket was.
        assert "::ffff:" not in made.director.log + made.storage.log
        assert addresses[1] in near(made.command, "audit", "--json").stdout


def _let_the_director_dial(made: MadeAppliance, address: str) -> None:
    client = made.folder / "etc/director.d/client/web1.conf"
    text = client.read_text().replace(
        'Address = "web1"', f'Address = "{address}"; Connection From Director To Client = yes'
    )
    client.write_text(
        text.replace("Client { ", "Client { Connection From Client To Director = no; ")
    )
    agents = made.folder / "web1/etc/agent.d/director/vault-dir.conf"
    dialled = (
        "  Connection From Director To Client = yes\n  Connection From Client To Director = no\n"
    )
    agents.write_text(agents.read_text().replace("  Password", f"{dialled}  Password"))


def test_both_families_reach_daemons_at_the_same_time(folder: Path) -> None:
    with MadeAppliance(folder, "localhost") as made:
        made.start()
        for daemon, port in (
            (made.director, made.director_port),
            (made.storage, made.storage_port),
        ):
            for address in ("127.0.0.1", "::1"):
                socket.create_connection((address, port), 5).close()
            daemon.await_said(f"all addresses port {port}")
