"""Messages between the director and an agent over their WebSocket, as JSON texts.

The agent dials and sends Hello; the director answers Welcome, or closes the connection with a
reason. After that either side may send at any time. A run is identified by its id (a UUID as hex)
from start to end. The agent numbers its reports of a run and keeps them until the director has
acknowledged them, so a lost connection or a restart of either loses nothing: in Hello the agent
names the runs it knows of, and the director answers for each with Acknowledge or Cancel.

Large data goes over the data connection: for a restore ticket the start message holds the name of
an object in the repository, and its key (strongroom.engine.repository.ticket_objects).

Both sides ignore message fields they do not know; an unknown message type ends the connection.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from strongroom.base.errors import QuotaError
from strongroom.engine.filesets.spec import FileSetSpec
from strongroom.engine.knobs.settings import KnobSettings
from strongroom.engine.repository.ticket_objects import TicketObject

# The header by which a request shows that no web page made it.
#
# A browser adds the certificate of its user to whatever any web page requests. But a page cannot
# make it send its own header to another site, in a form, a picture or a WebSocket. So the
# director requires this one where something changes, and for streams; our clients always send it.
OWN_HEADER: Final = "Strongroom-Request"
# Any other text does as well.
OWN_HEADERS: Final = {OWN_HEADER: "1"}
# In answers to a token that ends soon: the second of its end, since 1970.
ENDS_HEADER: Final = "Strongroom-Token-Ends"


PROTOCOL_VERSION = 1
# A longer message is refused; listings and logs are cut into pieces below it.
LARGEST_MESSAGE_BYTES = 8 << 20
# Closes the connection of an agent that has given up its identity.
CLOSE_LEFT = 4010

TlsMode = Literal["off", "tls", "ktls", "ktls-required"]
RunStatus = Literal["done", "incomplete", "failed", "cancelled"]
LogLevel = Literal["debug", "info", "warning", "error"]


class StorageTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run's data goes or comes from. `server_name`: as in its certificate."""

    address: str
    port: int
    server_name: str
    tls_mode: TlsMode = "tls"
    cipher_suites: str = ""
    repository_id: str = ""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run on the client around a job; see RunScript."""

    command: str
    when: Literal["before", "after"]
    on_success: bool = True
    on_failure: bool = False
    fail_job_on_error: bool = True


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all messages."""


# From the director to an agent.


class Welcome(Message, frozen=True, kw_only=True, tag="welcome"):
    """The agent is known. `maximum_concurrent_runs`: of this director; 0 is the agent's choice."""

    director: str
    protocol: int
    server_time_ns: int
    maximum_concurrent_runs: int = 0


class StartBackup(Message, frozen=True, kw_only=True, tag="start-backup"):
    """Make a snapshot.

    `tuning`: the knobs that the director sets; the agent's own hold for the others.
    `parent`: id of the snapshot to compare with, "" for none.
    `share_below`: public files below these folders are offered to share.
    `maximum_bytes_per_second`: 0 is no limit. `maximum_run_seconds`: 0 is no limit.
    `expected_...`: expected totals, for progress; 0 where unknown.
    """

    run_id: str
    job: str
    level: Literal["full", "differential", "incremental"]
    fileset: FileSetSpec
    storage: StorageTarget
    tuning: KnobSettings = KnobSettings()
    tags: tuple[str, ...] = ()
    share_below: tuple[str, ...] = ()
    parent: str = ""
    scripts: tuple[Script, ...] = ()
    maximum_bytes_per_second: int = 0
    maximum_run_seconds: int = 0
    expected_files: int = 0
    expected_bytes: int = 0


# A path or a pattern: a text, or {"base64": TEXT} where its bytes are not UTF-8.
Name: TypeAlias = str | dict[str, str]


class RestoreChoices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is restored and how: fields of RestoreOptions; 0 workers is the agent's choice.

    keeps_privileges: the director says it of every restore, also of one in place.
    """

    subpath: Name = ""
    includes: tuple[Name, ...] = ()
    excludes: tuple[Name, ...] = ()
    overwrite: Literal["always", "if-changed", "if-newer", "never"] = "if-changed"
    in_place: bool = False
    delete: bool = False
    dry_run: bool = False
    tells_steps: bool = False
    keeps_privileges: bool = False
    workers: int = 0


class VerifyChoices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is compared and how: fields of VerifyOptions; 0 workers is the agent's choice."""

    root: Name = "/"
    base: Name = ""
    subpath: Name = ""
    includes: tuple[Name, ...] = ()
    excludes: tuple[Name, ...] = ()
    reads_content: bool = False
    reads_signatures: bool = False
    from_disk: bool = False
    finds_extra: bool = False
    workers: int = 0


class StartRestore(Message, frozen=True, kw_only=True, tag="start-restore"):
    """Write files of a snapshot.

    `ticket`: the object that the agent fetches over the data connection and opens; what it may
    read is what the ticket has keys for. `grant`: statement signed by the director that the storage
    daemon wants to see (net.statements; purpose "restore", payload agent, owner, snapshot, ticket:
    its name). includes and excludes in `options` are patterns, as --include takes them. Below a
    target everything keeps its whole path (target/etc/passwd); what is in `subpath` goes right into
    it. `where`: the Where ACLs of anyone who asked (layers of engine.restore.target.WhereRules);
    the agent refuses a target that really is where they deny it. Empty for in place, and where
    nothing is denied. `order`: the director's signature below all of this (control.restore_orders).
    """

    run_id: str
    job: str
    storage: StorageTarget
    ticket: TicketObject
    grant: str
    target: Name
    options: RestoreChoices = RestoreChoices()
    where: tuple[tuple[str, ...], ...] = ()
    scripts: tuple[Script, ...] = ()
    maximum_bytes_per_second: int = 0
    order: str = ""


class StartVerify(Message, frozen=True, kw_only=True, tag="start-verify"):
    """Compare a snapshot with the live tree; fields as of StartRestore."""

    run_id: str
    job: str
    storage: StorageTarget
    ticket: TicketObject
    grant: str
    options: VerifyChoices = VerifyChoices()


class StartEstimate(Message, frozen=True, kw_only=True, tag="start-estimate"):
    """Walk a FileSet and count; with `listing` the paths come back in the log."""

    run_id: str
    job: str
    fileset: FileSetSpec
    listing: bool = False


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """End a run within a second; one that is not known is answered by RunEnded(cancelled)."""

    run_id: str


class SetBandwidth(Message, frozen=True, kw_only=True, tag="set-bandwidth"):
    """Change the limit of a run under way; 0 is no limit."""

    run_id: str
    maximum_bytes_per_second: int


class Acknowledge(Message, frozen=True, kw_only=True, tag="acknowledge"):
    """The director has kept everything of a run up to this number; after RunEnded: all."""

    run_id: str
    sequence: int


# From an agent to the director. A job process reports to its daemon by RunProgress, RunLog and
# RunEnded too, without what only the daemon knows: the run, and the number of the report.


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """The first message. `runs`: those it runs or has not had acknowledged as ended.

    `features`: such as "ktls", "xattr", "acl", "unshare". `clock_ns`: the agent's time. `workers`:
    processes that all its runs together may start, 0 if unknown. `instance`: of this process alone;
    `machine`: of the installed system. `leaves`: it gives this identity up.
    """

    name: str
    protocol: int
    version: str
    platform: str
    clock_ns: int
    boot_id: str = ""
    features: tuple[str, ...] = ()
    workers: int = 0
    runs: tuple[str, ...] = ()
    instance: str = ""
    machine: str = ""
    leaves: bool = False


class RunStarted(Message, frozen=True, kw_only=True, tag="run-started"):
    """The run is accepted and under way."""

    run_id: str
    sequence: int
    time_ns: int


class RunProgress(Message, frozen=True, kw_only=True, tag="run-progress"):
    """Counts so far; not kept and not acknowledged: the next one replaces it.

    total_is_estimate: the final totals may differ; those of a backup come from its start message.
    """

    run_id: str = ""
    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    total_files: int | None = None
    total_bytes: int | None = None
    total_is_estimate: bool = False
    message: str = ""
    stage_seconds: dict[str, float] = {}
    queued_blocks: int = 0


class RunLog(Message, frozen=True, kw_only=True, tag="run-log"):
    """A line of the job's log."""

    run_id: str = ""
    sequence: int = 0
    time_ns: int
    level: LogLevel
    text: str


class RunEnded(Message, frozen=True, kw_only=True, tag="run-ended"):
    """The last message of a run, and of the process that did it.

    `summary`: as `strongroom backup --json` (and so on) prints it.
    `security`: mode, cipher, ktls_send, ktls_receive of the storage connections. `error_id`: of
    strongroom.base.errors, "" when none.
    """

    run_id: str = ""
    sequence: int = 0
    time_ns: int = 0
    status: RunStatus
    exit_code: int
    error_id: str = ""
    error: str = ""
    snapshot: str = ""
    summary: dict[str, Any] = {}
    security: dict[str, Any] = {}


ToAgent = (
    Welcome
    | StartBackup
    | StartRestore
    | StartVerify
    | StartEstimate
    | Cancel
    | SetBandwidth
    | Acknowledge
)
ToDirector = Hello | RunStarted | RunProgress | RunLog | RunEnded

_Decoded = TypeVar("_Decoded")

_encoder = msgspec.json.Encoder()
_to_agent: msgspec.json.Decoder[ToAgent] = msgspec.json.Decoder(ToAgent)
_to_director: msgspec.json.Decoder[ToDirector] = msgspec.json.Decoder(ToDirector)


def encode(message: Message) -> bytes:
    """A message as JSON."""
    return _encoder.encode(message)


def encode_for_agent(message: Message) -> bytes:
    """A message as JSON. Raises QuotaError for one that no agent would take."""
    text = encode(message)
    if len(text) > LARGEST_MESSAGE_BYTES:
        raise QuotaError(
            f"this message has {len(text)} bytes, and an agent takes {LARGEST_MESSAGE_BYTES}: name "
            'fewer paths at once; a long list of files is read by the agent (File = "\\<LIST")'
        )
    return text


def decode_for_agent(data: bytes | str) -> ToAgent:
    """What the director sent. Raises msgspec.MsgspecError."""
    return decoded(_to_agent, data)


def decode_for_director(data: bytes | str) -> ToDirector:
    """What an agent sent. Raises msgspec.MsgspecError."""
    return decoded(_to_director, data)


def decoded(decoder: msgspec.json.Decoder[_Decoded], data: bytes | str) -> _Decoded:
    """What the other side sent. Raises msgspec.MsgspecError, whatever is wrong with it."""
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"invalid message: {error}") from error


def encode_name(name: bytes) -> Name:
    """A name or a pattern in JSON: a text, or its base64 where it is not UTF-8."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(name).decode("ascii")}


def decode_name(value: object) -> bytes:
    """The other way round. Raises ValueError for anything else."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        return b64decode(value["base64"], validate=True)
    raise ValueError(f"invalid name: {value!r}")
