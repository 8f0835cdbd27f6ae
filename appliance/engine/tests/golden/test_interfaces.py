"""Nothing that a release promised has gone: it is there, with the same kinds of values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from golden.interfaces import (
    answers_of_commands,
    answers_of_the_api,
    described_api,
    interfaces,
    missing,
)
from golden.make import HERE
from kit.director_server import RunningDirector
from kit.user import User

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = sorted(path.parent.name for path in HERE.glob("*/interfaces.json"))


def recorded(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / release / "interfaces.json").read_text())
    return found


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", ["exit_codes", "commands", "directives", "variables"])
def test_what_tables_said_is_there(release: str, kind: str) -> None:
    assert missing(recorded(release)[kind], interfaces()[kind]) == []


@pytest.mark.parametrize("release", RELEASES)
def test_every_request_of_the_api_takes_and_answers_what_it_did(
    release: str, director: RunningDirector
) -> None:
    with director.client() as api:
        described = api.get("/openapi.json").json()
    assert missing(recorded(release)["api"], described_api(described)) == []
    assert missing(recorded(release)["answers of the API"], answers_of_the_api(director)) == []


@pytest.mark.parametrize("release", RELEASES)
def test_every_command_writes_the_fields_that_it_wrote(
    release: str, tmp_path: Path, source: Path
) -> None:
    user = User(tmp_path)
    user.make_repository()
    now = answers_of_commands(user, source)
    assert missing(recorded(release)["answers of commands"], now) == []


def test_what_has_gone_or_changed_its_kind_is_found() -> None:
    promised = {"a": 1, "options": ["--one", "--two"], "fields": {"x": ["text"], "y": ["null"]}}
    assert missing(promised, {**promised, "new": 2}) == []
    assert missing(promised, {**promised, "options": ["--two", "--new"]}) == ["options --one"]
    assert missing(
        promised, {"a": 2, "options": ["--one", "--two"], "fields": {"x": ["text"]}}
    ) == [
        "a: 1 is 2",
        "fields y",
    ]
    changed = {**promised, "fields": {"x": ["number"], "y": ["text"]}}
    assert missing(promised, changed) == ["fields x: {'text'} is {'number'}"]
