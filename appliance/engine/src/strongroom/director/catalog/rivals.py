"""Clients in whose name two agents connect, as the catalog keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.decoding import decodable
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.state import read_state, write_state
from strongroom.net.control.messages import Hello

_STATE: Final = "two agents"


class SeenAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A process of an agent; see Hello."""

    instance: str
    boot_id: str
    machine: str
    address: str

    @classmethod
    def of(cls, hello: Hello, address: str) -> SeenAgent:
        """Who says this Hello."""
        return cls(
            instance=hello.instance, boot_id=hello.boot_id, machine=hello.machine, address=address
        )

    def text(self) -> str:
        """For people."""
        return f"{self.address} (machine {self.machine or 'unknown'})"


class Rivalry(msgspec.Struct, kw_only=True):
    """issued: the order of their certificate. seen_at: when the second was there last."""

    first: SeenAgent
    second: SeenAgent
    since_ns: int
    issued: int
    seen_at: float = 0.0

    def text(self) -> str:
        """Who they are."""
        return f"{self.first.text()} and {self.second.text()}"

    def is_of_first(self, seen: SeenAgent) -> bool:
        """Whether it is the first, perhaps a later process of its machine."""
        if seen.instance == self.first.instance:
            return True
        mine = (seen.boot_id, seen.machine)
        others = (self.second.boot_id, self.second.machine)
        return mine == (self.first.boot_id, self.first.machine) and mine != others


def load_rivals(catalog: Catalog) -> dict[str, Rivalry]:
    """Client -> who they are. Blocks. Raises CatalogError."""
    found = msgspec.convert(read_state(catalog, _STATE) or {}, decodable(dict[str, Rivalry]))
    for one in found.values():
        one.seen_at = clock.elapsed_seconds()
    return found


def save_rivals(catalog: Catalog, rivals: Mapping[str, Rivalry]) -> None:
    """Store them. Blocks. Raises CatalogError."""
    write_state(catalog, _STATE, msgspec.to_builtins(rivals))
