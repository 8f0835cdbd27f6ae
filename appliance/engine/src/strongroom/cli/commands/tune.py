"""`strongroom tune`: searches the knobs that make backups of this machine and data fastest."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.options import REPEATED, decimal, folder, words
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.cli.measure.tuning.journal import Journal, Subject
    from strongroom.cli.measure.tuning.search import KnobChanges, Measurement
    from strongroom.engine.knobs.knob import Value

EPILOG = """\
examples:
  strongroom tune --dir /home                         search for ten minutes, write the inventory
  strongroom tune --dir /home --minutes 30 --dry-run  write nothing, show what would be written
  strongroom tune --dir /srv --link 20,3              as over a link of 20 ms and 3 MB/s
  strongroom tune --dir /home --resume                continue after an interruption
  strongroom tune --dir /home --knobs shards,workers --inventory /etc/ansible

Backs up DIR, or a sample of it, again and again into its own repository, which is removed
afterwards; the sample is small enough for some hundred backups in the time. Values are doubled or
quadrupled until that stops helping, one knob at a time, then together.
host_vars/HOST/strongroom_tuning.yml gets what is faster than the defaults, for the role
strongroom.backup.agent. What is backed up stays as it is: what ACLs, attributes, signatures, and
with --link TLS cost is only reported, unless --change names them.
"""

_MEGA: Final = 1e6
# The last part of the time belongs to the proof against the defaults, and to what settings cost.
_SEARCH_SHARE: Final = 0.75
_CONFIRM_SHARE: Final = 0.9
_BUSY_LOAD: Final = 0.5
_RESERVE_BYTES: Final = 256 << 20
_FOLDER_PREFIX: Final = ".strongroom-tune-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is measured, how long, and where the result goes."""
    add = parser.add_argument
    add("--dir", metavar="DIR", type=folder, default=".", help="what is backed up (default: .)")
    add("--minutes", metavar="N", type=decimal(0.001, 24 * 60), default=10.0,
        help="how long it may take, about (default: 10)")  # fmt: skip
    add("--work", metavar="FOLDER", type=folder, default="",
        help="where the repository is made (default: beside DIR, else /tmp)")  # fmt: skip
    add("--inventory", metavar="FOLDER", type=folder, default=".",
        help="gets host_vars/HOST/strongroom_tuning.yml (default: .)")  # fmt: skip
    add("--host", metavar="NAME", default="", help="this machine's name in the inventory")
    add("-n", "--dry-run", action="store_true", help="write nothing, show what would be written")
    add("--resume", action="store_true", help="continue with an interrupted search")
    add("--state", metavar="FILE", default="", help="where runs are kept for --resume")
    add(
        "--knobs",
        metavar="NAMES",
        type=words,
        default=(),
        help="search these only, separated by commas",
    )
    add("--change", metavar="NAME", **REPEATED,
        help="may change acls, xattrs, signature or tls_enable too; may be repeated")  # fmt: skip
    add("--backup", choices=("first", "unchanged", "both"), default="both",
        help="whose time counts (default: both together)")  # fmt: skip
    add("--larger", metavar="PERCENT", type=decimal(0, 1000), default=10.0,
        help="how much more than with the defaults may be stored (default: 10)")  # fmt: skip
    add("--cold", action="store_true", help="empty the kernel's caches before each run (root)")
    add("--link", metavar="MS,MB/s", type=_link,
        help="through a separate storage daemon, behind such a link")  # fmt: skip


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Search, tell, and write. Raises UsageError."""
    from strongroom.cli.measure.tuning.journal import Journal, first_run_seconds
    from strongroom.cli.measure.tuning.runs import MeasuredRuns
    from strongroom.cli.measure.tuning.search import OutOfTimeError, Search
    from strongroom.cli.tune_report import (
        evidence,
        inventory_text,
        require_host,
        search_json,
        show_search,
        write_inventory,
    )

    began = clock.elapsed_seconds()
    host = require_host(arguments.host or socket.gethostname())
    subject, known = _subject(arguments, host)
    machine_axes, stated_costs = _axes(subject)
    _tell_subject(subject, terminal)
    seconds = arguments.minutes * 60
    with _work_folder(arguments, subject) as folder:
        runs = MeasuredRuns(
            folder, subject.paths, subject.backup, cold=subject.is_cold, link=subject.link
        )
        terminal.show_step("warming up")
        try:
            runs.warm_up(first_run_seconds(seconds))
        except OutOfTimeError as error:
            raise _too_slow(arguments) from error
        journal = Journal(_state_path(arguments), runs.measure, known, began)
        search = Search(_measuring(journal, terminal, seconds, began), machine_axes, subject.larger)
        journal.allow(seconds * _SEARCH_SHARE)
        search.run()
        if not search.runs:
            raise _too_slow(arguments)
        journal.allow(seconds * _CONFIRM_SHARE)
        search.confirm()
        journal.allow(seconds)
        costs = search.costs(stated_costs)
    terminal.clear_live_line()
    show_search(search, costs, terminal)
    text = inventory_text(search.best, evidence(subject, search, costs))
    path = None
    if arguments.dry_run:
        terminal.line()
        for line in text.splitlines():
            terminal.line(line)
    else:
        path = write_inventory(Path(arguments.inventory), host, text)
        terminal.line(f"written: {printable(str(path))}")
    terminal.emit(search_json(subject, search, costs, path))
    return EXIT_DONE


def _too_slow(arguments: argparse.Namespace) -> UsageError:
    return UsageError(
        f"--minutes {arguments.minutes:g} is not enough: one backup of what was chosen of --dir "
        f"{printable(arguments.dir)} takes longer; give more, or choose another folder"
    )


def _subject(
    arguments: argparse.Namespace, host: str
) -> tuple[Subject, dict[KnobChanges, list[Measurement]]]:
    """What is measured, new or of an earlier search, with that one's runs. Raises UsageError."""
    from strongroom.cli.measure.tuning.journal import begin_journal, read_journal
    from strongroom.cli.measure.tuning.runs import choose_sample, sample_bounds

    if arguments.cold:
        from strongroom.cli.measure.tree import drop_caches

        drop_caches()
    asked = _asked(arguments, host)
    path = _state_path(arguments)
    if arguments.resume:
        subject, known = read_journal(path)
        for name, value in asked.items():
            if getattr(subject, name) != value:
                raise UsageError(
                    f"{printable(str(path))} is of a search with another {_SPELLED[name]}: repeat "
                    "its options, or leave out --resume"
                )
        return subject, known
    from strongroom.cli.measure.tuning.journal import Subject

    most_bytes, most_files = sample_bounds(
        arguments.minutes * 60,
        asked["link"][1] if asked["link"] else 0.0,
        is_far=_is_far((os.fsencode(asked["folder"]),)),
    )
    sample = choose_sample(arguments.dir, clock.random_choices(), most_bytes, most_files)
    subject = Subject(
        paths=sample.paths,
        files=sample.files,
        size_bytes=sample.size_bytes,
        is_sample=not sample.is_all,
        **asked,
    )
    _axes(subject)
    begin_journal(path, subject)
    return subject, {}


_SPELLED: Final = {
    "host": "--host", "folder": "--dir", "backup": "--backup", "is_cold": "--cold",
    "searched": "--knobs", "changed": "--change", "larger": "--larger", "link": "--link",
}  # fmt: skip


def _asked(arguments: argparse.Namespace, host: str) -> dict[str, Any]:
    """The fields of the Subject that options decide."""
    from strongroom.cli.measure.tuning.axes import searched_names

    link = arguments.link
    return {
        "host": host,
        "folder": os.path.abspath(arguments.dir),
        "backup": arguments.backup,
        "is_cold": arguments.cold,
        "searched": arguments.knobs or searched_names(over_link=link is not None),
        "changed": tuple(arguments.change),
        "larger": arguments.larger / 100,
        "link": link,
    }


def _link(text: str) -> tuple[float, float]:
    """Milliseconds and bytes a second of `20,3`. Raises UsageError."""
    try:
        milliseconds, megabytes = (float(part) for part in text.split(","))
    except ValueError:
        milliseconds = megabytes = -1.0
    if not (0 <= milliseconds <= 10_000 and 0 <= megabytes <= 100_000):
        raise UsageError(
            f"{text!r}: write the round trip in milliseconds and the rate in MB/s, such as 20,3"
        )
    return milliseconds, megabytes * _MEGA


def _axes(subject: Subject) -> tuple[list[Any], list[tuple[str, Value]]]:
    """What is searched, and whose cost is reported. Raises UsageError."""
    from strongroom.cli.measure.processor import machine
    from strongroom.cli.measure.tuning.axes import axes, costs

    here = machine()
    over_link = subject.link is not None
    found = axes(
        subject.searched,
        subject.changed,
        cores=here.cores,
        available_bytes=here.available_bytes,
        is_far=_is_far(subject.paths),
        over_link=over_link,
    )
    return found, costs(subject.changed, over_link=over_link)


def _is_far(paths: tuple[bytes, ...]) -> bool:
    """Whether some of it is on a network file system."""
    from strongroom.engine.scan.mounts import far_places

    return bool(far_places([path.strip(b"/") for path in paths]))


def _state_path(arguments: argparse.Namespace) -> Path:
    if arguments.state:
        return Path(arguments.state)
    folder = arguments.settings.cache_folder
    if folder is None:
        raise UsageError("without a cache the runs cannot be kept: add --state FILE")
    return Path(os.fsdecode(folder)) / "tune.jsonl"


@contextmanager
def _work_folder(arguments: argparse.Namespace, subject: Subject) -> Iterator[Path]:
    """A new folder with room, removed whatever happens. Raises UsageError."""
    places = [arguments.work] if arguments.work else [
        os.path.dirname(subject.folder), tempfile.gettempdir(),
    ]  # fmt: skip
    needed = subject.size_bytes + subject.size_bytes // 10 + _RESERVE_BYTES
    reasons = []
    for place in places:
        try:
            found = os.statvfs(place)
            if found.f_bavail * found.f_frsize < needed:
                reasons.append(
                    f"{printable(place)} has {size_text(found.f_bavail * found.f_frsize)} free"
                )
                continue
            folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=place)
        except OSError as error:
            reasons.append(f"{printable(place)}: {error.strerror}")
            continue
        try:
            yield Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    raise UsageError(
        f"no place for the repository, which takes {size_text(needed)} at most: "
        f"{'; '.join(reasons)}; name a folder with --work"
    )


def _measuring(
    journal: Journal, terminal: Terminal, seconds: float, began: float
) -> Callable[[KnobChanges], Measurement]:
    """`journal`, with a line on what is measured."""

    def measure(condition: KnobChanges) -> Measurement:
        elapsed = clock.elapsed_seconds() - began
        terminal.show_step(
            f"{duration_text(elapsed)} of {duration_text(seconds)}: {condition.text}"
        )
        run = journal(condition)
        terminal.detail(f"{condition.text}: {run.seconds:.2f} s")
        return run

    return measure


def _tell_subject(subject: Subject, terminal: Terminal) -> None:
    part = "a sample: " if subject.is_sample else ""
    terminal.line(
        f"{printable(subject.folder)}: {part}{counted(subject.files, 'file')}, "
        f"{size_text(subject.size_bytes)}"
    )
    load = os.getloadavg()[0]
    if load > _BUSY_LOAD * len(os.sched_getaffinity(0)):
        terminal.warn(f"the machine is busy (load {load:.1f}): it takes longer to be sure")
