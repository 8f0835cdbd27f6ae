"""The director as its API sees it: one object, asked on the event loop, that answers in plain data.

    service = await DirectorService.open(path_of_configuration, identity, repositories, link)
    await service.start()                           the scheduler begins
    ...
    await service.stop()                            runs on agents go on without us

Who may ask for what is for the API to judge (it knows whose token it is); what an actor changed is
written to the audit log here, whether it worked or not. Every method may raise UnknownNameError
(no such job, client, run, snapshot), UsageError (a value makes no sense), ConflictError (it does
not fit the state of things) and StoreError or DamageError where a repository is read.

All methods belong to one event loop. Catalog and repositories are read in threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strongroom.config.model import ComponentConfiguration
    from strongroom.daemons.director.results import (
        Actor,
        AuditEntry,
        ClientInfo,
        DirectorStatus,
        FileEntry,
        FilePage,
        JobInfo,
        LogLine,
        Metric,
        ReloadReport,
        RestoreRequest,
        RunEvent,
        RunFilter,
        RunInfo,
        SnapshotFilter,
        SnapshotInfo,
        TokenInfo,
    )
    from strongroom.net.control import Hello, ToAgent, ToDirector


class AgentLink(Protocol):
    """The way to agents; see api.agent_connections."""

    def is_connected(self, client: str) -> bool:
        """Whether the agent of this client can be spoken to now."""

    async def send(self, client: str, message: ToAgent) -> bool:
        """Queue a message for an agent; False when it is not connected."""

    async def disconnect(self, client: str, reason: str) -> None:
        """End the connection of an agent that is no longer welcome."""


class DirectorService:
    """The director; see the module."""

    @property
    def configuration(self) -> ComponentConfiguration:
        """What is in force: resources of the director; `reload` replaces it."""
        raise NotImplementedError

    # Agents: what the link tells.

    def refusal(self, name: str) -> str:
        """Why an agent of this name is not welcome (no such Client, disabled), "" if it is."""
        raise NotImplementedError

    async def on_connected(self, client: str, hello: Hello, address: str) -> None:
        """An agent is connected: answer Welcome, settle the runs it names, start what waits."""
        raise NotImplementedError

    async def on_message(self, client: str, message: ToDirector) -> None:
        """Keep what an agent reports, then acknowledge it."""
        raise NotImplementedError

    async def on_disconnected(self, client: str) -> None:
        """An agent is gone; its runs go on and are settled when it is back."""
        raise NotImplementedError

    async def note_certificate(self, client: str, serial: str) -> None:
        """An agent was enrolled, or its certificate renewed."""
        raise NotImplementedError

    # Looking.

    async def status(self) -> DirectorStatus:
        """The director at a glance: what runs and waits, what ended, what is due in a day."""
        raise NotImplementedError

    async def clients(self) -> list[ClientInfo]:
        """All Client resources by name."""
        raise NotImplementedError

    async def client(self, name: str) -> ClientInfo:
        """One of them."""
        raise NotImplementedError

    async def jobs(self) -> list[JobInfo]:
        """All Job resources by name."""
        raise NotImplementedError

    async def runs(self, wanted: RunFilter) -> list[RunInfo]:
        """Runs, the newest first."""
        raise NotImplementedError

    async def run(self, run_id: str) -> RunInfo:
        """One run, by its id or an unambiguous beginning of it (at least 4 digits)."""
        raise NotImplementedError

    async def log(self, run_id: str, after: int = 0, limit: int = 1000) -> list[LogLine]:
        """Lines of a run's log whose sequence is above `after`, in order."""
        raise NotImplementedError

    def watch(self, run_id: str, after: int = 0) -> AsyncIterator[RunEvent]:
        """What happens to a run: first its state, and log lines above `after`; ends with it."""
        raise NotImplementedError

    async def snapshots(self, wanted: SnapshotFilter) -> list[SnapshotInfo]:
        """Snapshots, the newest first."""
        raise NotImplementedError

    async def snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """One snapshot, by its id or an unambiguous beginning of it; SnapshotNotFoundError."""
        raise NotImplementedError

    async def list_files(
        self, snapshot_id: str, path: bytes = b"", after: bytes = b"", limit: int = 1000
    ) -> FilePage:
        """What is right in a directory of a snapshot, from the name after `after`.

        SourceError when the snapshot has no such path.
        """
        raise NotImplementedError

    async def find_files(
        self,
        pattern: bytes,
        snapshots: SnapshotFilter,
        *,
        below: bytes = b"",
        ignoring_case: bool = False,
        limit: int = 1000,
    ) -> list[FileEntry]:
        """Entries of these snapshots, the newest first, whose name fits a glob."""
        raise NotImplementedError

    async def audit_entries(
        self, limit: int = 100, before_id: int = 0, who: str = ""
    ) -> list[AuditEntry]:
        """The audit log, the newest first, entries before `before_id` (0: from the end)."""
        raise NotImplementedError

    async def metrics(self) -> list[Metric]:
        """What the director counts, for /metrics."""
        raise NotImplementedError

    # Doing.

    async def start_run(
        self,
        job: str,
        who: Actor,
        *,
        level: str = "",
        client: str = "",
        fileset: str = "",
        storage: str = "",
        pool: str = "",
        priority: int = 0,
    ) -> RunInfo:
        """Queue a run of a job; what is empty is as the job says."""
        raise NotImplementedError

    async def start_restore(self, request: RestoreRequest, who: Actor) -> RunInfo:
        """Queue a restore."""
        raise NotImplementedError

    async def start_estimate(self, job: str, who: Actor, *, listing: bool = False) -> RunInfo:
        """Let the agent count what a job would back up; the result is the run's summary."""
        raise NotImplementedError

    async def cancel(self, run_id: str, who: Actor) -> RunInfo:
        """End a run; ConflictError when it has ended."""
        raise NotImplementedError

    async def set_bandwidth(
        self, run_id: str, maximum_bytes_per_second: int, who: Actor
    ) -> RunInfo:
        """Change what a run under way may send, 0: no limit; ConflictError if it does not run."""
        raise NotImplementedError

    async def forget_snapshot(self, snapshot_id: str, who: Actor) -> SnapshotInfo:
        """Remove a snapshot; ConflictError while Minimum Retention keeps it."""
        raise NotImplementedError

    async def reload(self, who: Actor) -> ReloadReport:
        """Read the configuration again; runs under way are not disturbed."""
        raise NotImplementedError

    # Tokens of the API.

    async def create_token(
        self, name: str, profile: str, lifetime_seconds: int, who: Actor
    ) -> tuple[TokenInfo, str]:
        """A new token, and its text, which nobody sees again; lifetime 0: it never expires."""
        raise NotImplementedError

    async def tokens(self) -> list[TokenInfo]:
        """All tokens, without their texts."""
        raise NotImplementedError

    async def token_of(self, text: str) -> TokenInfo | None:
        """The token of this text, unless it has expired or was withdrawn."""
        raise NotImplementedError

    async def withdraw_token(self, token_id: str, who: Actor) -> None:
        """End a token."""
        raise NotImplementedError

    async def audit(self, who: Actor, action: str, target: str, result: str = "done") -> None:
        """Note what an actor did, or tried, that none of the methods above did for it."""
        raise NotImplementedError
