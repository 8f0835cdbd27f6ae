"""The messages that start restores and verify runs, with their tickets. All of it blocks.

A restore ticket is stored for a run, granted to its agent, and removed after the run has ended.
Ticket and grant are created when the run starts, not when it is requested, so they do not expire in
the queue. They are tracked in memory only: tickets left behind by a crash expire, and are removed
with the next ticket or by prune (strongroom.engine.repository.ticket_objects).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from strongroom.base.errors import (
    CatalogError,
    ConflictError,
    FalseSnapshotError,
    ObjectMissingError,
    SetBackError,
    SnapshotNotFoundError,
    StrongroomError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.director.catalog.clients import generation_of
from strongroom.director.catalog.copies import other_copies
from strongroom.director.catalog.snapshots import (
    load_snapshot,
    missed_snapshots,
    missed_text,
    newest_snapshot,
)
from strongroom.director.context import DirectorContext
from strongroom.director.repositories.access import (
    ForeignSnapshotError,
    own_snapshot,
    require_sound,
)
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.runs.active_run import StoredTicket
from strongroom.director.runs.requests import RunRequest
from strongroom.director.runs.start_messages import (
    StartMessage,
    bandwidth_of,
    scripts_of,
    target_of,
)
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.restore_ticket import make_ticket
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot
from strongroom.engine.repository.ticket_objects import GRANT_SECONDS, TicketObject, store_ticket
from strongroom.engine.rows.left_out import is_in_folders
from strongroom.net.control.messages import (
    RestoreChoices,
    StartRestore,
    StartVerify,
    VerifyChoices,
    encode_name,
)
from strongroom.net.control.restore_orders import ordered


def make_reading_start(context: DirectorContext, record: Run) -> StartMessage:
    """The start message of a restore or a verify run that an agent does.

    Raises UnknownNameError or UsageError where the configuration has changed since it was queued,
    SnapshotNotFoundError, ConflictError, and what reading a repository raises.
    """
    return _restore(context, record) if record.kind == "restore" else _verify(context, record)


def _restore(context: DirectorContext, record: Run) -> StartMessage:
    request = RunRequest.of(record)
    snapshot = load_snapshot(context.catalog, request.snapshot)
    paths = [bytes.fromhex(path) for path in request.paths]
    subpath = bytes.fromhex(request.subpath)
    wanted = [subpath] if subpath else paths
    snapshot, opened = open_any(context, snapshot, record.client, wanted, request.copies)
    ticket, grant, _ = opened
    target = bytes.fromhex(request.target)
    options = RestoreChoices(
        subpath=encode_name(subpath),
        in_place=request.in_place,
        overwrite=request.overwrite.value,
        delete=request.delete,
        dry_run=request.dry_run,
        tells_steps=request.dry_run,
        workers=request.workers,
        keeps_privileges=request.keeps_privileges,
    )
    if paths:
        from strongroom.engine.verify.sample import literal_pattern

        includes = tuple(encode_name(literal_pattern(path)) for path in paths)
        options = msgspec.structs.replace(options, includes=includes)
    job = context.configuration.jobs.get(record.job)
    message = StartRestore(
        run_id=record.id,
        job=record.job,
        storage=target_of(context, record, snapshot.storage),
        ticket=ticket,
        grant=grant,
        target=encode_name(target),
        options=options,
        where=request.where,
        scripts=scripts_of(job),
        maximum_bytes_per_second=bandwidth_of(context, record, job),
    )
    assert context.identity is not None  # else there would be no grant
    return StartMessage(
        ordered(context.identity, record.client, message, GRANT_SECONDS),
        {"snapshot": snapshot.id, "storage": snapshot.storage},
        opened.lines,
        ticket=StoredTicket(snapshot.storage, ticket.name),
    )


def _verify(context: DirectorContext, record: Run) -> StartMessage:
    snapshot = verified_snapshot(context, record)
    ticket, grant, lines = open_for(context, snapshot, record.client, [])
    message = StartVerify(
        run_id=record.id,
        job=record.job,
        storage=target_of(context, record, snapshot.storage),
        ticket=ticket,
        grant=grant,
        options=VerifyChoices(reads_content=True),
    )
    return StartMessage(
        message,
        {"snapshot": snapshot.id},
        lines,
        ticket=StoredTicket(snapshot.storage, ticket.name),
    )


def verified_snapshot(context: DirectorContext, record: Run) -> Snapshot:
    """The snapshot that a verify run is about: the one named, or the newest of the job to verify.

    Raises SnapshotNotFoundError; SetBackError where the store shows less than is known.
    """
    if named := RunRequest.of(record).snapshot:
        return load_snapshot(context.catalog, named)
    configuration = context.configuration
    job = configuration.jobs.get(record.job)
    verified = configuration.jobs.get(job.job_to_verify) if job is not None else None
    if verified is None:
        raise UsageError(f"verify job {record.job} needs the directive Job To Verify")
    client = record.client or verified.client
    for missed in missed_snapshots(context.catalog):
        if (missed.job, missed.client) == (verified.name, client):
            raise SetBackError(f"{missed_text(missed)}. Name the snapshot to verify by its id")
    found = newest_snapshot(context.catalog, job=verified.name, client=client)
    if found is None:
        raise SnapshotNotFoundError(f"job {verified.name} has no snapshot of {client} to verify")
    return found


def remove_ticket(context: DirectorContext, ticket: StoredTicket) -> None:
    """Remove a ticket. Blocks. Raises what reaching a repository raises."""
    store = context.repositories.open_store(ticket.storage)
    try:
        store.delete("tickets", ticket.name)
    finally:
        store.close()


class OpenedSnapshot(NamedTuple):
    """What lets an agent read it.

    lines: for the log, which folders the snapshot has not read, and which one has them.
    """

    ticket: TicketObject
    grant: str
    lines: tuple[tuple[str, str], ...]


def open_any(
    context: DirectorContext,
    snapshot: Snapshot,
    agent: str,
    paths: list[bytes],
    copies: tuple[str, ...] | None,
) -> tuple[Snapshot, OpenedSnapshot]:
    """The snapshot, or the first of its copies that can be read. Blocks.

    copies: ids of those that may be taken; None: all. Where none can, raises what the snapshot
    itself raises.
    """
    try:
        return snapshot, open_for(context, snapshot, agent, paths)
    except (CatalogError, ConflictError, FalseSnapshotError, ForeignSnapshotError):
        raise
    except (StrongroomError, OSError) as error:
        for copy in other_copies(context.catalog, snapshot):
            if copies is not None and copy.id not in copies:
                continue
            try:
                opened = open_for(context, copy, agent, paths)
            except (StrongroomError, OSError):
                continue
            text = f"storage {snapshot.storage} cannot be read: {error}; the copy {copy.id[:8]} "
            line = ("warning", f"{text}in storage {copy.storage} is restored")
            return copy, opened._replace(lines=(line, *opened.lines))
        raise


def open_for(
    context: DirectorContext, snapshot: Snapshot, agent: str, paths: list[bytes]
) -> OpenedSnapshot:
    """Ticket (stored in the repository) and grant for an agent to read paths of a snapshot.

    ForeignSnapshotError for one that is not of the client that the catalog says.
    """
    from strongroom.net.identities.statements import sign_statement

    if snapshot.removed_ns:
        raise SnapshotNotFoundError(f"snapshot {snapshot.id[:8]} was removed")
    require_sound(snapshot)
    if context.identity is None:
        raise ConflictError("the director has no identity, so storage daemons would refuse it")
    repository = context.repositories.open(snapshot.storage)
    try:
        try:
            found = own_snapshot(repository, snapshot)
        except ObjectMissingError as error:
            raise SnapshotNotFoundError(
                f"snapshot {snapshot.id[:8]} is not in the repository of {snapshot.storage} any "
                "more: it was deleted there, or it is lost (see `strongroom check`)"
            ) from error
        receiver = repository.key.put_key(agent, generation_of(context.catalog, agent))
        made = make_ticket(repository, found, paths, receiver)
        ticket = store_ticket(repository.store, made)
        lines = _unread_lines(repository, found, paths)
    finally:
        repository.close()
    payload = {
        "agent": agent,
        "client": found.owner.hex(),
        "snapshot": snapshot.id,
        "ticket": ticket.name,
    }
    grant = sign_statement(context.identity, "restore", payload, GRANT_SECONDS)
    return OpenedSnapshot(ticket, grant, lines)


def _unread_lines(
    repository: Repository, snapshot: StoredSnapshot, paths: list[bytes]
) -> tuple[tuple[str, str], ...]:
    from strongroom.engine.inspect.find import MOST_PATHS, newest_with

    unread = [path for path in snapshot.unread if not paths or is_in_folders(path, paths)]
    if not unread:
        return ()
    try:
        found = newest_with(repository, repository.snapshots(SetAside()), snapshot, unread)
    except StrongroomError as error:
        # The restore itself does not need to know.
        return (("warning", f"which snapshots have unread folders is not known: {error}"),)
    lines = []
    for path in unread[:MOST_PATHS]:
        newest = found.get(path)
        text = "no other snapshot has it"
        if newest is not None:
            text = f"the newest snapshot that has it is {newest.id}"
        lines.append(("warning", f"/{printable(path)}: its backup could not list it; {text}"))
    return tuple(lines)
