"""Responses beside the results of the director, as OpenAPI shows them.

Most answers are `director.results` as they are.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from strongroom.daemons.director.results.access import Token
from strongroom.daemons.director.results.snapshots import File

Item = TypeVar("Item")


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True)


class Failure(Answer):
    """Why a request failed. `error_id` is stable between releases; see exit codes."""

    error_id: str
    message: str


class Page(Answer, Generic[Item]):
    """Part of a listing; `next` goes into `after` of the next request, null at the end."""

    items: list[Item]
    next: str | None = None


class StreamDenied(Answer):
    """The last event of a stream whose reader lost its rights, and why."""

    type: Literal["denied"]
    error_id: str
    message: str


class NewToken(Answer):
    """A new token; its text is shown only once."""

    token: Token
    text: str


class RemovedClient(Answer):
    """A client that was removed, and what was done for it."""

    name: str
    done: list[str]


class Me(Answer):
    """The identity of the caller, and the actions it may do."""

    name: str
    role: str
    actions: list[str]


class FilesFound(Page[File]):
    """Results of a search; `warnings` name the snapshots left out, and why."""

    warnings: list[str]


class Retried(Answer):
    """How many messages are tried again."""

    messages: int
