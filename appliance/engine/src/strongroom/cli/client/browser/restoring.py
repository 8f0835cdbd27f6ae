"""The dialog before a restore (target and options), and the progress of its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Footer, Input, Label, ProgressBar, RichLog, Select
from textual.widgets import Static as Line

from strongroom.base.clock import local_text
from strongroom.base.errors import StrongroomError
from strongroom.base.printable import printable
from strongroom.cli.client.view import FINAL_STATES, ApiObject, local_time, run_line

if TYPE_CHECKING:
    from strongroom.cli.client.browser.position import ShownSnapshot
    from strongroom.cli.client.browser.program import Browser

_OVERWRITE = (
    ("as set by Replace of the Restore job", ""),
    ("files that differ in size or time", "if-changed"),
    ("files whose content differs (reads them)", "always"),
    ("only files that are older", "if-newer"),
    ("keep them: only create what is missing", "never"),
)
_SHOWN_PATHS = 5


@dataclass(frozen=True, slots=True)
class RestoreWish:
    """The user's choices. `how`: fields of the API's request."""

    snapshot: ShownSnapshot
    paths: list[bytes]
    how: ApiObject


class RestoreDialog(ModalScreen[RestoreWish | None]):
    """Asks where the files go and what happens to those that are there."""

    app: Browser
    CSS = """
    RestoreDialog { align: center middle; }
    #dialog { width: 76; height: auto; max-height: 95%; border: round $accent; padding: 0 1; }
    #dialog Horizontal { height: auto; align: right middle; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Back"),
        Binding("f5", "restore", "Restore"),
    ]

    def __init__(self, snapshot: ShownSnapshot, paths: list[bytes]) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._paths = paths

    def compose(self) -> ComposeResult:
        """The questions."""
        when = local_text(self._snapshot.time_ns)
        title = f"Restore from {printable(self._snapshot.client)} as of {when}"
        with Vertical(id="dialog"):
            yield Label(title, markup=False)
            for path in self._paths[:_SHOWN_PATHS]:
                yield Label(f"  {printable(path)}", markup=False)
            if len(self._paths) > _SHOWN_PATHS:
                yield Label(f"  and {len(self._paths) - _SHOWN_PATHS:,} more")
            yield Label("to client")
            yield Input(self._snapshot.client, id="client")
            yield Label("into folder (empty: where everything was)")
            yield Input("/restore", id="target")
            yield Label("replace")
            yield Select(_OVERWRITE, value="", allow_blank=False, id="overwrite")
            yield Checkbox("only show what would be done", id="dry-run")
            with Horizontal():
                yield Button("Restore", variant="primary", id="restore")
                yield Button("Back", id="back")
        yield Footer()

    def on_mount(self) -> None:
        """Focus the folder: the default client is usually right."""
        self.query_one("#target", Input).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Restore, or go back."""
        if event.button.id == "restore":
            self.action_restore()
        else:
            self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in a field continues to the next."""
        self.focus_next()

    def action_cancel(self) -> None:
        """Go back."""
        self.dismiss(None)

    def action_restore(self) -> None:
        """Check what can be checked here, and continue."""
        target = self.query_one("#target", Input).value.strip()
        if target and not target.startswith("/"):
            self.notify("the folder is an absolute path on the client", severity="warning")
            return
        how = {
            "client": self.query_one("#client", Input).value.strip(),
            "target": target,
            "in_place": not target,
            "overwrite": str(self.query_one("#overwrite", Select).value),
            "dry_run": self.query_one("#dry-run", Checkbox).value,
        }
        self.dismiss(RestoreWish(self._snapshot, self._paths, how))


class RunScreen(ModalScreen[bool]):
    """The progress of a restore; gives whether it succeeded. The restore survives leaving it."""

    app: Browser
    CSS = """
    RunScreen { align: center middle; }
    #run { width: 90%; height: 80%; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave"),
        Binding("f8", "cancel", "Cancel the restore"),
    ]

    def __init__(self, wish: RestoreWish) -> None:
        super().__init__()
        self.run: ApiObject = {}
        self._wish = wish

    def compose(self) -> ComposeResult:
        """State, progress and log."""
        with Vertical(id="run"):
            yield Line("asking the director", id="state", markup=False)
            yield ProgressBar(total=None, id="progress")
            yield RichLog(id="log", wrap=True, markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Queue the restore and follow it."""
        self._follow()

    @work(thread=True)
    def _follow(self) -> None:
        place = self.app.place
        try:
            run_id = place.restore(self._wish.snapshot, self._wish.paths, self._wish.how)
            for event in place.events(run_id):
                self.app.call_from_thread(self._show, event)
        except StrongroomError as error:
            self.app.call_from_thread(self._fail, error)

    def _show(self, event: ApiObject) -> None:
        if line := event.get("line"):
            text = f"{local_time(line['time'])}  {line['level']:<8}{printable(line['text'])}"
            self.query_one("#log", RichLog).write(text)
        if run := event.get("run"):
            self.run = run
            self.query_one("#state", Line).update(run_line(run))
            bar = self.query_one("#progress", ProgressBar)
            is_final = run["state"] in FINAL_STATES
            total = run["bytes"] if is_final else run["total_bytes"]
            bar.update(total=max(1, total) if total is not None else None,
                       progress=max(1, run["bytes"]) if is_final else run["bytes"])  # fmt: skip
            if is_final and run_line(run) not in self.app.farewell:
                self.app.farewell.append(run_line(run))

    def _fail(self, error: StrongroomError) -> None:
        self.query_one("#state", Line).update(printable(f"{error.error_id}: {error}"))
        self.app.tell_failure(error)

    def action_leave(self) -> None:
        """Back to the files; the restore continues."""
        self.dismiss(self.run.get("state") == "done")

    def action_cancel(self) -> None:
        """End the restore."""
        if self.run and self.run["state"] not in FINAL_STATES:
            self._cancel(self.run["id"])

    @work(thread=True)
    def _cancel(self, run_id: str) -> None:
        try:
            self.app.place.cancel(run_id)
        except StrongroomError as error:
            self.app.call_from_thread(self.app.tell_failure, error)
