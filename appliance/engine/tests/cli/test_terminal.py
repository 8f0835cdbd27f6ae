"""What users and programs read from a command."""

import io
import json
import threading

import pytest

from strongroom.base.errors import EXIT_OUTPUT_CLOSED, OutputClosedError
from strongroom.base.printable import printable
from strongroom.base.progress import CountedProgress, NullProgress
from strongroom.base.quantities import duration_text, size_text
from strongroom.cli.live_progress import ProgressRates, progress_text, show_progress
from strongroom.cli.terminal import Terminal


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def messages() -> io.StringIO:
    return io.StringIO()


def test_json_mode_writes_objects_only(output, messages):
    terminal = Terminal(as_json=True, output=output, messages=messages)
    terminal.line("for people")
    terminal.detail("for curious people")
    terminal.emit({"type": "file", "size": 3})
    assert output.getvalue() == '{"type":"file","size":3}\n'


def test_people_get_lines_only(output, messages):
    terminal = Terminal(output=output, messages=messages)
    terminal.emit({"type": "file"})
    terminal.line("a line")
    terminal.detail("a detail")
    assert output.getvalue() == "a line\n"


def test_verbose_adds_details(output, messages):
    terminal = Terminal(verbose=1, output=output, messages=messages)
    terminal.detail("a detail")
    assert output.getvalue() == "a detail\n"


def test_quiet_silences_all_but_warnings_and_errors(output, messages):
    terminal = Terminal(quiet=True, verbose=1, output=output, messages=messages)
    terminal.line("a line")
    terminal.detail("a detail")
    terminal.message_line("work continues")
    terminal.warn("one file could not be read")
    assert output.getvalue() == ""
    assert messages.getvalue() == "strongroom: warning: one file could not be read\n"


@pytest.mark.parametrize("name", [b"plain", "größe".encode(), b"", b'quote " and \\', b"a\nb"])
def test_names_in_utf8_are_strings_in_json(output, messages, name):
    Terminal(as_json=True, output=output, messages=messages).emit({"path": name})
    assert json.loads(output.getvalue()) == {"path": name.decode()}


def test_other_names_keep_every_byte_in_json(output, messages):
    Terminal(as_json=True, output=output, messages=messages).emit({"paths": [b"\xff/a", b"b"]})
    assert json.loads(output.getvalue()) == {"paths": [{"base64": "/y9h"}, "b"]}


def test_what_json_cannot_hold_is_refused(output, messages):
    with pytest.raises(TypeError, match="set"):
        Terminal(as_json=True, output=output, messages=messages).emit({"paths": {1, 2}})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"caf\xe9", "caf\\xe9"),
        (b"\x1b[2Jboo", "\\x1b[2Jboo"),
        (b"two\nlines", "two\\nlines"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
    ],
)
def test_a_name_cannot_drive_the_terminal(name, expected):
    assert printable(name) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 60, "3072.0 PiB"),
    ],
)
def test_sizes_read_well(size, expected):
    assert size_text(size) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.04, "0.0 s"), (3.21, "3.2 s"), (245, "4:05"), (3723, "1:02:03")],
)
def test_durations_read_well(seconds, expected):
    assert duration_text(seconds) == expected


def test_a_reader_that_went_away_ends_the_command(messages):
    terminal = Terminal(output=Closed(), messages=messages)
    with pytest.raises(OutputClosedError) as raised:
        terminal.line("anybody there?")
    assert raised.value.exit_code == EXIT_OUTPUT_CLOSED


def test_the_work_goes_on_when_nobody_reads_our_warnings(output):
    terminal = Terminal(output=output, messages=Closed())
    terminal.warn("anybody there?")


def test_an_error_is_one_line_for_people(output, messages):
    Terminal(output=output, messages=messages).report_error("store", "no space left", 30)
    assert messages.getvalue() == "strongroom: error [store]: no space left\n"


def test_an_error_is_an_object_too_with_json(output, messages):
    Terminal(as_json=True, output=output, messages=messages).report_error("store", "full", 30)
    assert json.loads(messages.getvalue().splitlines()[1]) == {
        "type": "error",
        "id": "store",
        "exit_code": 30,
        "message": "full",
    }
    assert output.getvalue() == ""


def test_the_live_line_makes_room_for_a_warning(output):
    screen = Screen()
    terminal = Terminal(output=output, messages=screen)
    terminal.show_live_line("backing up, 12 files")
    terminal.warn("hm")
    erased = "\r" + " " * len("backing up, 12 files") + "\r"
    assert screen.getvalue() == "\rbacking up, 12 files" + erased + "strongroom: warning: hm\n"


def test_a_shorter_live_line_covers_a_longer_one():
    screen = Screen()
    terminal = Terminal(messages=screen)
    terminal.show_live_line("123456")
    terminal.show_live_line("12")
    assert screen.getvalue().endswith("\r12    ")


def test_progress_counts_from_many_threads():
    progress = CountedProgress("backing up")

    def work() -> None:
        for _ in range(2000):
            progress.add(files=1, bytes=10, stored_bytes=3)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = ProgressRates(progress).snapshot()
    assert (counts["files"], counts["bytes"], counts["stored_bytes"]) == (8000, 80000, 24000)


def test_progress_with_a_total_says_how_far_and_how_long():
    progress = CountedProgress("restoring")
    progress.total(files=10, bytes=4096)
    progress.add(files=5, bytes=1024, errors=1)
    text = progress_text(ProgressRates(progress).snapshot())
    assert text.startswith("restoring 25%, 5 of 10 files, 1.0 KiB of 4.0 KiB, ")
    assert "/s, 1 errors, " in text
    assert text.endswith(" left")


def test_progress_without_a_total_claims_nothing():
    progress = CountedProgress("backing up")
    progress.add(files=5, bytes=1024)
    counts = ProgressRates(progress).snapshot()
    assert counts["remaining_seconds"] is None
    assert "%" not in progress_text(counts)


def test_a_total_given_in_parts_is_kept():
    progress = CountedProgress("x")
    progress.total(files=10)
    progress.total(bytes=20)
    counts = ProgressRates(progress).snapshot()
    assert (counts["total_files"], counts["total_bytes"]) == (10, 20)


def test_the_live_line_is_gone_when_the_work_ends(monkeypatch):
    monkeypatch.setattr("strongroom.cli.live_progress.LIVE_INTERVAL_SECONDS", 0.01)
    screen = Screen()
    terminal = Terminal(messages=screen)
    drawn = threading.Event()
    with show_progress(terminal, "backing up") as progress:
        progress.message("writing the index")
        for _ in range(500):
            if "writing the index" in screen.getvalue():
                break
            drawn.wait(0.01)
    assert "writing the index" in screen.getvalue()
    assert screen.getvalue().endswith(" \r")


def test_a_log_gets_plain_lines_of_progress(monkeypatch, output, messages):
    monkeypatch.setattr("strongroom.cli.live_progress.PLAIN_INTERVAL_SECONDS", 0.01)
    terminal = Terminal(output=output, messages=messages)
    with show_progress(terminal, "backing up") as progress:
        progress.add(files=3)
        for _ in range(500):
            if "3 files" in messages.getvalue():
                break
            threading.Event().wait(0.01)
    assert "backing up, 3 files\n" in messages.getvalue()
    assert output.getvalue() == ""


def test_programs_get_objects_of_progress(monkeypatch, output, messages):
    monkeypatch.setattr("strongroom.cli.live_progress.PLAIN_INTERVAL_SECONDS", 0.01)
    terminal = Terminal(as_json=True, output=output, messages=messages)
    with show_progress(terminal, "backing up") as progress:
        progress.total(bytes=400, is_estimate=True)
        progress.add(files=3, bytes=100)
        for _ in range(500):
            if '"files":3' in output.getvalue():
                break
            threading.Event().wait(0.01)
    first = json.loads(output.getvalue().splitlines()[0])
    assert first["type"] == "progress"
    assert first["percent"] == 25
    assert first["remaining_seconds"] is not None
    assert messages.getvalue() == ""


def test_quiet_shows_no_progress(output, messages):
    terminal = Terminal(quiet=True, output=output, messages=messages)
    with show_progress(terminal, "backing up") as progress:
        assert isinstance(progress, NullProgress)
