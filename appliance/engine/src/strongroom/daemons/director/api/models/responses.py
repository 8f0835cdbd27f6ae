"""What the API answers with beside the results of the director, as OpenAPI shows it.

Most answers are `director.results` as they are.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from strongroom.daemons.director.results import File, Token

Item = TypeVar("Item")


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True)


class Failure(Answer):
    """Why a request was not done. `error_id` stays from release to release; see exit codes."""

    error_id: str
    message: str


class Page(Answer, Generic[Item]):
    """Part of a listing; `next` goes into `after` of the next request, null at the end."""

    items: list[Item]
    next: str | None = None


class StreamDenied(Answer):
    """The last event of a stream whose reader may no longer read it, and why."""

    type: Literal["denied"]
    error_id: str
    message: str


class NewToken(Answer):
    """A token just made; its text is shown this once."""

    token: Token
    text: str


class Me(Answer):
    """Who the director takes the caller for, and the actions it may do."""

    name: str
    role: str
    actions: list[str]


class FilesFound(Page[File]):
    """What a search found; `warnings` say which snapshots it had to leave out, and why."""

    warnings: list[str]
