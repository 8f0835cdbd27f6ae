"""Jobs that meet: one runs over a store that stops before its n-th operation, and lets another run.

So whatever two jobs may do to each other is done, without chance or threads.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Self

from kit.tiny_backup import Files, read_back
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.repository import Repository


class Scene(ABC):
    """A repository at `place`, and what its snapshots must hold."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.expected: dict[str, Files] = {}

    def copy(self, place: Path) -> Self:
        shutil.copytree(self.place, place)
        scene = type(self)(place)
        scene.expected = dict(self.expected)
        return scene

    @abstractmethod
    def open(self, before: Callable[[int], None] | None = None) -> Repository:
        """`before` is called with the number of each operation."""

    def keep(self, snapshot_id: str, expected: Files) -> None:
        self.expected[snapshot_id] = expected

    def verify(self) -> None:
        repository = self.open()
        assert {snapshot.id for snapshot in repository.snapshots()} == set(self.expected)
        indexes: dict[bytes, Index] = {}
        for snapshot_id, expected in self.expected.items():
            assert read_back(repository, snapshot_id, indexes) == expected
        repository.close()

    @abstractmethod
    def verify_to_the_end(self) -> None:
        """Also after further jobs have removed all that is left to remove."""


Job = Callable[[Scene, Repository], None]


class Once:
    """Does something before the n-th operation of a store."""

    def __init__(self, number: int, action: Callable[[], None]) -> None:
        self.number = number
        self.action = action
        self.done = False

    def __call__(self, count: int) -> None:
        if count == self.number and not self.done:
            self.done = True
            self.action()


def meet(scene: Scene, outer: Job, inner: Job, number: int) -> bool:
    """Run `outer`, and `inner` before its n-th operation; False when it has not so many."""

    def run_inner() -> None:
        repository = scene.open()
        inner(scene, repository)
        repository.close()

    once = Once(number, run_inner)
    repository = scene.open(once)
    outer(scene, repository)
    repository.close()
    scene.verify_to_the_end()
    return once.done


def at_every(
    original: Scene,
    folder: Path,
    stride: int,
    encounter: Callable[[Scene, int], bool],
    first: int | None = None,
) -> None:
    """Let `encounter` happen at every stride-th operation, each time on a fresh copy."""
    number = stride // 2 + 1 if first is None else first
    while True:
        scene = original.copy(folder / "meeting")
        happened = encounter(scene, number)
        shutil.rmtree(scene.place)
        if not happened:
            break
        number += stride
    assert number > 10


def pair_name(value: object) -> str:
    """Names a job among the parameters of a test."""
    return getattr(value, "__name__", "").removeprefix("job_")
