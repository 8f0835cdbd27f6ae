"""A target is judged by where it really is, whatever links lead there or are exchanged."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from strongroom.base.errors import NotPermittedError, OperatingSystemError
from strongroom.engine.restore.target import WhereRules, open_target


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path.resolve() / "allowed"


def rules_for(*entries: object) -> WhereRules:
    return WhereRules((tuple(str(one) for one in entries),))


def place_of(target: Path, rules: WhereRules | None = None, *, dry_run: bool = False) -> str:
    """Where `open_target` really got to."""
    fd, _ = open_target(os.fsencode(target), rules, dry_run=dry_run)
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def tree_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("link", "leads_to", "target"),
    [
        ("allowed/exit", "../outside", "allowed/exit"),
        ("allowed/exit", "../outside", "allowed/exit/new/deeper"),
        ("allowed/exit", "{}/outside/made", "allowed/exit"),
        ("allowed/a", "b/..", "allowed/a/b/../../outside"),
        ("allowed/exit", "/proc/self/root/{}/outside", "allowed/exit"),
    ],
)
def test_a_link_that_leads_out_is_refused_and_nothing_is_made(
    allowed: Path, link: str, leads_to: str, target: str
) -> None:
    place = allowed.parent
    (allowed / "b").mkdir()
    (place / link).symlink_to(leads_to.format(place))
    before = tree_of(place)
    with pytest.raises(NotPermittedError) as refused:
        place_of(place / target, rules_for(allowed))
    assert tree_of(place) == before
    assert str(place / target) in str(refused.value)
    assert f" {place}/outside" in str(refused.value)
    assert f"`Where ACL = {allowed}`" in str(refused.value)


def test_a_link_in_place_of_the_allowed_folder_is_refused(allowed: Path) -> None:
    allowed.rmdir()
    allowed.symlink_to("outside")
    with pytest.raises(NotPermittedError, match="lead"):
        place_of(allowed / "x", rules_for(allowed))
    assert not list((allowed.parent / "outside").iterdir())


def test_links_that_stay_within_are_followed(allowed: Path) -> None:
    (allowed / "disk2").mkdir()
    (allowed / "now").symlink_to("disk2/../disk2")
    (allowed.parent / "in").symlink_to(allowed / "now")
    assert place_of(allowed / "now", rules_for(allowed)) == f"{allowed}/disk2"
    assert place_of(allowed.parent / "in" / "x", rules_for(allowed)) == f"{allowed}/disk2/x"


def test_a_denied_folder_is_not_reached_by_a_link_from_an_allowed_one(allowed: Path) -> None:
    (allowed / "secret").mkdir()
    (allowed / "open").symlink_to("secret")
    rules = rules_for(f"!{allowed}/secret", "*all*")
    with pytest.raises(NotPermittedError):
        place_of(allowed / "open", rules)
    assert place_of(allowed.parent / "outside", rules) == f"{allowed.parent}/outside"


def test_a_link_does_not_lead_to_above_a_denied_folder(allowed: Path) -> None:
    (allowed / "up").symlink_to("..")
    rules = rules_for(f"!{allowed.parent}/outside/secret", f"{allowed.parent}")
    with pytest.raises(NotPermittedError, match="outside/secret"):
        place_of(allowed / "up", rules)
    assert place_of(allowed / "up" / "allowed", rules) == str(allowed)


def test_every_list_must_allow_it(allowed: Path) -> None:
    both = WhereRules(((str(allowed),), (f"{allowed}/a",)))
    assert place_of(allowed / "a", both) == f"{allowed}/a"
    with pytest.raises(NotPermittedError):
        place_of(allowed / "b", both)
    assert not (allowed / "b").exists()


def test_what_is_missing_is_made_and_nothing_in_a_dry_run(allowed: Path) -> None:
    target = allowed / "a" / "b"
    assert open_target(os.fsencode(target), None, dry_run=True) == (-1, True)
    assert not (allowed / "a").exists()
    fd, is_new = open_target(os.fsencode(target), None, dry_run=False)
    os.close(fd)
    assert is_new
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    fd, is_new = open_target(os.fsencode(target), None, dry_run=False)
    os.close(fd)
    assert not is_new


@pytest.mark.parametrize("made", ["file", "circle", "broken"])
def test_what_is_no_folder_is_told(allowed: Path, made: str) -> None:
    (allowed / "file").write_text("x")
    (allowed / "circle").symlink_to("circle")
    (allowed / "broken").symlink_to("nowhere/../x")
    with pytest.raises(OperatingSystemError, match="restore into"):
        place_of(allowed / made)


def test_no_descriptor_is_left_open(allowed: Path) -> None:
    (allowed / "exit").symlink_to("../outside")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(NotPermittedError):
            place_of(allowed / "exit", rules_for(allowed))
        place_of(allowed / "a" / "b", rules_for(allowed))
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_that_are_exchanged_meanwhile_lead_nobody_out(allowed: Path) -> None:
    name = allowed / "name"
    (allowed / "real").mkdir()
    name.symlink_to("real")
    stopping = threading.Event()

    def exchange() -> None:
        while not stopping.is_set():
            for leads_to in ("../outside", "real"):
                (allowed / "next").symlink_to(leads_to)
                (allowed / "next").rename(name)

    planting = threading.Thread(target=exchange)
    planting.start()
    opened = 0
    try:
        for _ in range(1000):
            try:
                assert place_of(name / "x", rules_for(allowed)).startswith(f"{allowed}/real")
                opened += 1
            except NotPermittedError:
                pass
    finally:
        stopping.set()
        planting.join()
    assert opened
    assert not list((allowed.parent / "outside").iterdir())


def test_a_restore_keeps_to_its_rules(repository, tmp_path: Path, allowed: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("x")
    snapshot = back_up(repository, os.fsencode(tree))
    (allowed / "exit").symlink_to("../outside")
    for dry_run in (True, False):
        with pytest.raises(NotPermittedError):
            run_restore(
                repository, snapshot, allowed / "exit", where=rules_for(allowed), dry_run=dry_run
            )
    assert not list((tmp_path / "outside").iterdir())
    seen = run_restore(repository, snapshot, allowed / "in", where=rules_for(allowed))
    assert seen.report.is_complete
    assert (allowed / "in").exists()
