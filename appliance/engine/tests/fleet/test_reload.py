"""What a storage daemon puts in force when it reads its configuration again."""

from __future__ import annotations

import signal
from collections.abc import Callable

from kit.house_of_daemons import HouseOfDaemons
from kit.ports import free_port

STAYS = "the configuration stays as it was"


def needs_restart(house: HouseOfDaemons) -> bool:
    said = house.command("storage", "--config", str(house.storage.configuration), "--metrics")
    name = "strongroom_storage_restart_needed "
    return next(float(line.split()[-1]) for line in said.splitlines() if line.startswith(name)) > 0


def test_what_waits_for_a_restart_is_named_until_then(
    new_house: Callable[..., HouseOfDaemons],
) -> None:
    house = new_house()
    assert not needs_restart(house)
    house.storage_port = free_port()
    house.configure()
    house.storage.signal(signal.SIGHUP)
    house.storage.await_said(
        "Address, Addresses or Port: changed, but in force only after a restart of the daemon"
    )
    assert needs_restart(house)
    house.storage.stop()
    house.start_storage()
    assert not needs_restart(house)
    # A misspelt directive is not in force: neither it nor anything beside it.
    house.storage_further = "Minimum Retension = 7 days"
    house.configure()
    house.storage.signal(signal.SIGHUP)
    house.storage.await_said(STAYS)
    assert "did you mean Minimum Retention?" in house.storage.log
