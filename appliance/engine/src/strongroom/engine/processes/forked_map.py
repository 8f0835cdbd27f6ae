"""Runs a function over many items in forked processes that share what the function refers to.

Only the items are sent to the children: they are forks, so the index and other large tables are
there already. The caller must not have started threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Final, Generic, Self, TypeVar

from strongroom.base.errors import StrongroomError
from strongroom.engine.repository.repository import Repository

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Items handed out but not answered, for each process.
_AHEAD: Final = 2


class ForkedMap(Generic[_Item, _Result]):
    """A pool of processes for one piece of work; with one process all runs in the caller's."""

    def __init__(
        self,
        repository: Repository,
        work: Callable[[Repository, _Item], _Result],
        processes: int,
    ) -> None:
        """`work(repository, item)` is called with its process's own repository."""
        self._repository = repository
        self._work = work
        self._processes = processes
        self._executor: ProcessPoolExecutor | None = None
        if processes > 1:
            self._executor = ProcessPoolExecutor(
                processes, get_context("fork"), initializer=_begin, initargs=(repository, work)
            )
            # Forks all of them now, while the caller has no threads yet.
            self._executor.submit(os.getpid).result()

    def run(self, items: Iterable[_Item]) -> Iterator[tuple[_Item, _Result]]:
        """Each item with its result, as they come; raises what the work raises."""
        if self._executor is None:
            for item in items:
                yield item, self._work(self._repository, item)
            return
        pending: dict[Future[Any], _Item] = {}
        rest = iter(items)
        try:
            while True:
                while len(pending) < self._processes * _AHEAD:
                    try:
                        item = next(rest)
                    except StopIteration:
                        break
                    pending[self._executor.submit(_perform, item)] = item
                if not pending:
                    return
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield pending.pop(future), future.result()
        except BrokenProcessPool as error:
            raise StrongroomError(
                "a process died (killed by the system, perhaps for lack of memory); run the same "
                "command again, with fewer --processes"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)


def default_processes() -> int:
    """One a core, at most 8."""
    return min(8, len(os.sched_getaffinity(0)))


_begun: list[tuple[Repository, Callable[[Repository, Any], Any]]] = []


def _begin(repository: Repository, work: Callable[[Repository, Any], Any]) -> None:
    import signal

    # Ctrl-C at the terminal signals every process; only the first one handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _begun.append((repository.reopen(), work))


def _perform(item: Any) -> Any:
    repository, work = _begun[0]
    return work(repository, item)
