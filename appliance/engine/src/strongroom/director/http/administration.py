"""Administration of the director: reload, tokens, the audit log, notices and their destinations."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Query

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import ConfigurationError, NotPermittedError, UnknownNameError
from strongroom.director.http.bodies import (
    Cursor,
    NewToken,
    Page,
    PageSize,
    RemovedClient,
    Retried,
    TestWanted,
    TokenWanted,
)
from strongroom.director.http.callers import console_rights
from strongroom.director.http.request_context import ApiRequest, Asked
from strongroom.director.results.access import AuditEntry, Token
from strongroom.director.results.status import NoticeOverview, NoticeTest, Reload

router = APIRouter(tags=["administration"])

_ENTRIES_AT_ONCE: Final = 1000


@router.post("/reload", responses={409: {"model": Reload}})
async def reload(asked: Asked) -> Reload:
    """Reload the configuration; with errors the old one stays, and they are listed.

    `restart_needed`: directives that have changed but are in force only after a restart.

    Errors and warnings are shown to callers with all rights, otherwise they are in the log.
    """
    asked.rights.require_command("reload")
    report = await asked.director.commands.reload(asked.actor)
    errors = "\n".join(report.errors)
    if not asked.rights.is_unlimited:
        # They quote the configuration of every client.
        errors = (
            f"the configuration has {len(report.errors)} errors; they are in the director's log"
        )
        report = replace(report, warnings=())
    if not report.is_loaded:
        raise ConfigurationError(errors)
    return report


@router.get("/tokens")
async def tokens(asked: Asked) -> Page[Token]:
    """Tokens without their texts; those of others only for callers with all rights."""
    asked.rights.require_command("token")
    found = await asked.director.queries.tokens()
    return Page(items=[one for one in found if _is_own(asked, one.name)])


@router.post("/tokens", status_code=201)
async def create_token(wanted: TokenWanted, asked: Asked) -> NewToken:
    """A new token; its text is shown only once.

    A caller without all rights may create tokens only for itself, and anyone who presents a token
    only ones of the same name and Profile that expire no later: no one can extend its own rights. A
    token ends when its Console, User or Profile is removed or renamed.
    """
    asked.rights.require_command("token")
    _require_own(asked, wanted.name)
    _require_no_more(asked, wanted)
    configuration = asked.director.configuration
    profile = configuration.profiles.get(wanted.profile)
    if wanted.profile and profile is None:
        raise UnknownNameError(f"there is no Profile {wanted.profile!r}")
    if console_rights(configuration, wanted.name) is None and (
        profile is None or not asked.rights.is_unlimited
    ):
        raise UnknownNameError(
            f"there is no Console or User {wanted.name!r}; name a Profile, whose rights the token "
            f"gets (--profile). There are: {', '.join(sorted(configuration.profiles)) or 'none'}"
        )
    token, text = await asked.director.commands.create_token(
        wanted.name, wanted.profile, wanted.lifetime_seconds, asked.actor
    )
    return NewToken(token=token, text=text)


@router.delete("/tokens/{token_id}")
async def withdraw_token(token_id: str, asked: Asked) -> Token:
    """Revoke a token at once."""
    asked.rights.require_command("token")
    token = next((one for one in await asked.director.queries.tokens() if one.id == token_id), None)
    if token is None:
        raise UnknownNameError(f"there is no token {token_id!r}; see `strongroom token list`")
    _require_own(asked, token.name)
    await asked.director.commands.withdraw_token(token_id, asked.actor)
    return token


@router.delete("/clients/{name}")
async def remove_client(name: str, asked: Asked) -> RemovedClient:
    """Remove a client: its certificates are revoked, its runs cancelled; its snapshots stay."""
    asked.rights.require_command("client")
    asked.rights.require("client", name)
    if name == asked.director.configuration.director.name:
        raise NotPermittedError(f"{name!r} is this director")
    enrolling = asked.context.enrolling
    authority = None if enrolling is None else enrolling.authority
    async with asked.context.joining:
        done = await asked.director.commands.remove_client(name, authority, asked.actor)
    return RemovedClient(name=name, done=done)


@router.get("/audit")
async def audit(
    asked: Asked,
    who: Annotated[str, Query(max_length=128)] = "",
    after: Cursor = "",
    limit: PageSize = 100,
) -> Page[AuditEntry]:
    """Changes and denials, the newest first.

    Those about jobs and clients that the caller may see, and its own; a caller with all rights sees
    all of them.
    """
    asked.rights.require_command("audit")
    found: list[AuditEntry] = []
    before_id, count = int(after or 0), limit + 1
    while True:
        entries = await asked.director.queries.audit_entries(count, before_id, who)
        for entry in entries:
            if _may_see_entry(asked, entry):
                if len(found) == limit:
                    return Page(items=found, next=str(found[-1].id))
                found.append(entry)
        if len(entries) < count:
            return Page(items=found, next=None)
        before_id, count = entries[-1].id, _ENTRIES_AT_ONCE


def _may_see_entry(asked: ApiRequest, entry: AuditEntry) -> bool:
    if asked.rights.is_unlimited:
        return True
    is_own = entry.who == asked.caller.name and entry.role in ("operator", "token")
    return bool(is_own or entry.jobs or entry.clients) and (
        all(asked.rights.permits("job", name) for name in entry.jobs)
        and all(asked.rights.permits("client", name) for name in entry.clients)
    )


def _require_no_more(asked: ApiRequest, wanted: TokenWanted) -> None:
    shown = asked.caller.token
    if shown is None:
        return
    if wanted.name != shown.name:
        raise NotPermittedError(
            f"with a token of {shown.name!r} only tokens of that name can be made; show a "
            "certificate to make others"
        )
    if shown.profile and wanted.profile != shown.profile:
        raise NotPermittedError(
            f"with a token of the Profile {shown.profile!r} only tokens of that Profile can be made"
        )
    ends_ns = clock.now_ns() + wanted.lifetime_seconds * SECOND_NS
    if shown.expires_ns and (not wanted.lifetime_seconds or ends_ns > shown.expires_ns):
        raise NotPermittedError("a token cannot make one that expires later than itself")


def _is_own(asked: ApiRequest, name: str) -> bool:
    return name == asked.caller.name or asked.rights.is_unlimited


def _require_own(asked: ApiRequest, name: str) -> None:
    if not _is_own(asked, name):
        raise NotPermittedError(
            f"only a caller with all rights may manage the tokens of others; {name!r} is not you"
        )


notices_router = APIRouter(tags=["notices"])


@notices_router.get("/notices")
async def notices(asked: Asked) -> NoticeOverview:
    """What is wrong now, of jobs, clients and storages that the caller may see.

    What is of none of them, the number of messages that wait, and those that could not be
    delivered are shown to callers with all rights.
    """
    asked.rights.require_command("notify")
    found = await asked.director.queries.notices()
    if asked.rights.is_unlimited:
        return found
    seen = tuple(one for one in found.incidents if asked.may_know_of(one))
    return replace(found, incidents=seen, waiting=0, dead=())


@notices_router.post("/notices/test")
async def test(wanted: TestWanted, asked: Asked) -> Page[NoticeTest]:
    """Send a test to a destination, or to all, and wait for what its server says."""
    asked.rights.require_command("notify")
    tests = await asked.director.commands.test_notices(wanted.destination, asked.actor)
    return Page(items=tests)


@notices_router.post("/notices/retry")
async def retry(asked: Asked) -> Retried:
    """Try messages that could not be delivered once more."""
    asked.rights.require_command("notify")
    return Retried(messages=await asked.director.commands.retry_notices(asked.actor))
