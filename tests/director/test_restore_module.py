"""`strongroom_restore` against a real director."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.strongroom.backup.plugins.modules import strongroom_restore

from tests.director.conftest import ansible

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def snapshots(house):
    """Two snapshots of web1, the letter being another in the second; ids and times, the older one first."""
    told = []
    for letter in ("Dear all\n", "Dear friends\n"):
        (house.data / "letter").write_text(letter)
        house.command("run", "web1", "--watch")
        told.append(house.command("status")[0]["recent"][0])
    yield told
    (house.data / "letter").write_text("Dear all\n")


@pytest.fixture
def restore(house, run_module, snapshots):
    def run(**arguments):
        options = {**house.credential, "client": "web1", "path": str(house.data), **arguments}
        return run_module(strongroom_restore, **{name: value for name, value in options.items() if value is not None})

    return run


def test_files_come_back_and_a_second_time_nothing_changes(restore, tmp_path):
    target = tmp_path / "back"
    told = restore(target=str(target))
    assert told["changed"]
    assert told["actions"]["created"] == 2
    assert (target / "letter").read_text() == "Dear friends\n"
    again = restore(target=str(target))
    assert not again["changed"]
    assert again["actions"] == {"unchanged": 2}
    (target / "letter").unlink()
    assert restore(target=str(target))["actions"]["created"] == 1


def test_the_date_chooses_the_snapshot(restore, snapshots, tmp_path):
    older, newer = (one["snapshot"] for one in snapshots)
    told = restore(target=str(tmp_path / "a"), date=snapshots[0]["ended"][:19] + "Z")
    # The second one began after the first had ended, though perhaps in the same second.
    assert told["snapshot"] in (older, newer)
    assert restore(target=str(tmp_path / "b"), date=snapshots[1]["ended"][:10])["snapshot"] == newer
    assert restore(target=str(tmp_path / "c"), snapshot=older[:12])["snapshot"] == older
    assert (tmp_path / "c/letter").read_text() == "Dear all\n"
    told = restore(target=str(tmp_path / "d"), date="2020-02-29")
    assert told["failed"]
    assert told["error_id"] == "snapshot-not-found"
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2026-11-21", "2026-11-22T00:00:00+00:00"),
        ("2026-11-21 18:00", "2026-11-21T18:01:00+00:00"),
        ("2026-11-21 18:00:59+02:00", "2026-11-21T18:01:00+02:00"),
        ("2026-11-21T18:00:00Z", "2026-11-21T18:00:01+00:00"),
        ("2026-11-21 18:00 -03:30", "2026-11-21T18:01:00-03:30"),
    ],
)
def test_a_date_means_until_its_end(text, end):
    assert strongroom_restore.end_of(text).isoformat() == end


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-11-21 25:00", "21.11.2026", ""])
def test_a_date_that_is_none_is_refused(text):
    with pytest.raises(strongroom_restore.DirectorError, match="is no time"):
        strongroom_restore.end_of(text)


def test_check_mode_lists_what_would_be_restored_and_writes_nothing(restore, tmp_path):
    target = tmp_path / "back"
    told = restore(target=str(target), check=True)
    assert told["changed"]
    assert told["entries"] == [{"action": "created", "path": "/letter"}, {"action": "created", "path": "/poem"}]
    assert told["entries_left_out"] == 0
    assert not target.exists()
    restore(target=str(target))
    (target / "poem").write_text("Oh\n")
    told = restore(target=str(target), check=True)
    assert told["entries"] == [{"action": "updated", "path": "/poem"}]
    assert (target / "poem").read_text() == "Oh\n"


def test_the_playbook_lists_what_would_come_back(house, snapshots, tmp_path):
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    groups = {"appliance": {"hosts": {"vault": here}}, "agents": {"vars": {"strongroom_agent_group": "servers"}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(groups))
    target = tmp_path / "back"
    words = ["-i", "hosts.yml", "-e", "client=web1", "-e", f"target={target}", "-e", f"path={house.data}"]
    playbook = str(PROJECT / "ansible/restore.yml")
    output = ansible("ansible-playbook", "--check", *words, playbook, house=house, folder=tmp_path)
    assert "created /letter" in output
    assert "created /poem" in output
    assert snapshots[1]["snapshot"][:8] in output
    assert not target.exists()
    output = ansible("ansible-playbook", *words, playbook, house=house, folder=tmp_path)
    assert "created /letter" not in output
    assert (target / "letter").exists()


def test_the_difference_is_shown_before_it_is_made(restore, tmp_path):
    told = restore(target=str(tmp_path / "back"), diff=True)
    assert told["diff"]["after"] == "created /letter\ncreated /poem\n"
    assert (tmp_path / "back/poem").exists()


def test_what_is_there_is_replaced_as_asked(restore, tmp_path):
    (tmp_path / "letter").write_text("my own, and longer\n")
    (tmp_path / "notes").write_text("kept\n")
    told = restore(target=str(tmp_path), overwrite="never")
    assert told["actions"]["kept"] == 1
    assert (tmp_path / "letter").read_text() == "my own, and longer\n"
    told = restore(target=str(tmp_path), replace="always")
    assert told["changed"]
    assert (tmp_path / "letter").read_text() == "Dear friends\n"
    assert (tmp_path / "notes").exists()


def test_with_creates_nothing_is_asked_for_once_it_is_there(restore, tmp_path):
    told = restore(target=str(tmp_path / "back"), creates=str(tmp_path), director="https://localhost:1")
    assert not told["changed"]
    assert "nothing was restored" in told["msg"]


def test_paths_keep_their_place_and_go_to_another_client(house, restore, tmp_path):
    told = restore(path=None, paths=[str(house.data / "poem")], onto="db1", target=str(tmp_path))
    assert told["run"]["client"] == "db1"
    assert told["run"]["source_client"] == "web1"
    assert (tmp_path / str(house.data).lstrip("/") / "poem").read_text() == "O\n"
    assert not (tmp_path / str(house.data).lstrip("/") / "letter").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "say where to"),
        ({"target": "back"}, "target: 'back' is not absolute"),
        ({"target": "/nowhere", "path": "etc"}, "path: 'etc' is not absolute"),
        ({"target": "/nowhere", "client": None}, "say whose backup"),
        ({"target": "/nowhere", "client": "nobody"}, "no snapshot of nobody"),
        ({"target": "/nowhere", "snapshot": "0000aaaa"}, "0000aaaa"),
        ({"target": "/nowhere", "in_place": True}, "mutually exclusive"),
    ],
)
def test_what_is_wrong_is_said(restore, options, text):
    told = restore(**options)
    assert told["failed"]
    assert text in told["msg"]


def test_a_path_that_no_snapshot_has_fails_the_task(restore, tmp_path):
    told = restore(path="/nowhere", target=str(tmp_path / "back"))
    assert told["failed"]
    assert told["error_id"] == "path-not-found"
