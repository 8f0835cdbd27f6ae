"""Reports of restore and verify on single entries, as lines and as objects of --json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.base.printable import printable
from strongroom.cli.snapshot_choice import shown_path
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.engine.restore.options import LeftOut, RestoreProblem, Step
    from strongroom.engine.verify.options import LiveDifference

_LOST: Final = ("content", "unread", "entry", "link", "delete")


LEFT_OUT: Final = {
    "set-id": "its set-id bits were left out",
    "device": "a device node, left out",
    "capability": "its file capabilities were left out",
    "trusted": "its trusted attributes were left out",
    "protected": "its flags immutable and append-only were left out",
}


_MOST_UNREAD: Final = 20


class RestoreLines:
    """Of a restore: losses and what was left out always, the rest with --verbose."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        # Places of the target for which the snapshot has nothing.
        self.unread: list[bytes] = []

    def problem(self, problem: RestoreProblem) -> None:
        """See RestoreObserver."""
        path = shown_path(problem.path)
        if problem.kind == "unread" and len(self.unread) < _MOST_UNREAD:
            self.unread.append(problem.path)
        _emit_found(self._terminal, "problem", problem)
        if not self._terminal.as_json and (problem.kind in _LOST or self._terminal.verbose):
            self._terminal.warn(f"{printable(path)}: {problem.reason}")

    def step(self, step: Step) -> None:
        """See RestoreObserver."""
        path = shown_path(step.path)
        self._terminal.emit({"type": "entry", "action": step.action, "path": path})
        self._terminal.line(f"{step.action.replace('-', ' '):<9} {printable(path)}")

    def left_out(self, left_out: LeftOut) -> None:
        """See RestoreObserver."""
        path = shown_path(left_out.path)
        self._terminal.emit({"type": "left_out", "kind": left_out.kind, "path": path})
        if not self._terminal.as_json:
            self._terminal.message_line(f"{printable(path)}: {LEFT_OUT[left_out.kind]}")

    def difference(self, difference: LiveDifference) -> None:
        """See VerifyObserver."""
        _emit_found(self._terminal, "difference", difference)
        if not self._terminal.as_json:
            path = printable(shown_path(difference.path))
            self._terminal.warn(f"{path}: {difference.kind}: {difference.reason}")


class VerifyLines:
    """Of a verify: differences as the result of the command."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def difference(self, difference: LiveDifference) -> None:
        """See VerifyObserver."""
        _emit_found(self._terminal, "difference", difference)
        path = printable(shown_path(difference.path))
        self._terminal.line(f"{difference.kind:<11}{path}: {difference.reason}")


def _emit_found(terminal: Terminal, title: str, found: RestoreProblem | LiveDifference) -> None:
    terminal.emit(
        {
            "type": title,
            "kind": found.kind,
            "path": shown_path(found.path),
            "message": found.reason,
        }
    )
