"""Updates of an appliance that is set up: one that was changed, a good one, and two that do not work.

The tests follow each other.
"""

from __future__ import annotations

BROKEN_DIRECTOR = "[Service]\nType=notify\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"
OTHER = {"a": "b", "b": "a"}
UNITS = "/usr/lib/systemd/system"


def test_an_update_that_was_changed_is_refused(life, new_update, tmp_path):
    data = bytearray(new_update("changed.update", seconds=5).read_bytes())
    data[600:603] = b"!!!"
    (tmp_path / "changed.update").write_bytes(data)
    with life.machine.serving(tmp_path) as place:
        life.does(f"strongroom-appliance update {place}/changed.update", code=9)
    assert life.slots()["states"] == {"a": "good", "b": "0"}


def test_the_daily_update_is_tried_found_good_and_keeps_everything(life, new_update):
    """By the service of the timer, from where the answers say."""
    update = new_update("good.update", seconds=10)
    with life.machine.serving(update.parent):
        life.does("systemctl start strongroom-update.service")
    assert life.slots()["states"] == {"a": "good", "b": "3"}
    life.does("systemctl reboot --no-block; true")
    life.restarted()
    found = life.settled()
    assert found["running"] == "b"
    assert found["states"] == {"a": "good", "b": "good"}, life.does("journalctl -b -u strongroom-trial --no-pager")
    assert found["update"]["result"] == "good"
    assert life.kept() == life.before
    life.is_at_work()


def test_an_update_whose_director_does_not_start_is_given_up(life, new_update):
    broken = {f"{UNITS}/strongroom-director.service": BROKEN_DIRECTOR}
    update = new_update("broken.update", seconds=20, files=broken)
    with life.machine.serving(update.parent) as place:
        good = life.updates(f"{place}/broken.update")
    other = OTHER[good]
    tried = life.machine.wait_for_ssh(life.key, life.boot)
    assert life.does("cat /proc/cmdline").count(f"strongroom.slot={other} strongroom.trial=2")
    life.boot = tried
    life.restarted()
    found = life.settled()
    assert found["running"] == good
    assert found["states"] == {good: "good", OTHER[good]: "0"}
    assert found["update"]["result"] == "failed"
    assert "strongroom-director.service is not active" in found["update"]["reasons"]
    assert life.kept() == life.before
    life.is_at_work()


def test_an_update_that_does_not_start_at_all_is_left_after_three_tries(life, new_update):
    update = new_update("dead.update", seconds=30, remove=("/usr/lib/systemd/systemd",))
    with life.machine.serving(update.parent) as place:
        good = life.updates(f"{place}/dead.update")
    life.restarted()
    found = life.settled()
    assert found["running"] == good
    assert found["states"] == {good: "good", OTHER[good]: "0"}
    assert found["update"]["result"] == "failed"
    assert life.kept() == life.before
    life.is_at_work()
