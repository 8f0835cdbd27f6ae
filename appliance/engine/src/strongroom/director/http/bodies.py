"""Request and response bodies beside the director's results, and listings in pages.

OpenAPI describes them as they are here. Unknown fields of a request are refused. Most answers are
`director.results` as they are. Pages of a listing are full although rows that the caller may not
see are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from strongroom.director.results.access import Token
from strongroom.director.results.formats import PathText
from strongroom.director.results.snapshots import File

Name = Annotated[str, Field(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
NameNeeded = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
Rate = Annotated[int, Field(ge=0, le=1 << 50, description="Bytes per second; 0 is no limit.")]


class Question(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NewRun(Question):
    """A run to queue; empty fields are taken from the job."""

    job: NameNeeded
    level: Literal["", "full", "differential", "incremental"] = ""
    client: Name = ""
    fileset: Name = ""
    storage: Name = ""
    pool: Name = ""
    priority: int = Field(0, ge=0, le=10_000, description="0: the job's priority.")


class NewRestore(Question):
    """A restore to queue.

    `storage`: which has the snapshot or a copy of it; "": its own, or what has a copy where that
    does not answer. `client`: where the files go, "" for the one they came from. `target`: a folder
    on it; either that or `in_place`, which puts every path where it was. `paths` keep their whole
    path below the target (`/t/etc/passwd`); what is in `subpath`, of which there is only one, goes
    right into it (`/t/passwd`). `keep_privileges`: restore set-id bits, device nodes, file
    capabilities and trusted attributes also to another client and below a target, which needs the
    command `keep-privileges`; null: as the Restore job says. In place on the client that was backed
    up they always are.
    """

    snapshot: str = Field(min_length=4, max_length=128, pattern=r"^[0-9a-f]+$")
    storage: Name = ""
    paths: list[PathText] = Field(default_factory=list, max_length=10_000)
    subpath: PathText | None = None
    client: Name = ""
    job: Name = ""
    target: str = Field("", max_length=4096)
    in_place: bool = False
    overwrite: Literal["", "always", "if-changed", "if-newer", "never"] = Field(
        "", description='"": as Replace of the Restore job says.'
    )
    delete: bool = False
    dry_run: bool = False
    keep_privileges: bool | None = None
    workers: int = Field(0, ge=0, le=256)
    priority: int = Field(0, ge=0, le=10_000)
    maximum_bytes_per_second: Rate = 0


class NewEstimate(Question):
    """Count what a job would back up; with `listing` the paths come in the run's log."""

    job: NameNeeded
    listing: bool = False


class Bandwidth(Question):
    """The bandwidth limit of an active run."""

    maximum_bytes_per_second: Rate


class TokenWanted(Question):
    """A token for the Console `name`, restricted to what `profile` allows when one is named."""

    name: NameNeeded
    profile: Name = ""
    lifetime_seconds: int = Field(
        90 * 86400, ge=0, le=10 * 366 * 86400, description="0: until it is revoked."
    )


class Enrolment(Question):
    """An agent's request for its first certificate: a PKCS #10 request in PEM, a one-time token.

    For a renewal after the end of a certificate the token is a proof of having its key.
    """

    token: str = Field(min_length=8, max_length=4096)
    csr: str = Field(min_length=64, max_length=16_384)
    name: NameNeeded


class Renewal(Question):
    """A request for the next certificate, sent with the current one."""

    csr: str = Field(min_length=64, max_length=16_384)


class TestWanted(Question):
    """A test of a destination of notices: of a Notify block, `MESSAGES/NAME`, "" for all."""

    destination: str = Field("", max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")


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


class Authority(Answer):
    """The appliance's authority (PEM) and its list of withdrawn certificates (PEM)."""

    authority: str
    fingerprint: str
    revoked: str


class Enrolled(Answer):
    """The credentials of a new agent, all PEM; `jobs` that it got as a client of a group."""

    name: str
    director: str
    certificate: str
    authority: str
    revoked: str
    jobs: list[str]


class PutKeys(Answer):
    """The put keys of an agent as text, one for each repository."""

    put_keys: list[str]


class Renewed(Answer):
    """A new certificate, the authority and its list of withdrawn certificates, all PEM.

    `put_keys`: of an agent, as text, one for each repository.
    """

    certificate: str
    authority: str
    revoked: str
    put_keys: list[str]


Row = TypeVar("Row")

Cursor = Annotated[
    str,
    Query(
        max_length=18,
        pattern="^[0-9]*$",
        description="`next` of the page before; empty for the first page.",
    ),
]
# The last name of the page before, as hexadecimal digits: names may be of any bytes.
NameCursor = Annotated[
    str,
    Query(
        max_length=1024,
        pattern="^([0-9a-f]{2})*$",
        description="`next` of the page before; empty for the first page.",
    ),
]
PageSize = Annotated[int, Query(ge=1, le=1000, description="Most items of a page.")]
Listed = Annotated[int | None, Query(ge=1, le=1000, description="Most items; without it all.")]
_READ_AT_ONCE = 1000


def page_of(names: list[str], after: str, limit: int | None) -> tuple[list[str], str | None]:
    """Part of a listing by name, and the cursor of the page after: the last name of this one.

    So a reload between two pages makes no name come twice or not at all.
    """
    last = bytes.fromhex(after).decode("utf-8", "surrogateescape") if after else ""
    rest = names[bisect_right(names, last) :]
    if limit is None or len(rest) <= limit:
        return rest, None
    return rest[:limit], rest[limit - 1].encode("utf-8", "surrogateescape").hex()


async def filtered_page(
    read: Callable[[int, int], Awaitable[list[Row]]],
    may_see: Callable[[Row], bool],
    after: str,
    limit: int,
) -> tuple[list[Row], str | None]:
    """The next `limit` rows that `may_see` allows, and the cursor of the page after.

    `read`: from offset and count to rows, fewer than asked for only at the end. The cursor is the
    offset of the next row, so a listing that grows at its head while it is read shows a row twice
    rather than none.
    """
    offset = int(after or 0)
    found: list[Row] = []
    # Most callers see all rows, and get them from the first read.
    count = limit + 1
    while True:
        rows = await read(offset, count)
        for row in rows:
            if may_see(row):
                if len(found) == limit:
                    return found, str(offset)
                found.append(row)
            offset += 1
        if len(rows) < count:
            return found, None
        count = _READ_AT_ONCE
