"""The program that shows the screens of the browser, and what all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.screen import Screen

    from strongroom.cli.console.browser.place import SnapshotPlace
    from strongroom.errors import StrongroomError


class Browser(App[None]):
    """The restore browser. `failure`: why it ended early; `farewell`: text to print afterwards."""

    TITLE = "Strongroom"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #place, #hint { height: 1; padding: 0 1; background: $panel; }
    #filter { display: none; }
    #filter.shown { display: block; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f10", "quit", "End", priority=True)]

    def __init__(self, place: SnapshotPlace, screens: Sequence[Screen[None]]) -> None:
        """screens: shown one above the other at the start."""
        super().__init__()
        self.place = place
        self.failure: StrongroomError | None = None
        self.farewell: list[str] = []
        self._screens = screens

    def on_mount(self) -> None:
        """Show the screens to begin with."""
        for screen in self._screens:
            self.push_screen(screen)

    def tell_failure(self, error: StrongroomError) -> None:
        """Show an error on the screen."""
        self.notify(str(error), title=error.error_id, severity="error", markup=False)
