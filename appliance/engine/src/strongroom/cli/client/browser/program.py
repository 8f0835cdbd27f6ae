"""The program that shows the screens of the browser, and what all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.app import App
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import LineFilter
from textual.screen import Screen

from strongroom.base.errors import StrongroomError
from strongroom.base.printable import printable, printable_lines

if TYPE_CHECKING:
    from strongroom.cli.client.browser.position import SnapshotPosition


class _PrintableText(LineFilter):
    """Takes out of all text on its way to the terminal what does not print."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See LineFilter."""
        return [
            one
            if one.control or one.text.isprintable()
            else Segment("".join(filter(str.isprintable, one.text)), one.style)
            for one in segments
        ]


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

    def __init__(self, place: SnapshotPosition, screens: Sequence[Screen[None]]) -> None:
        """screens: shown one above the other at the start."""
        super().__init__()
        self.place = place
        self.failure: StrongroomError | None = None
        self.farewell: list[str] = []
        self._screens = screens

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Those of the base class, and ours: whatever a widget shows passes it."""
        return [*super().get_line_filters(), _PrintableText()]

    def on_mount(self) -> None:
        """Show the screens to begin with."""
        for screen in self._screens:
            self.push_screen(screen)

    def tell_failure(self, error: StrongroomError) -> None:
        """Show an error on the screen."""
        title, text = printable(error.error_id), printable_lines(str(error))
        self.notify(text, title=title, severity="error", markup=False)
