"""Objects that a job over all clients' objects could not read: it names them and continues.

A client can seal whatever it likes into its own objects, so none of them may stop a job that is
everybody's. What goes wrong inside `leaving_out` is recorded, whatever it is, but for what concerns
the job as a whole: the store, the lease, the rights, the wish to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager

from strongroom.base.errors import (
    DamageError,
    FalseSnapshotError,
    MemoryLimitError,
    SetAsideError,
    StrongroomError,
    UnknownFormatError,
)
from strongroom.base.printable import printable

# MemoryLimitError and TimeShareError are unknown formats.
_OF_ONE_OBJECT = (DamageError, FalseSnapshotError, UnknownFormatError)


class SetAside:
    """What was left out, and why; the kinds and names of objects to texts."""

    def __init__(self, known: Container[str] = ()) -> None:
        """known: names of objects that are not named again."""
        self._known = known
        self.problems: dict[tuple[str, str], str] = {}
        self._reported = 0

    def __len__(self) -> int:
        return len(self.problems)

    def add(self, kind: str, name: str, error: BaseException | str) -> None:
        """Record an object; its first reason stays."""
        if name not in self._known:
            self.problems.setdefault((kind, name), printable(problem_text(error)))

    def names(self, kind: str) -> list[str]:
        """The objects of a kind."""
        return [name for one, name in self.problems if one == kind]

    def report(self, tell: Callable[[str, str, str], None]) -> None:
        """Calls `tell` with kind, name and problem of those that were not reported before."""
        waiting = list(self.problems.items())[self._reported :]
        self._reported = len(self.problems)
        for (kind, name), problem in waiting:
            tell(kind, name, problem)

    def take(self, other: SetAside) -> None:
        """Add what another job left out."""
        for (kind, name), problem in other.problems.items():
            self.add(kind, name, problem)

    @contextmanager
    def leaving_out(self, kind: str, name: str) -> Iterator[None]:
        """Record the object where something is wrong with it inside."""
        try:
            yield
        except Exception as error:
            if not is_of_one_object(error):
                raise
            self.add(kind, name, error)

    def require_none(self) -> None:
        """SetAsideError where anything was left out."""
        count = len(self.problems)
        if count:
            raise SetAsideError(
                f"{count} object{'' if count == 1 else 's'} could not be read and "
                f"{'was' if count == 1 else 'were'} set aside, as listed; the others were not "
                "affected. Run strongroom check, or forget the snapshots named"
            )


def set_aside_text(kind: str, name: str, client: str, problem: str) -> str:
    """One line about an object; client: as ObjectOwners knows it."""
    whose = f" of client {printable(client)}" if client else ""
    return f"{kind}/{name}{whose} is set aside: {problem}"


def is_of_one_object(error: BaseException) -> bool:
    """Whether an error is that of the object that was read, not of the job as a whole."""
    if isinstance(error, StrongroomError):
        return isinstance(error, _OF_ONE_OBJECT)
    return isinstance(error, Exception) and not isinstance(error, OSError)


def problem_text(error: BaseException | str) -> str:
    """What an error says of the object, also one that no one foresaw."""
    if isinstance(error, str | StrongroomError):
        return str(error)
    if isinstance(error, MemoryError):
        return str(MemoryLimitError("it takes more memory than this job may have"))
    return f"reading it failed in a way that should be reported: {type(error).__name__}: {error}"
