"""Minimum Retention counts by a time that no one makes pass by moving the machine's clock."""

import json
import os
import pwd

import pytest

from kit.shifted_clock import DAY_SECONDS, ShiftedClock, can_shift_clocks
from kit.storage_site import StorageSite
from kit.tiny_backup import back_up, new_repository
from strongroom.base import clock
from strongroom.base.errors import RightError
from strongroom.net.storage.place import open_socket, parse_place
from strongroom.net.storage.protocol import FrameType, decode
from strongroom.storage.settings import StorageLimits
from strongroom.storage.trusted_clock import TrustedClock

HOUR_SECONDS = 3600
YEAR_DAYS = 365
KEPT_DAYS = 7
KEPT = StorageLimits(minimum_retention_seconds=KEPT_DAYS * DAY_SECONDS)


class Clocks:
    """The machine's clocks: `pass_` moves all, `set_ahead` only the one that can be set."""

    def __init__(self, monkeypatch):
        self._wall_ns = clock.now_ns()
        self._boot_ns = 5 * HOUR_SECONDS * 10**9
        self._boots = 1
        monkeypatch.setattr(clock, "now_ns", lambda: self._wall_ns)
        monkeypatch.setattr(clock, "since_boot_ns", lambda: self._boot_ns)
        monkeypatch.setattr(clock, "boot_id", lambda: f"boot {self._boots}")

    def pass_(self, seconds):
        self._wall_ns += int(seconds * 1e9)
        self._boot_ns += int(seconds * 1e9)

    def set_ahead(self, seconds):
        self._wall_ns += int(seconds * 1e9)

    def restart(self, off_seconds):
        """Off for so long; then it has run for half a minute."""
        self._boots += 1
        self._boot_ns = 30 * 10**9
        self._wall_ns += int(off_seconds * 1e9)


@pytest.fixture
def clocks(monkeypatch):
    return Clocks(monkeypatch)


@pytest.fixture
def kept(clocks, make_daemon):
    """A daemon, its appliance, and the id of a snapshot that must be kept for a week."""
    daemon = make_daemon(limits=KEPT)
    appliance = new_repository(daemon.local())
    yield daemon, appliance, back_up(appliance, {b"a": b"content"}).id
    appliance.close()


def delete(daemon, name):
    daemon.local().delete("snapshots", name)


def confirm(daemon):
    return decode(daemon.local().client().ask(FrameType.CONFIRM_CLOCK, None).header, list[int])


def figure(daemon):
    (line,) = (
        line
        for line in daemon.server.serving.metrics_text().decode().splitlines()
        if line.startswith("strongroom_storage_clock_ahead_seconds{")
    )
    return float(line.rpartition(" ")[2])


def test_time_that_passes_is_believed(clocks, kept):
    daemon, _, name = kept
    clocks.pass_((KEPT_DAYS - 1) * DAY_SECONDS)
    with pytest.raises(RightError, match=r"6.0 days old.*Minimum Retention .*daemon.$"):
        delete(daemon, name)
    clocks.pass_(DAY_SECONDS)
    delete(daemon, name)
    assert figure(daemon) == 0


def test_a_clock_put_forward_by_a_year_makes_nothing_old(clocks, kept, caplog):
    daemon, _, name = kept
    clocks.set_ahead(YEAR_DAYS * DAY_SECONDS)
    with pytest.raises(RightError, match=r"0.0 days old.*365.0 days ahead.*--confirm-clock"):
        delete(daemon, name)
    assert figure(daemon) == YEAR_DAYS * DAY_SECONDS
    # Neither do restarts of the daemon, nor of the machine.
    daemon.restart()
    with pytest.raises(RightError, match="trusted"):
        delete(daemon, name)
    clocks.restart(off_seconds=60)
    daemon.restart()
    with pytest.raises(RightError, match="trusted"):
        delete(daemon, name)
    assert sum("and is not trusted: Min" in line for line in caplog.messages) == 1
    # What is old all the same may go.
    clocks.pass_(KEPT_DAYS * DAY_SECONDS)
    delete(daemon, name)


def test_a_jump_that_is_undone_leaves_nothing_behind(clocks, kept, caplog):
    daemon, appliance, first = kept
    clocks.set_ahead(YEAR_DAYS * DAY_SECONDS)
    meanwhile = back_up(appliance, {b"a": b"stored by a wrong clock"}).id
    clocks.set_ahead(-YEAR_DAYS * DAY_SECONDS)
    assert figure(daemon) == 0
    assert "disk: the clock is correct again" in caplog.messages
    with pytest.raises(RightError, match=r"Minimum Retention .*daemon.$"):
        delete(daemon, first)
    clocks.pass_(KEPT_DAYS * DAY_SECONDS)
    delete(daemon, first)
    delete(daemon, meanwhile)


def test_an_operator_confirms_a_jump_and_what_came_meanwhile_grows_no_older(clocks, kept, caplog):
    daemon, appliance, first = kept
    clocks.pass_(DAY_SECONDS)
    clocks.set_ahead(YEAR_DAYS * DAY_SECONDS)
    assert figure(daemon) > 0
    meanwhile = back_up(appliance, {b"a": b"more"}).id
    clocks.pass_(DAY_SECONDS)
    before_ns, now_ns = confirm(daemon)
    assert (now_ns - before_ns) // 10**9 == YEAR_DAYS * DAY_SECONDS
    assert any("'root' confirmed the clock" in line for line in caplog.messages)
    assert figure(daemon) == 0
    delete(daemon, first)
    with pytest.raises(RightError, match=r"1.0 days old"):
        delete(daemon, meanwhile)
    daemon.restart()
    assert figure(daemon) == 0
    clocks.pass_(KEPT_DAYS * DAY_SECONDS)
    delete(daemon, meanwhile)


def test_a_machine_that_was_off_over_a_weekend_is_believed_and_one_off_for_months_is_not(
    clocks, kept
):
    daemon, _, name = kept
    clocks.restart(off_seconds=2.5 * DAY_SECONDS)
    daemon.restart()
    assert figure(daemon) == 0
    # The next time so soon is too much.
    clocks.pass_(HOUR_SECONDS)
    clocks.restart(off_seconds=2.5 * DAY_SECONDS)
    daemon.restart()
    assert figure(daemon) > 0
    confirm(daemon)
    clocks.restart(off_seconds=100 * DAY_SECONDS)
    daemon.restart()
    with pytest.raises(RightError, match="--confirm-clock"):
        delete(daemon, name)
    confirm(daemon)
    delete(daemon, name)


def test_a_machine_without_a_clock_of_its_own_learns_the_time_after_its_start(clocks, kept, caplog):
    daemon, _, name = kept
    clocks.restart(off_seconds=-20 * YEAR_DAYS * DAY_SECONDS)
    daemon.restart()
    assert any("the clock was set back" in line for line in caplog.messages)
    clocks.pass_(60)
    clocks.set_ahead((20 * YEAR_DAYS + 1) * DAY_SECONDS)
    assert figure(daemon) == 0
    with pytest.raises(RightError, match=r"1.0 days old"):
        delete(daemon, name)


def test_a_daemon_that_was_off_while_the_machine_ran_knows_for_how_long(clocks, kept):
    daemon, _, name = kept
    daemon.server.stop()
    clocks.pass_(100 * DAY_SECONDS)
    daemon.restart()
    delete(daemon, name)


def test_a_clock_put_back_breaks_nothing_and_stops_no_time(clocks, kept, caplog):
    daemon, appliance, name = kept
    clocks.set_ahead(-YEAR_DAYS * DAY_SECONDS)
    later = back_up(appliance, {b"a": b"by a clock that is behind"}).id
    daemon.restart()
    clocks.pass_(KEPT_DAYS * DAY_SECONDS)
    delete(daemon, name)
    delete(daemon, later)
    assert sum("the clock was set back" in line for line in caplog.messages) == 2


def test_a_wrong_time_that_was_confirmed_is_taken_back_by_confirming_the_right_one(clocks, kept):
    daemon, appliance, _ = kept
    clocks.set_ahead(YEAR_DAYS * DAY_SECONDS)
    confirm(daemon)
    name = back_up(appliance, {b"a": b"b"}).id
    clocks.set_ahead(-YEAR_DAYS * DAY_SECONDS)
    confirm(daemon)
    with pytest.raises(RightError, match=r"0.0 days old"):
        delete(daemon, name)
    clocks.pass_(KEPT_DAYS * DAY_SECONDS)
    delete(daemon, name)


def test_a_clock_that_creeps_gains_ten_minutes_and_then_ten_a_day(clocks, tmp_path):
    sure = TrustedClock("disk", bytes(tmp_path))
    began_ns = sure.now_ns()
    for _ in range(10 * 24):
        clocks.pass_(HOUR_SECONDS)
        clocks.set_ahead(300)
        sure.watch()
    passed_seconds = (sure.now_ns() - began_ns) / 1e9 - 10 * DAY_SECONDS
    assert 0 < passed_seconds <= 11 * 600
    assert sure.ahead_ns() > 0


def test_a_damaged_record_is_told_and_replaced(clocks, tmp_path, caplog):
    (tmp_path / "clock.json").write_text("{")
    assert TrustedClock("disk", bytes(tmp_path)).now_ns() == clock.now_ns()
    assert any("is damaged" in line for line in caplog.messages)
    assert json.loads((tmp_path / "clock.json").read_text())["sure_ns"] == clock.now_ns()


def test_a_record_of_a_checkout_before_the_first_release_still_says_since_when(clocks, tmp_path):
    trusted = TrustedClock("vault", os.fsencode(tmp_path))
    clocks.set_ahead(YEAR_DAYS * DAY_SECONDS)
    trusted.watch()
    record = tmp_path / "clock.json"
    since_ns = json.loads(record.read_text())["untrusted_since_ns"]
    record.write_text(record.read_text().replace("untrusted_since_ns", "doubted_since_ns"))
    clocks.pass_(HOUR_SECONDS)
    again = TrustedClock("vault", os.fsencode(tmp_path))
    clocks.pass_(DAY_SECONDS)
    again.watch()
    assert json.loads(record.read_text())["untrusted_since_ns"] == since_ns


def test_no_agent_confirms(kept):
    daemon, _, _ = kept
    with pytest.raises(RightError):
        daemon.agent("web1").client().ask(FrameType.CONFIRM_CLOCK, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be somebody else")
def test_a_maintenance_user_deletes_but_does_not_confirm(folder):
    folder.chmod(0o755)
    site = StorageSite(folder, "Maintenance Users = nobody")
    store = open_socket(parse_place(site.place))
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        client = store.client()
    finally:
        os.seteuid(0)
    assert client.welcome.role == "local"
    with pytest.raises(RightError, match="only root"):
        client.ask(FrameType.CONFIRM_CLOCK, None)
    store.close()
    assert site.stop() == 0


@pytest.mark.skipif(not can_shift_clocks(), reason="no compiler for the clock that is moved")
def test_a_real_daemon_whose_clock_jumps_keeps_what_it_must(folder):
    moved = ShiftedClock(folder, "storage")
    site = StorageSite(folder, "Minimum Retention = 7 days", moved.environment)
    (folder / "tree").mkdir()
    (folder / "tree" / "file").write_bytes(b"content")
    site.identity("web1", "agent")
    name = site.back_up("web1", str(folder / "tree"))["snapshot"]
    moved.set(YEAR_DAYS * DAY_SECONDS)
    forget = ("forget", name, "--json")
    assert "is not trusted" in site.local(*forget, exit_code=RightError.exit_code)
    assert "the clock is 365.0 days ahead of what is plausible" in site.log()
    confirmed = site.local(
        *("storage", "--confirm-clock", "--config", str(site.configuration), "--json"), key=None
    )
    assert json.loads(confirmed.splitlines()[-1])["type"] == "clock"
    site.local(*forget)
    assert site.stop() == 0
    assert os.path.exists(site.repository / "provenance" / "clock.json")
