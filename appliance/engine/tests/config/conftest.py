"""Shorthand for reading a text as one component's configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kit.memory_fixtures import tmp_path
from kit.prepared_commands import run_for_text
from strongroom.config.table.dialects import dialect_named
from strongroom.config.trees.loader import Loaded, LoadOptions, load_text

__all__ = ["tmp_path"]


@dataclass
class Reading:
    """A text that was read, in the words tests use."""

    loaded: Loaded

    @property
    def resources(self) -> list[list[Any]]:
        return [
            [one["type"], [[name, value] for name, value, _ in one["directives"]]]
            for tree in self.loaded.trees.values()
            for one in tree.resources_json()
        ]

    @property
    def directives(self) -> dict[str, Any]:
        """The directives of the first resource; of those given twice the last."""
        return dict(self.resources[0][1])

    def typed(self, key: str) -> Any:
        tree = next(iter(self.loaded.trees.values()))
        directive = tree.blocks[0].last(key)
        assert directive is not None
        return directive.value

    def codes(self, severity: str) -> list[str]:
        return [one.code for one in self.loaded.diagnostics.sorted(severity)]

    @property
    def errors(self) -> list[str]:
        return [one.head() for one in self.loaded.diagnostics.sorted("error")]

    @property
    def warnings(self) -> list[str]:
        return [one.head() for one in self.loaded.diagnostics.sorted("warning")]

    @property
    def notes(self) -> list[str]:
        return [one.head() for one in self.loaded.diagnostics.sorted("note")]


@pytest.fixture
def read() -> Callable[..., Reading]:
    """read(text, component="director", dialect=None, strict=False, ...) -> Reading."""

    def reading(
        text: str | bytes,
        component: str = "director",
        dialect: str | None = None,
        path: str = "t.conf",
        **options: Any,
    ) -> Reading:
        chosen = dialect_named(dialect, strict=options.get("strict", False))
        return Reading(load_text(text, component, LoadOptions(dialect=chosen, **options), path))

    return reading


@pytest.fixture
def config() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `strongroom config WORDS...`."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return run_for_text(["config", *words], os.environ)

    return run
