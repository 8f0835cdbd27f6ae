"""What a command says of objects that it could not read, and how it ends then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.cli.terminal import Terminal
    from strongroom.repo.set_aside import SetAside


def name_set_aside(set_aside: SetAside, terminal: Terminal) -> None:
    """Name each object that was not named before."""

    def tell(kind: str, name: str, problem: str) -> None:
        terminal.emit({"type": "set_aside", "kind": kind, "name": name, "problem": problem})
        terminal.warn(f"{kind}/{name} is set aside: {problem}")

    set_aside.report(tell)


def end_with(set_aside: SetAside, terminal: Terminal) -> None:
    """Name them; SetAsideError if there are any."""
    name_set_aside(set_aside, terminal)
    set_aside.require_none()
