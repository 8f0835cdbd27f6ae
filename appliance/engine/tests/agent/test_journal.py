"""Journals: what is kept of a run, whatever happens to the file's end."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.size_limit import largest_file
from kit.virtual_time import ShiftedTime
from strongroom.agent import journal as journals
from strongroom.agent.journal import RunJournal, load_journals
from strongroom.base import clock
from strongroom.engine.filesets.spec import FileSetSpec
from strongroom.net.control.messages import (
    RunEnded,
    RunLog,
    RunStarted,
    StartEstimate,
    decode_for_director,
)

DIRECTORS = ("boss",)


def new_journal(folder: bytes) -> RunJournal:
    request = StartEstimate(run_id=uuid.uuid4().hex, job="x", fileset=FileSetSpec(name="all"))
    return RunJournal.create(folder, "boss", request)


def ending(journal: RunJournal) -> RunEnded:
    return RunEnded(
        run_id=journal.run_id, sequence=0, time_ns=clock.now_ns(), status="done", exit_code=0
    )


def reports(journal: RunJournal) -> list[object]:
    return [
        decode_for_director(journal.report(number))
        for number in range(1, journal.last_sequence + 1)
    ]


def filled(folder: bytes, texts: list[str]) -> RunJournal:
    journal = new_journal(folder)
    journal.begin()
    journal.add_started()
    for number, text in enumerate(texts):
        journal.add_log(number, "info", text)
    journal.add_ended(ending(journal))
    return journal


@settings(max_examples=50)
@given(texts=st.lists(st.text(st.characters(codec="utf-8")), max_size=8), data=st.data())
def test_a_journal_that_was_cut_off_is_the_beginning_of_what_it_was(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    folder = os.fsencode(tmp_path_factory.mktemp("runs"))
    written = filled(folder, texts)
    before = reports(written)
    assert [report.sequence for report in before] == list(range(1, len(before) + 1))
    assert [one.text for one in before if isinstance(one, RunLog)] == texts
    written.close()
    path = os.path.join(folder, os.listdir(folder)[0])
    size = data.draw(st.integers(0, os.path.getsize(path)))
    os.truncate(path, size)
    loaded = load_journals(folder, DIRECTORS)
    if not loaded:
        assert os.listdir(folder) == []
        return
    (journal,) = loaded
    after = reports(journal)
    assert after == before[: len(after)]
    assert (journal.ended is not None) == (len(after) == len(before))
    # It continues where it was cut off.
    if journal.ended is None:
        journal.add_log(1, "info", "more")
        journal.add_ended(ending(journal))
        assert [report.sequence for report in reports(journal)] == list(range(1, len(after) + 3))
        journal.close()
        (journal,) = load_journals(folder, DIRECTORS)
        assert journal.ended is not None
    journal.close()


def test_what_is_acknowledged_stays_so(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    journal = filled(folder, ["a", "b"])
    assert not journal.acknowledge(3)
    assert not journal.acknowledge(2)
    (loaded,) = load_journals(folder, DIRECTORS)
    assert (loaded.acknowledged, loaded.last_sequence, loaded.begun) == (3, 4, 1)
    assert loaded.acknowledge(4)
    loaded.remove()
    assert load_journals(folder, DIRECTORS) == []


def test_numbers_go_on_after_lines_that_only_the_director_still_has(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    journal = new_journal(folder)
    journal.add_started()
    # A power failure took lines 2 to 9, which had been sent.
    assert not journal.acknowledge(9)
    journal.add_log(1, "info", "ten")
    journal.add_ended(ending(journal))
    for one in (journal, load_journals(folder, DIRECTORS)[0]):
        assert (one.acknowledged, one.last_sequence) == (9, 11)
        report = decode_for_director(one.report(10))
        assert isinstance(report, RunLog)
        assert (report.sequence, report.text) == (10, "ten")
    assert journal.acknowledge(500)


def test_a_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    new_journal(os.fsencode(tmp_path))
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_that_is_too_long_is_cut_but_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "JOURNAL_BYTES_LIMIT", 2000)
    journal = filled(os.fsencode(tmp_path), ["x" * 100] * 50)
    told = reports(journal)
    assert isinstance(told[0], RunStarted)
    assert isinstance(told[-1], RunEnded)
    assert isinstance(told[-2], RunLog)
    left_out = int(told[-2].text.split()[0])
    assert left_out + len(told) - 3 == 50


def test_a_full_disk_costs_log_lines_only_and_the_end_is_tried_again(tmp_path: Path) -> None:
    journal = new_journal(os.fsencode(tmp_path))
    journal.add_started()
    (path,) = tmp_path.iterdir()
    with largest_file(path.stat().st_size + 10):
        journal.add_log(1, "info", "lost")
        with pytest.raises(OSError, match="too large"):
            journal.add_ended(ending(journal))
    assert journal.ended is None
    journal.add_ended(ending(journal))
    texts = [one.text for one in reports(journal) if isinstance(one, RunLog)]
    assert [text[:7] for text in texts] == ["1 lines"]
    assert [one.ended is not None for one in load_journals(os.fsencode(tmp_path), DIRECTORS)] == [
        True
    ]


def test_a_clock_far_ahead_removes_no_report(tmp_path: Path, monkeypatch) -> None:
    folder = os.fsencode(tmp_path)
    filled(folder, ["a"]).close()
    ShiftedTime(monkeypatch).jump(97 * 86400)
    (loaded,) = load_journals(folder, DIRECTORS)
    assert loaded.ended is not None
    loaded.close()
    # No one acknowledges what a removed director has not got.
    assert load_journals(folder, ("another",)) == []
    assert os.listdir(folder) == []


def test_what_is_no_journal_is_removed(tmp_path: Path) -> None:
    (tmp_path / "x.journal").write_bytes(b"\xff\xfe not ours")
    (tmp_path / "y.journal").write_bytes(msgspec.json.encode({"type": "begun", "time_ns": 1}))
    assert load_journals(os.fsencode(tmp_path), DIRECTORS) == []
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_cannot_be_written_leaves_no_file_and_no_descriptor(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with largest_file(10), pytest.raises(OSError, match="too large"):
            new_journal(os.fsencode(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == len(before)
