"""The first screen: the list of snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from strongroom.base.clock import local_text
from strongroom.base.errors import StrongroomError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.client.browser.files import FilesScreen
from strongroom.cli.client.view import short_id

if TYPE_CHECKING:
    from strongroom.cli.client.browser.position import ShownSnapshot
    from strongroom.cli.client.browser.program import Browser

_HEADINGS = ("TIME", "CLIENT", "JOB", "LEVEL", "FILES", "SIZE", "ERRORS", "STORAGE", "SNAPSHOT")


def new_screens(begin: ShownSnapshot | None) -> list[Screen[None]]:
    """The first screens: all snapshots, with `begin` on top where one was chosen."""
    screens: list[Screen[None]] = [SnapshotsScreen()]
    if begin is not None:
        screens.append(FilesScreen(begin, []))
    return screens


class SnapshotsScreen(Screen[None]):
    """All permitted snapshots, the newest first; typing filters them."""

    app: Browser
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Narrow down"),
        Binding("escape", "clear", "All", show=False),
        Binding("f5", "refresh", "Look again"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._snapshots: list[ShownSnapshot] = []
        self._shown: list[ShownSnapshot] = []

    def compose(self) -> ComposeResult:
        """The table, and a line to type into."""
        yield Static("snapshots", id="place", markup=False)
        yield Input(placeholder="words of client, job, level, storage or time", id="filter")
        yield DataTable(id="snapshots", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Fetch the snapshots."""
        table = self._table
        for heading in _HEADINGS:
            table.add_column(heading, key=heading)
        table.loading = True
        self._fetch()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#snapshots", DataTable)

    @work(thread=True, exclusive=True)
    def _fetch(self) -> None:
        try:
            found = self.app.place.snapshots()
        except StrongroomError as error:
            self.app.call_from_thread(self._fail, error)
            return
        self.app.call_from_thread(self._show, found)

    def _fail(self, error: StrongroomError) -> None:
        # Without snapshots there is nothing to show: the command prints the reason.
        if self._snapshots:
            self._table.loading = False
            self.app.tell_failure(error)
        else:
            self.app.failure = error
            self.app.exit()

    def _show(self, found: list[ShownSnapshot]) -> None:
        self._snapshots = found
        self._table.loading = False
        self._fill()
        self._table.focus()

    def _fill(self) -> None:
        words = self.query_one("#filter", Input).value.lower().split()
        self._shown = [one for one in self._snapshots if _has_words(one, words)]
        table = self._table
        table.clear()
        for number, one in enumerate(self._shown):
            table.add_row(*_cells(one), key=str(number))
        place = self.app.place
        whose = " ".join(name for name in (place.client, place.job) if name)
        title = f"{counted(len(self._shown), 'snapshot')} {whose}"
        self.query_one("#place", Static).update(title)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the snapshot that Enter was pressed on."""
        chosen = self._shown[event.cursor_row]
        series = [one for one in self._snapshots if one.series == chosen.series]
        self.app.push_screen(FilesScreen(chosen, series))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the table."""
        self._table.focus()

    def action_filter(self) -> None:
        """Let the user type a filter."""
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def action_clear(self) -> None:
        """Show all snapshots again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("shown")
        self._table.focus()

    def action_refresh(self) -> None:
        """Fetch the snapshots again."""
        self._table.loading = True
        self._fetch()


def _has_words(snapshot: ShownSnapshot, words: list[str]) -> bool:
    text = " ".join(
        (
            local_text(snapshot.time_ns),
            *snapshot.series,
            snapshot.level,
            _storage(snapshot),
            snapshot.id,
        )
    ).lower()
    return all(word in text for word in words)


def _storage(snapshot: ShownSnapshot) -> str:
    return f"{printable(snapshot.storage)}{' (copy)' if snapshot.is_copy else ''}"


def _errors(snapshot: ShownSnapshot) -> str:
    if snapshot.is_false:
        return "false"
    return f"{snapshot.errors:,}" if snapshot.errors else ""


def _cells(snapshot: ShownSnapshot) -> list[Text]:
    return [
        Text(local_text(snapshot.time_ns)),
        Text(printable(snapshot.client)),
        Text(printable(snapshot.job)),
        Text(snapshot.level),
        Text(f"{snapshot.files:,}", justify="right"),
        Text(size_text(snapshot.size_bytes), justify="right"),
        Text(_errors(snapshot), justify="right"),
        Text(_storage(snapshot)),
        Text(short_id(snapshot.id)),
    ]
