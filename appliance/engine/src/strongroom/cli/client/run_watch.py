"""Follows a run of the director: its log as lines, its counts as the command's progress."""

from __future__ import annotations

import time
from collections.abc import Iterator

from strongroom.base.errors import DirectorError, NotAuthenticatedError, NotPermittedError
from strongroom.base.printable import printable
from strongroom.base.progress import Progress
from strongroom.cli.client.client import DirectorClient, error_of, named
from strongroom.cli.client.view import FINAL_STATES, ApiObject, local_time, run_line, state_text
from strongroom.cli.live_progress import show_progress
from strongroom.cli.terminal import Terminal

# How often a stream of events that breaks before its first event is resumed.
_TRIES = 5


def run_events(director: DirectorClient, run_id: str) -> Iterator[ApiObject]:
    """All events of a run until it has ended; the last one holds the run as it then is.

    A broken stream is resumed after the last line seen, so none is lost or given twice; one that
    cannot be opened at first is not retried. Raises DirectorError when the director stays
    unreachable, NotAuthenticatedError and NotPermittedError when one may not, or no longer, watch
    the run.
    """
    place = f"/runs/{named(run_id)}"
    sequence = 0
    tries = 0
    has_begun = False
    while True:
        try:
            for event in director.events(f"{place}/events?after={sequence}"):
                tries = 0
                has_begun = True
                if line := event.get("line"):
                    sequence = line["sequence"]
                if event.get("type") == "denied":
                    raise error_of(event)
                if event:
                    yield event
            run = director.get(place)
            if run["state"] in FINAL_STATES:
                yield {"type": "state", "run": run}
                return
        except (NotAuthenticatedError, NotPermittedError) as error:
            kind = type(error)
            raise kind(
                f"run {run_id} cannot be watched: {error}; the run itself is not affected"
            ) from error
        except DirectorError:
            if tries >= _TRIES or not has_begun:
                raise
        tries += 1
        if tries > _TRIES:
            raise DirectorError(f"the events of run {run_id} ended early; see `strongroom log`")
        time.sleep(tries)


def watch_run(
    director: DirectorClient, run_id: str, terminal: Terminal, *, tells_log: bool = True
) -> ApiObject:
    """Show a run until it has ended; gives its final state."""
    follower = _Follower(terminal, tells_log)
    with show_progress(terminal, "run") as progress:
        for event in run_events(director, run_id):
            follower.follow(event, progress)
    return follower.run


def tell_line(line: ApiObject, terminal: Terminal) -> None:
    """A line of a run's log; one of several lines, such as a listing, with the time before each."""
    terminal.emit({"type": "log", **line})
    for text in line["text"].split("\n"):
        terminal.line(f"{local_time(line['time'])}  {line['level']:<8}{printable(text)}")


class RunCounts:
    """Sets a progress to the counts of a run, which decrease when its agent restarts it."""

    def __init__(self) -> None:
        self._counted = {"files": 0, "bytes": 0, "stored_bytes": 0, "errors": 0}

    def tell(self, run: ApiObject, progress: Progress) -> None:
        """Set `progress` to the present counts of the run."""
        is_estimate = bool(run.get("total_is_estimate"))
        progress.total(run.get("total_files"), run.get("total_bytes"), is_estimate=is_estimate)
        more = {name: run[name] - before for name, before in self._counted.items()}
        if any(more.values()):
            progress.add(**more)
            self._counted = {name: run[name] for name in self._counted}
        if run.get("message"):
            progress.message(run["message"])


class _Follower:
    def __init__(self, terminal: Terminal, tells_log: bool) -> None:
        self.run: ApiObject = {"state": ""}
        self._terminal = terminal
        self._tells_log = tells_log
        self._state = ""
        self._counts = RunCounts()

    def follow(self, event: ApiObject, progress: Progress) -> None:
        """Show one event."""
        if (line := event.get("line")) and self._tells_log:
            tell_line(line, self._terminal)
        if run := event.get("run"):
            self._counts.tell(run, progress)
            state = state_text(run)
            if state not in (self._state, *FINAL_STATES):
                self._state = state
                self._terminal.emit({"type": "state", "run": run["id"], "state": state})
                self._terminal.detail(run_line(run))
            self.run = run
