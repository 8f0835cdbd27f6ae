"""The table of conditions: everything that the director tells people of, one row each.

Notices, the metric and alerts of Prometheus, the web page and the documentation come from it; the
modules `watch_*` of the director find what it names. A name is an event of `Notify`'s `Events`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

Severity = Literal["warning", "error"]
# While it lasts it is reported again so often, to each destination in one message.
AGAIN: Final = "once a week"
# Type of a Notify block -> what it needs, each as alternatives, and what it may have.
_WEB: Final = (("url", "url_file"),)
NOTICE_NEEDS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "mail": (("to",),),
    "webhook": _WEB,
    "slack": (("url_file",),),
    "matrix": (*_WEB, ("token_file",), ("room",)),
    "ntfy": _WEB,
    "gotify": (*_WEB, ("token_file",)),
    "command": (("command",),),
}
NOTICE_MAY: Final[dict[str, tuple[str, ...]]] = {
    "webhook": ("token_file", "ca_file"),
    "slack": ("ca_file",),
    "matrix": ("ca_file",),
    "ntfy": ("token_file", "ca_file"),
    "gotify": ("ca_file",),
}


class ConditionKind(NamedTuple):
    """How bad it is; how it is detected; when first reported; what ends it; what to do.

    again: when it is repeated. alerts: of Prometheus, which ask for the same by other metrics;
    without one the alert ALERT_OF_OTHERS is about it.
    """

    severity: Severity
    detected: str
    first: str
    ends: str
    action: str
    again: str = AGAIN
    alerts: tuple[str, ...] = ()


# The alert of what has none of its own; its rule names these events.
ALERT_OF_OTHERS: Final = "StrongroomConditionLasts"
_AT_END: Final = "when the run ends"
_LOOK: Final = "within a minute"

CONDITIONS: Final[dict[str, ConditionKind]] = {
    "job-failed": ConditionKind(
        "error",
        "a run failed, and no further attempt follows",
        _AT_END,
        "a good run of the job",
        "`strongroom log RUN` ends with the error and what to do",
        alerts=("StrongroomBackupFailed", "StrongroomVerifyFailed"),
    ),
    "job-incomplete": ConditionKind(
        "warning",
        "files could not be read; the rest is stored",
        f"{_AT_END}, where `Events` names it",
        "a run that reads all",
        "`strongroom log RUN` names the files",
    ),
    "path-missing": ConditionKind(
        "warning",
        "a path that a FileSet names was not there; a condition for each path, beyond 20 of a job "
        "one for all",
        _AT_END,
        "a backup that finds it",
        "restore it, or remove it from the FileSet",
    ),
    "backup-short": ConditionKind(
        "error",
        "a backup holds a tenth of the usual files or bytes, nothing of a named path that had "
        "something in it, or a named path whose disk is not mounted; it is incomplete, and "
        "displaces no snapshot",
        _AT_END,
        "a backup that holds as much as usual, or `strongroom accept RUN`",
        "mount or fix what is missing; if it is intended, `strongroom accept RUN`",
    ),
    "job-missing": ConditionKind(
        "error",
        "a scheduled run did not start: its agent is not connected, it was refused, or could not "
        "be made",
        "`Late After` its time (an hour)",
        "a good run of the job",
        "see why on the client: `strongroom status`, `strongroom clients`",
        alerts=("StrongroomBackupMissing", "StrongroomVerifyOverdue"),
    ),
    "job-overdue": ConditionKind(
        "error",
        "the last success is older than `Overdue After`, usually one and a half intervals of the "
        "schedule",
        _LOOK,
        "a good run of the job",
        "`strongroom runs --job JOB` shows the last ones",
        alerts=("StrongroomBackupTooOld",),
    ),
    "job-late": ConditionKind(
        "warning",
        "a scheduled run started, or waits for others, `Late After` its time",
        _LOOK,
        "the start of the run, or its end",
        "`strongroom status` shows what it waits for",
    ),
    "job-slow": ConditionKind(
        "warning",
        "a run takes longer than `Slow After`, usually three times as long as the last ones and an "
        "hour",
        _LOOK,
        "the end of the run",
        "`strongroom watch RUN`, `strongroom cancel RUN`",
    ),
    "restore-test-failed": ConditionKind(
        "error",
        "a Verify job of level `Data` failed",
        _AT_END,
        "a good run of the job",
        "do not prune; `strongroom log RUN`, `strongroom check --read-data=100%`",
        alerts=("StrongroomRestoreTestFailed",),
    ),
    "restore-test-overdue": ConditionKind(
        "error",
        "a Verify job is missing, or its last success too old",
        _LOOK,
        "a good run of the job",
        "`strongroom status` shows what it waits for",
        alerts=("StrongroomRestoreTestOverdue",),
    ),
    "certificate-expiring": ConditionKind(
        "warning",
        "a certificate of the director's authority ends soon: within `Expiry Warning` (14 days), "
        "in the last quarter of a life of weeks; 180 days before the end of the authority",
        "within 10 minutes",
        "a newer certificate, or its revocation",
        "see why it is not renewed; `strongroom ca issue`",
        alerts=("StrongroomCertificateExpiring",),
    ),
    "certificate-expired": ConditionKind(
        "error",
        "such a certificate has ended",
        "within 10 minutes",
        "a newer certificate, or its revocation",
        "`strongroom ca issue`, or enrol the machine anew",
        alerts=("StrongroomCertificateExpiring",),
    ),
    "token-expiring": ConditionKind(
        "warning",
        "an API token ends soon, or has ended",
        "within 10 minutes",
        "another token of the name, or its withdrawal",
        "`strongroom token create`, `strongroom token withdraw`",
        alerts=("StrongroomCertificateExpiring",),
    ),
    "disk-nearly-full": ConditionKind(
        "warning",
        "the disk of a Storage is `Nearly Full At` (90 percent)",
        "within 10 minutes",
        "2 percent below",
        "`strongroom prune`, shorter retention, a larger disk",
    ),
    "disk-filling": ConditionKind(
        "warning",
        "the disk of a Storage will be full within 7 days at the rate at which its free space has "
        "shrunk, measured over 3 to 30 days",
        "within 10 minutes",
        "a slower rate, or more space",
        "`strongroom prune`, shorter retention, a larger disk",
    ),
    "disk-full": ConditionKind(
        "error",
        "the disk of a Storage is `Full At` (97 percent)",
        "within 10 minutes",
        "2 percent below",
        "`strongroom prune`, shorter retention, a larger disk",
        alerts=("StrongroomRepositoryFull",),
    ),
    "storage-unreachable": ConditionKind(
        "error",
        "the director cannot reach a repository, twice in a row",
        "within 20 minutes",
        "an answer of the storage daemon",
        "see whether the storage daemon runs and its disk is mounted",
        alerts=("StrongroomStorageUnreachable",),
    ),
    "copy-late": ConditionKind(
        "error",
        "a snapshot of a Pool with `Copy To` has had no copy at the second Storage for 2 days",
        _LOOK,
        "a copy of it, its removal, or the end of `Copy To`",
        "`strongroom status` shows how far they are behind, `strongroom runs --job copy-POOL` why. "
        "A snapshot that is damaged can have no copy: the run names it, and `strongroom forget ID` "
        "gives it up",
    ),
    "false-snapshot": ConditionKind(
        "error",
        "a snapshot has false metadata; beyond 20 of a client one report for all",
        "when it is found: at the end of its run, or within an hour",
        "`strongroom forget` of it; one that was not entered in the catalog has no end",
        "find out what its agent did; then `strongroom forget`",
        again=f"{AGAIN}; one that was not entered in the catalog is reported once",
    ),
    "snapshot-missing": ConditionKind(
        "error",
        "the newest snapshot of a job is missing, and it was not removed through the director",
        "within an hour",
        "its return, a newer backup, or `strongroom forget` of it",
        "find out who removed it, or whether the disk was set back; run a backup",
    ),
    "snapshots-unknown": ConditionKind(
        "error",
        "a repository holds snapshots of runs that are not in the catalog: the catalog was "
        "restored from an older copy",
        "within an hour, and a minute after a start of the director",
        "`strongroom catalog rebuild`, or their removal",
        "`strongroom catalog rebuild --storage NAME`; if the catalog is not an older copy, find "
        "out first what made them",
    ),
    "catalog-unavailable": ConditionKind(
        "error",
        "the database of the catalog does not answer",
        "after a minute, past the catalog",
        "an answer of the database",
        "see whether the database runs and its disk has space",
    ),
    "catalog-damaged": ConditionKind(
        "error",
        "the catalog's file is damaged; it is checked when the director starts, before "
        "`backup catalog`, and wherever it is read",
        "at once, past the catalog, also by a director that cannot start because of it",
        "a sound catalog",
        "`strongroom catalog recover`, on the director's machine; look at its disk",
    ),
    "clock-jump": ConditionKind(
        "warning",
        "the director's clock jumped; until it is correct nothing is forgotten or reported as late",
        _LOOK,
        "the clock is correct again, or a day has passed",
        "correct the clock; find out why it jumped",
        alerts=("StrongroomClockJumped",),
    ),
    "clock-unsteady": ConditionKind(
        "error",
        "it jumped again within each day, so no snapshots were forgotten for days",
        _LOOK,
        "a day without a jump",
        "correct the clock; find out why it jumps",
        alerts=("StrongroomClockJumped",),
    ),
    "two-agents": ConditionKind(
        "error",
        "two machines connect with the identity of one agent",
        _LOOK,
        "a decision: one of them has another identity",
        "`strongroom agent rejoin` on the copy",
    ),
    "configuration-refused": ConditionKind(
        "error",
        "a reload found errors; the configuration before stays in force",
        "after five minutes",
        "a reload without errors",
        "fix what `strongroom config check` reports, then `strongroom reload`",
    ),
    "notices-undelivered": ConditionKind(
        "error",
        "a destination has failed for an hour, or messages to it were dropped",
        "to the other destinations; `status` and the web page show it",
        "a message that it accepts, also a test",
        "`strongroom notify list`, `strongroom notify test`",
    ),
}
# Event -> what a person does, as plain text.
REMEDIES: Final = {name: one.action.replace("`", "") for name, one in CONDITIONS.items()}
# Event -> how bad it is.
EVENTS: Final[dict[str, Severity]] = {name: one.severity for name, one in CONDITIONS.items()}
ALL: Final = "all"
EVENT_WORDS: Final = (ALL, *EVENTS)


def chosen_events(words: Iterable[str]) -> frozenset[str]:
    """The events that a list chooses, `all` and `!` worked out in order."""
    chosen: set[str] = set()
    for word in words:
        name = word.removeprefix("!")
        names = set(EVENTS) if name == ALL else {name}
        chosen = chosen - names if word.startswith("!") else chosen | names
    return frozenset(chosen)
