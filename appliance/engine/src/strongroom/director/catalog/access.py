"""API tokens, stored only as digests, and the audit log, which is append-only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blake3 import blake3
from sqlalchemy import delete, insert, select, update

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import UnknownNameError
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.tables import AUDIT, TOKENS
from strongroom.director.results.access import Actor, AuditEntry, Token

TOKEN_PREFIX = "srt_"  # noqa: S105 - a prefix by which secret scanners find tokens
# The time of last use is updated this often, so that not every request causes a write.
_USE_NOTED_EVERY_NS = 60 * SECOND_NS
_LONGEST_TEXT = 1000


def create_token(
    catalog: Catalog, name: str, profile: str, expires_ns: int, bound_to: str = ""
) -> tuple[Token, str]:
    """A new token and its text; expires_ns 0: never. bound_to: Console, User or ""."""
    text = TOKEN_PREFIX + clock.random_bytes(24).hex()
    info = Token(
        clock.random_bytes(8).hex(), name, profile, bound_to, clock.now_ns(), expires_ns, 0
    )
    row = {
        "id": info.id,
        "hash": _digest(text),
        "name": name,
        "profile": profile,
        "bound_to": bound_to,
        "created_ns": info.created_ns,
        "expires_ns": expires_ns,
    }
    catalog.change(insert(TOKENS), [row])
    return info, text


def find_token(catalog: Catalog, text: str) -> Token | None:
    """The token of this text, unless it has expired."""
    if not text.startswith(TOKEN_PREFIX) or len(text) > _LONGEST_TEXT:
        return None
    with catalog.reading() as connection:
        # The database compares digests; its timing reveals nothing about tokens.
        row = connection.execute(select(TOKENS).where(TOKENS.c.hash == _digest(text))).one_or_none()
    return _in_use(catalog, row)


def _in_use(catalog: Catalog, row: Any) -> Token | None:
    """The token of a row that somebody uses now; None without one, or when it has expired."""
    now_ns = clock.now_ns()
    if row is None or (row.expires_ns and row.expires_ns <= now_ns):
        return None
    if abs(now_ns - row.last_used_ns) > _USE_NOTED_EVERY_NS:
        used = update(TOKENS).where(TOKENS.c.id == row.id).values(last_used_ns=now_ns)
        catalog.change(used)
    return _token(row)


def find_token_of_id(catalog: Catalog, token_id: str) -> Token | None:
    """The token of this id, unless it has expired; None where it was revoked."""
    with catalog.reading() as connection:
        row = connection.execute(select(TOKENS).where(TOKENS.c.id == token_id)).one_or_none()
    return _in_use(catalog, row)


def list_tokens(catalog: Catalog) -> list[Token]:
    """All tokens, the oldest first."""
    query = select(TOKENS).order_by(TOKENS.c.created_ns, TOKENS.c.id)
    return [_token(row) for row in catalog.rows(query)]


def remove_token(catalog: Catalog, token_id: str) -> Token:
    """Revoke a token; UnknownNameError when there is none of this id."""
    with catalog.writing() as connection:
        row = connection.execute(select(TOKENS).where(TOKENS.c.id == token_id)).one_or_none()
        if row is None:
            raise UnknownNameError(f"there is no token {token_id}")
        connection.execute(delete(TOKENS).where(TOKENS.c.id == token_id))
    return _token(row)


def add_audit(
    catalog: Catalog,
    who: Actor,
    action: str,
    target: str,
    result: str,
    jobs: Iterable[str] = (),
    clients: Iterable[str] = (),
) -> None:
    """Record an action, and the names of the jobs and clients that it was about."""
    row = {
        "time_ns": clock.now_ns(),
        "who": _plain(who.name),
        "role": _plain(who.role),
        "action": _plain(action),
        "object": _plain(target),
        "result": _plain(result),
        "address": _plain(who.address),
        "jobs": _names(jobs),
        "clients": _names(clients),
    }
    catalog.change(insert(AUDIT), [row])


def list_audit(
    catalog: Catalog, limit: int = 100, before_id: int = 0, who: str = ""
) -> list[AuditEntry]:
    """The audit log, the newest first."""
    query = select(AUDIT).order_by(AUDIT.c.id.desc()).limit(limit)
    if before_id:
        query = query.where(AUDIT.c.id < before_id)
    if who:
        query = query.where(AUDIT.c.who == who)
    return [_entry(row) for row in catalog.rows(query)]


def _digest(text: str) -> str:
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "backslashreplace").decode()[:_LONGEST_TEXT]


def _names(names: Iterable[str]) -> list[str]:
    return sorted({_plain(name) for name in names if name})


def _entry(row: Any) -> AuditEntry:
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
    names = {name: tuple(fields[name]) for name in ("jobs", "clients")}
    return AuditEntry(**{**fields, **names})


def _token(row: Any) -> Token:
    return Token(**{name: getattr(row, name) for name in Token.__slots__})
