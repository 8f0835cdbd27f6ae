"""One agent takes all it can of the daemons; another's backup ends as on any day."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from kit.house_of_daemons import HouseOfDaemons
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.identity import Identity


@contextmanager
def attacked_by(house: HouseOfDaemons, name: str, connections: int) -> Iterator[None]:
    """An attacker with the certificate of an agent, as another machine."""
    words = [sys.executable, "-m", "strongroom_bench.network.attacker", str(house.storage_port)]
    attacker = subprocess.Popen(
        ["nice", "-n", "10", *words, str(house.folder / name / "identity"), str(connections)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == "attacking\n"
        yield
        assert attacker.poll() is None
    finally:
        attacker.kill()
        attacker.communicate()


def status_of(pid: int) -> dict[str, int]:
    """What a process takes."""
    found = {"descriptors": len(os.listdir(f"/proc/{pid}/fd"))}
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("VmHWM", "Threads"):
                found[name] = int(value.split()[0])
    return found


@pytest.mark.parametrize(
    ("connections", "denied_requests"), [(250, 40), pytest.param(1000, 300, marks=pytest.mark.slow)]
)
def test_another_clients_backup_ends_while_one_agent_takes_all_it_can(
    new_house, connections, denied_requests
):
    house = new_house("web1", "web2")
    chance = random.Random(8)
    files = {f"{n}": chance.randbytes(20_000) for n in range(200)}
    house.write_files("web1", files)
    log_before = len(house.storage.log)
    with attacked_by(house, "web2", connections):
        context = client_context(Identity.load(str(house.folder / "web2" / "identity")))
        with httpx.Client(
            base_url=f"https://127.0.0.1:{house.director_port}/api/v1", verify=context
        ) as denied:
            for number in range(denied_requests):
                assert denied.get(f"/runs/{number:032x}").status_code == 403
        run = house.run("nightly-web1")
        taken = status_of(house.storage.pid)
    assert (run["state"], run["files"]) == ("done", len(files))
    assert taken["Threads"] < 150, taken
    assert taken["VmHWM"] < 600 << 10, taken
    assert taken["descriptors"] < 600, taken
    said = house.storage.log[log_before:]
    assert len(said) < 60_000, said[:10_000]
    assert "web2" in said
    # The director's audit log has the first of what was refused, and then a number.
    entries = house.get("/audit", limit=1000)["items"]
    assert 10 <= sum(entry["who"] == "web2" for entry in entries) < 30
    target = house.folder / "back"
    restored = house.restore(run["snapshot"], target, "web1")
    assert restored["state"] == "done"
    for name, content in files.items():
        assert (house.restored(target, "web1") / name).read_bytes() == content
