"""What a command says of objects that it could not read, and how it ends then."""

from __future__ import annotations

from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.object_owners import ObjectOwners
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, set_aside_text


def set_aside_lines(set_aside: SetAside, repository: Repository) -> list[str]:
    """A line for each object that was not named before."""
    owners = ObjectOwners(repository)
    lines: list[str] = []

    def tell(kind: str, name: str, problem: str) -> None:
        lines.append(set_aside_text(kind, name, owners.client_of(kind, name), problem))

    set_aside.report(tell)
    return lines


def name_set_aside(set_aside: SetAside, repository: Repository, terminal: Terminal) -> None:
    """Name each object that was not named before, and its client."""
    owners = ObjectOwners(repository)

    def tell(kind: str, name: str, problem: str) -> None:
        client = owners.client_of(kind, name)
        terminal.emit(
            {"type": "set_aside", "kind": kind, "name": name, "client": client, "problem": problem}
        )
        terminal.warn(set_aside_text(kind, name, client, problem))

    set_aside.report(tell)


def end_with(set_aside: SetAside, repository: Repository, terminal: Terminal) -> None:
    """Name them; SetAsideError if there are any."""
    name_set_aside(set_aside, repository, terminal)
    set_aside.require_none()
