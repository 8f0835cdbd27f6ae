"""The listing of a directory in a snapshot: navigate, mark, find, and restore.

Typing jumps to the first name with that beginning. A thread fetches rows in pages; rows of a
directory that was left meanwhile are dropped.
"""

from __future__ import annotations

import stat
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from strongroom.base.clock import local_text
from strongroom.base.errors import StrongroomError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.client.browser.marks import MarkedPaths
from strongroom.cli.client.browser.restoring import RestoreDialog, RestoreWish, RunScreen
from strongroom.cli.client.view import short_id

if TYPE_CHECKING:
    from strongroom.cli.client.browser.position import ShownFile, ShownSnapshot
    from strongroom.cli.client.browser.program import Browser

# A directory with more entries shows these, and says so.
MOST_ROWS = 50_000
_ROWS_AT_ONCE = 1000
_HEADINGS = ("", "NAME", "SIZE", "MODIFIED", "MODE")
_SIGNS = {"": " ", "marked": "*", "within": "+"}


class FilesScreen(Screen[None]):
    """A directory of a snapshot. `series`: the snapshots of the same kind, the newest first."""

    app: Browser
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("insert", "mark", "Mark"),
        Binding("backspace", "back", "Up"),
        Binding("left", "up", "Up", show=False),
        Binding("right", "open", "Open", show=False),
        Binding("f5", "restore", "Restore"),
        Binding("f7", "find", "Find"),
        Binding("f8", "older", "Older"),
        Binding("f9", "newer", "Newer"),
        Binding("escape", "leave", "Leave"),
    ]

    def __init__(self, snapshot: ShownSnapshot, series: list[ShownSnapshot]) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.folder = b"/"
        self.marks = MarkedPaths()
        self._series = series
        self._files: list[ShownFile] = []
        self._typed = ""
        self._come_from = b""
        self._title = ""

    def compose(self) -> ComposeResult:
        """The path, the entries, and the marks."""
        yield Static("", id="place", markup=False)
        yield Input(placeholder="name to find in all snapshots; * ? [ ]", id="filter")
        yield DataTable(id="files", cursor_type="row")
        yield Static("", id="hint", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Show the root."""
        for heading in _HEADINGS:
            self._table.add_column(heading, key=heading)
        self.go(b"/")

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#files", DataTable)

    @property
    def current(self) -> ShownFile | None:
        """The entry that the cursor is on."""
        row = self._table.cursor_row
        return self._files[row] if 0 <= row < len(self._files) else None

    # Navigation.

    def go(self, folder: bytes, come_from: bytes = b"") -> None:
        """Show a directory, with the cursor on the name of the previous one."""
        self.folder = folder
        self._come_from = come_from
        self._typed = ""
        self._start(f"{local_text(self.snapshot.time_ns)}  {printable(folder)}")
        self._fetch(self.snapshot, folder)

    def _start(self, title: str) -> None:
        self._title = title
        self._files = []
        self._table.clear()
        self._table.loading = True
        whose = f"{printable(self.snapshot.client)} {short_id(self.snapshot.id)}"
        self.query_one("#place", Static).update(f"{whose}  {title}")

    @work(thread=True, exclusive=True, group="listing")
    def _fetch(self, snapshot: ShownSnapshot, folder: bytes) -> None:
        entries = self.app.place.files(snapshot, folder)
        here = (snapshot.id, folder)
        try:
            first = True
            while rows := list(islice(entries, _ROWS_AT_ONCE)):
                first = False
                if not self.app.call_from_thread(self._add, here, rows):
                    return
            if first:
                self.app.call_from_thread(self._add, here, [])
        except StrongroomError as error:
            self.app.call_from_thread(self._fail, error)

    def _add(self, here: tuple[str, bytes], rows: list[ShownFile]) -> bool:
        """Show more rows; False when no more are needed."""
        if here != (self.snapshot.id, self.folder):
            return False
        room = MOST_ROWS - len(self._files)
        begin = len(self._files)
        self._files += rows[:room]
        table = self._table
        for number in range(begin, len(self._files)):
            table.add_row(*self._cells(self._files[number]), key=str(number))
            if self._come_from and self._files[number].name == self._come_from:
                table.move_cursor(row=number)
        table.loading = False
        table.focus()
        cut = f"only the first {MOST_ROWS:,} are shown" if len(rows) > room else ""
        self._hint(cut)
        return not cut

    def _fail(self, error: StrongroomError) -> None:
        self._table.loading = False
        self._table.focus()
        self.app.tell_failure(error)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open on Enter."""
        self.action_open()

    def action_open(self) -> None:
        """Go into the directory that the cursor is on."""
        found = self.current
        if found is not None and found.is_directory:
            self.go(found.path)

    def action_up(self) -> None:
        """Go to the directory above."""
        if self.folder != b"/":
            above, _, name = self.folder.rpartition(b"/")
            self.go(above or b"/", name)

    def action_back(self) -> None:
        """Delete a typed letter; without one go up."""
        if self._typed:
            self._type(self._typed[:-1])
        else:
            self.action_up()

    def action_older(self) -> None:
        """Show the same place in the snapshot before."""
        self._step(1)

    def action_newer(self) -> None:
        """Show the same place in the snapshot after."""
        self._step(-1)

    def _step(self, offset: int) -> None:
        ids = [one.id for one in self._series]
        number = ids.index(self.snapshot.id) + offset if self.snapshot.id in ids else -1
        if not 0 <= number < len(self._series):
            self.notify("no further snapshot of this client, job and FileSet")
            return
        if len(self.marks):
            self.notify("marks belong to one snapshot; they were removed")
            self.marks.clear()
        self.snapshot = self._series[number]
        self.go(self.folder)

    def action_leave(self) -> None:
        """Clear the typed letters; without any go back to the list of snapshots."""
        if self._typed:
            self._type("")
        elif self.query_one("#filter", Input).has_class("shown"):
            self._hide_find()
        else:
            self.dismiss()

    # Typing.

    def on_key(self, event: Key) -> None:
        """Jump to the first name that begins with the typed text; a leading space marks."""
        if self.focused is not self._table or not event.is_printable or event.character is None:
            return
        event.stop()
        if event.character == " " and not self._typed:
            self.action_mark()
        else:
            self._type(self._typed + event.character)

    def _type(self, text: str) -> None:
        self._typed = text
        wanted = text.lower()
        for number, one in enumerate(self._files):
            if wanted and printable(one.name).lower().startswith(wanted):
                self._table.move_cursor(row=number)
                break
        self._hint()

    # Marking.

    def action_mark(self) -> None:
        """Mark or unmark the entry under the cursor, and go to the next."""
        found = self.current
        if found is None:
            return
        if not self.marks.toggle(found.path, 0 if found.is_directory else found.size_bytes):
            self.notify("a directory above it is marked; unmark that one")
            return
        self._remark()
        row = self._table.cursor_row
        if row + 1 < len(self._files):
            self._table.move_cursor(row=row + 1)

    def _remark(self) -> None:
        for number, one in enumerate(self._files):
            sign = Text(_SIGNS[self.marks.state(one.path)])
            self._table.update_cell(str(number), "", sign)
        self._hint()

    def _hint(self, more: str = "") -> None:
        parts = [counted(len(self._files), "entry")]
        if len(self.marks):
            parts.append(f"{len(self.marks):,} marked, {size_text(self.marks.size_bytes)} in files")
        if self._typed:
            parts.append(f"typed: {self._typed}")
        if more:
            parts.append(more)
        self.query_one("#hint", Static).update("   ".join(parts))

    # Finding.

    def action_find(self) -> None:
        """Let the user type a name to find."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.add_class("shown")
        field.focus()

    def _hide_find(self) -> None:
        self.query_one("#filter", Input).remove_class("shown")
        self._table.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Find it; a name without wildcards is found anywhere in names."""
        self._hide_find()
        words = event.value.strip()
        if not words:
            return
        pattern = words if set(words) & set("*?[") else f"*{words}*"
        self._table.loading = True
        self._find(pattern)

    @work(thread=True, exclusive=True, group="listing")
    def _find(self, pattern: str) -> None:
        try:
            found, left_out = self.app.place.find(self.snapshot, pattern)
        except StrongroomError as error:
            self.app.call_from_thread(self._fail, error)
            return
        self.app.call_from_thread(self._show_found, pattern, found, left_out)

    def _show_found(
        self, pattern: str, found: list[tuple[str, ShownFile]], left_out: list[str]
    ) -> None:
        self._table.loading = False
        if left_out:
            self.notify("\n".join(map(printable, left_out)), severity="warning", markup=False)
        here = [file for snapshot_id, file in found if snapshot_id == self.snapshot.id]
        elsewhere = next((one for one in found if one[0] != self.snapshot.id), None)
        if here:
            self._open_at(here[0])
            more = len(here) - 1
            rest = f" and {more:,} more" if more else ""
            self.notify(f"{printable(here[0].path)}{rest}", title=f"found {pattern}", markup=False)
            return
        self._table.focus()
        snapshot = next((one for one in self._series if elsewhere and one.id == elsewhere[0]), None)
        if elsewhere is None or snapshot is None:
            self.notify(f"no file is named {pattern}", severity="warning", markup=False)
            return
        self.marks.clear()
        self.snapshot = snapshot
        self._open_at(elsewhere[1])
        when = local_text(snapshot.time_ns)
        self.notify(f"not in this snapshot; this is the one of {when}", markup=False)

    def _open_at(self, file: ShownFile) -> None:
        above, _, name = file.path.rpartition(b"/")
        self.go(above or b"/", name)

    # Restoring.

    def action_restore(self) -> None:
        """Ask how, then restore what is marked, else what the cursor is on."""
        paths = list(self.marks)
        if not paths and self.current is not None:
            paths = [self.current.path]
        if not paths:
            self.notify("nothing to restore here")
            return
        self.app.push_screen(RestoreDialog(self.snapshot, paths), self._restore)

    def _restore(self, wish: RestoreWish | None) -> None:
        if wish is not None:
            self.app.push_screen(RunScreen(wish), self._restored)

    def _restored(self, went_well: bool | None) -> None:
        if went_well:
            self.marks.clear()
            self._remark()

    def _cells(self, one: ShownFile) -> list[Text]:
        name = printable(one.name)
        if one.is_directory:
            label = Text(name + "/", style="bold")
        elif one.target:
            label = Text(f"{name} -> {printable(one.target)}", style="italic")
        else:
            label = Text(name)
        if one.state:
            label.append(f" ({one.state} when it was backed up)", style="not bold")
        return [
            Text(_SIGNS[self.marks.state(one.path)]),
            label,
            Text("" if one.is_directory else size_text(one.size_bytes), justify="right"),
            Text(local_text(one.modified_ns)),
            Text(stat.filemode(one.mode)),
        ]
