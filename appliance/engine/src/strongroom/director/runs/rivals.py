"""Two agents with one identity: a copied machine, a restored one beside the old, a shared folder.

Each agent process says at Hello which it is. When another connects in the name of a client whose
agent answers, both are alive: the first stays connected, the other is refused, and no run of the
client starts, for no one knows which files it would store. That lasts, over restarts, until

- one of them gives the identity up (`strongroom agent rejoin`),
- the first alone has been there for an hour, or
- the certificate that both have was revoked, and one was enrolled anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from strongroom.base import clock
from strongroom.director.catalog.rivals import Rivalry, SeenAgent, load_rivals, save_rivals
from strongroom.director.context import DirectorContext

GONE_SECONDS: Final = 3600.0

_log = logging.getLogger(__name__)


class Rivals:
    """Those in the catalog; `context.rivals` has them for anyone who asks. Of the event loop."""

    def __init__(self, context: DirectorContext) -> None:
        self._context = context

    async def load(self) -> None:
        """Read them from the catalog. Raises CatalogError."""
        self._context.rivals = await self._context.ask(load_rivals)

    async def found(self, client: str, first: SeenAgent, second: SeenAgent, issued: int) -> None:
        """Two are alive. Raises CatalogError."""
        known = self._context.rivals.get(client)
        if known is not None:
            return
        found = Rivalry(
            first=first,
            second=second,
            since_ns=clock.now_ns(),
            issued=issued,
            seen_at=clock.elapsed_seconds(),
        )
        self._context.rivals[client] = found
        _log.error("two agents have the identity of %s: %s", client, found.text())
        await self._save()

    async def refusal(self, client: str, seen: SeenAgent, is_revoked: Callable[[int], bool]) -> str:
        """Why an agent may not connect; "" if it may.

        is_revoked: whether a certificate of this order was revoked. Raises CatalogError.
        """
        known = self._context.rivals.get(client)
        if known is None:
            return ""
        if is_revoked(known.issued):
            await self.settle(client, "the certificate of both was revoked")
            return ""
        if known.is_of_first(seen):
            known.first = seen
            return ""
        known.seen_at = clock.elapsed_seconds()
        return f"{known.first.text()} has this identity: run `strongroom agent rejoin` here"

    async def settle(self, client: str, why: str) -> bool:
        """It is decided; returns whether there was anything to decide. Raises CatalogError."""
        if self._context.rivals.pop(client, None) is None:
            return False
        _log.warning("one agent has the identity of %s again: %s", client, why)
        await self._save()
        return True

    async def look(self) -> None:
        """Settle what has settled by itself. Raises CatalogError."""
        now = clock.elapsed_seconds()
        for client, one in list(self._context.rivals.items()):
            is_there = self._context.link.is_connected(client)
            if is_there and now - one.seen_at >= GONE_SECONDS:
                await self.settle(client, f"{one.second.text()} has been offline for an hour")

    async def _save(self) -> None:
        context = self._context
        await context.ask(save_rivals, dict(context.rivals))
