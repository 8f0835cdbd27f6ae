"""A copy of a machine that has the same identity: told, and no backup mixes the two."""

from __future__ import annotations

import shutil

from kit.daemon_process import DaemonProcess, wait_for
from kit.house_of_daemons import HouseOfDaemons


def copy_of(house: HouseOfDaemons, name: str) -> DaemonProcess:
    """A copied machine with its own files: another agent of the same identity."""
    place = house.folder / "copied"
    ignored = shutil.ignore_patterns("*.socket")
    shutil.copytree(house.folder / name, place, ignore=ignored)
    configuration = house.folder / "agent-copied.conf"
    text = house.agents[name].configuration.read_text()
    configuration.write_text(text.replace(f"{house.folder}/{name}/", f"{place}/"))
    return DaemonProcess("agent", configuration, house.folder / "copied.log", house.environment)


def test_two_agents_with_one_identity_are_told_and_their_backups_wait(new_house):
    house = new_house("web1", "web2")
    house.write_files("web1", {"a": b"of the original"})
    first = house.run("nightly-web1")
    copied = copy_of(house, "web1")
    copied.start()
    try:
        copied.await_said("strongroom agent rejoin")
        # Anyone who restarts is not a copy of himself.
        house.agents["web2"].kill()
        house.start_agent("web2")
        assert house.run("nightly-web2")["state"] == "done"

        waits = house.begin_run("nightly-web1")
        wait_for(lambda: house.get(f"/runs/{waits}")["state"] == "waiting")
        assert "two agents" in house.get(f"/runs/{waits}")["reason"]
        # It lasts over a restart, whichever comes first.
        house.director.stop()
        house.start_director()
        house.await_connected("web1")
        assert house.get(f"/runs/{waits}")["state"] == "waiting"

        house.command("agent", "rejoin", "--no-start", "--config", str(copied.configuration))
        assert not (house.folder / "copied" / "identity").exists()
        run = house.ended(waits)
        assert run["state"] == "done", house.log(waits)
        assert run["summary"]["new_bytes"] == 0
        assert first["snapshot"] in {one["id"] for one in house.get("/snapshots")["items"]}
        assert house.get("/clients/web1")["connected"]
    finally:
        copied.stop()


def test_a_copy_whose_certificate_is_revoked_gives_way_to_who_enrols_anew(new_house):
    house = new_house("web1")
    copied = copy_of(house, "web1")
    copied.start()
    try:
        copied.await_said("strongroom agent rejoin")
        house.authority("revoke", "web1")
        house.enrol("web1")
        house.agents["web1"].stop()
        house.start_agent("web1")
        assert house.run("nightly-web1")["state"] == "done"
    finally:
        copied.stop()
