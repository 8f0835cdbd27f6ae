"""One hierarchy of errors: a class is a kind of failure, with an exit code and a greppable id.

Every message says what happened, where, and what to do next. The command line prints
`strongroom: error [ID]: MESSAGE` and exits with the class's code; docs/reference/exit-codes.md
lists them all. Code 3 is not an error class: it is the exit code of a job that was done but could
not read, set or verify some files, which its report names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

EXIT_DONE = 0
EXIT_INCOMPLETE = 3
EXIT_BUG = 70
EXIT_OUTPUT_CLOSED = 141
EXIT_TERMINATED = 143


class StrongroomError(Exception):
    """Base of every error the engine raises on purpose."""

    exit_code = 1
    error_id = "general"


class UsageError(StrongroomError):
    """The command line or an option's value is wrong."""

    exit_code = 2
    error_id = "usage"


class SourceError(StrongroomError):
    """A source as a whole could not be read (no such path, the command failed)."""

    exit_code = 4
    error_id = "source"


class SnapshotNotFoundError(StrongroomError):
    """No snapshot fits what was asked for, or more than one does."""

    exit_code = 5
    error_id = "snapshot-not-found"


class ScriptError(StrongroomError):
    """A script around a job could not be run, failed or took too long."""

    exit_code = 6
    error_id = "script"


class TimeLimitError(StrongroomError):
    """A job ran longer than it may."""

    exit_code = 7
    error_id = "time-limit"


class JobDiedError(StrongroomError):
    """The process of a job ended without a valid report (killed, out of memory)."""

    exit_code = 8
    error_id = "job-died"


class RefusedError(StrongroomError):
    """What is asked for is not allowed on this machine, or an update is not signed by its key."""

    exit_code = 9
    error_id = "refused"


class RepositoryNotFoundError(StrongroomError):
    """There is no repository at the place named."""

    exit_code = 10
    error_id = "repository-not-found"


class RepositoryExistsError(StrongroomError):
    """A repository cannot be created where something exists already."""

    exit_code = 11
    error_id = "repository-exists"


class WrongKeyError(StrongroomError):
    """No key of the repository opens with the passphrase or key file given."""

    exit_code = 12
    error_id = "wrong-key"


class KeyRightError(StrongroomError):
    """The key does not permit this (a put key can add, it cannot read)."""

    exit_code = 13
    error_id = "key-right"


class UnknownFormatError(StrongroomError):
    """The repository was written by a newer version in a format this one does not read."""

    exit_code = 14
    error_id = "unknown-format"


class PathNotFoundError(StrongroomError):
    """The snapshot does not hold the path that was asked for."""

    exit_code = 15
    error_id = "path-not-found"


class NothingMatchedError(StrongroomError):
    """What was requested by patterns is nowhere in the snapshot, so nothing was done."""

    exit_code = 16
    error_id = "nothing-matched"


class PathMissingError(StrongroomError):
    """A path that was named for a backup is not there; everything else was stored."""

    exit_code = 17
    error_id = "path-missing"


class DamageError(StrongroomError):
    """Stored bytes differ from what was written: forged, truncated, corrupted or missing."""

    exit_code = 20
    error_id = "damage"


class ObjectMissingError(DamageError):
    """An object of the repository is referenced but not in the store."""

    error_id = "object-missing"


class CheckFailedError(StrongroomError):
    """check or verify completed and found differences or damage."""

    exit_code = 21
    error_id = "check-failed"


class SetBackError(StrongroomError):
    """The store shows less than is known: perhaps the state of an earlier day."""

    exit_code = 22
    error_id = "set-back"


class FalseSnapshotError(StrongroomError):
    """The snapshot was found false: it lacks something, or its totals are not true."""

    exit_code = 23
    error_id = "false-snapshot"


class SetAsideError(StrongroomError):
    """A job did its work, except for objects that it could not read; it named each."""

    exit_code = 24
    error_id = "set-aside"


class MemoryLimitError(UnknownFormatError):
    """A job, or the reading of one object, takes more memory than it may have.

    Like an unknown format, it says nothing of whether what is stored is sound.
    """

    exit_code = 25
    error_id = "memory-limit"


class TimeShareError(UnknownFormatError):
    """What one client stored takes longer to read than a job over all clients gives to one.

    Like an unknown format, it says nothing of whether what is stored is sound.
    """

    exit_code = 26
    error_id = "time-share"


class StoreError(StrongroomError):
    """The store failed (no space, read-only, input/output error); fatal to the job."""

    exit_code = 30
    error_id = "store"


class LeaseError(StrongroomError):
    """The lease of this job expired before it could commit, or another job excludes it."""

    exit_code = 31
    error_id = "lease"


class ConnectionLostError(StoreError):
    """The connection to the storage daemon broke; what was acknowledged is kept.

    `clean`: the peer closed it in an orderly way, between messages.
    """

    exit_code = 32
    error_id = "connection-lost"

    def __init__(self, message: str, *, clean: bool = False) -> None:
        super().__init__(message)
        self.clean = clean


class PeerRefusedError(StrongroomError):
    """One side of a connection rejects the other's identity, role or protocol."""

    exit_code = 33
    error_id = "peer-refused"


class QuotaError(StoreError):
    """The storage daemon stores no more for this client: its quota or a limit is reached."""

    exit_code = 34
    error_id = "quota"


class ProtocolError(StrongroomError):
    """The peer violated the protocol."""

    exit_code = 35
    error_id = "protocol"


class RightError(StrongroomError):
    """The storage daemon denies this client an operation (delete, replace, see others' data)."""

    exit_code = 36
    error_id = "right"


class ConfigurationError(StrongroomError):
    """Configuration files have errors; each was reported with file, line and column."""

    exit_code = 40
    error_id = "configuration"


class SelfTestError(StrongroomError):
    """A library of this installation gives wrong results; no data was touched."""

    exit_code = 50
    error_id = "self-test"


class MissingPartError(StrongroomError):
    """A library that this command needs is not installed; the message says how to install it."""

    exit_code = 51
    error_id = "missing-part"


class UnknownNameError(StrongroomError):
    """The director has no job, client, run or other object of this name."""

    exit_code = 60
    error_id = "unknown-name"


class ConflictError(StrongroomError):
    """A request to the director conflicts with the current state (the run has ended)."""

    exit_code = 61
    error_id = "conflict"


class NotAuthenticatedError(StrongroomError):
    """No valid token or certificate was presented to the director."""

    exit_code = 62
    error_id = "not-authenticated"


class NotPermittedError(StrongroomError):
    """The director identified the caller, who is not permitted to do this."""

    exit_code = 63
    error_id = "not-permitted"


class TooManyAttemptsError(StrongroomError):
    """Too many requests, or too many wrong secrets, reached the director from one address."""

    exit_code = 64
    error_id = "too-many-attempts"


class DirectorError(StrongroomError):
    """The director cannot be reached, or its answer is invalid."""

    exit_code = 65
    error_id = "director"


class CatalogError(StrongroomError):
    """The director's database failed, or was written by a newer version."""

    exit_code = 66
    error_id = "catalog"


class CatalogUnavailableError(CatalogError):
    """The director's database is unavailable: it is down, starting, locked or full."""

    exit_code = 67
    error_id = "catalog-unavailable"


class CatalogDamagedError(CatalogUnavailableError):
    """The director's database is damaged: it has to be repaired before anything can use it."""

    exit_code = 67
    error_id = "catalog-damaged"


class NoticeError(StrongroomError):
    """A notice could not be sent."""

    exit_code = 68
    error_id = "notice"


class OperatingSystemError(StrongroomError):
    """A system call failed where no other class says more (no permission, no such file)."""

    exit_code = 71
    error_id = "operating-system"


class CancelledError(StrongroomError):
    """The user or the system asked the job to stop (SIGINT, SIGTERM)."""

    exit_code = 130
    error_id = "interrupted"

    def __init__(self, message: str, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class OutputClosedError(StrongroomError):
    """The reader of our standard output closed it (`strongroom ls | head`)."""

    exit_code = EXIT_OUTPUT_CLOSED
    error_id = "output-closed"


@contextmanager
def os_errors(
    what: str, then: str = "", kind: type[StrongroomError] = UsageError
) -> Iterator[None]:
    """Raise an error of the system as `WHAT: its reason`. then: what to do about it."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror}{then}") from error


def error_class(error_id: str) -> type[StrongroomError] | None:
    """The class that an id names; None for one that this version does not know."""
    waiting: list[type[StrongroomError]] = [StrongroomError]
    while waiting:
        kind = waiting.pop()
        if kind.error_id == error_id:
            return kind
        waiting += kind.__subclasses__()
    return None


def error_named(
    error_id: str,
    message: str,
    *,
    otherwise: type[StrongroomError] = StrongroomError,
    exit_code: int | None = None,
) -> StrongroomError:
    """The error that another process or machine reported by its id.

    `otherwise`: the class for an id that this version does not know. `exit_code`: where it was
    reported as well; that of a signal depends on the signal.
    """
    error = (error_class(error_id) or otherwise)(message)
    if exit_code is not None:
        error.exit_code = exit_code
    return error
