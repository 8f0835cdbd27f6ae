"""What a run of the agent works with: the effective values of its knobs, and who set them."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from strongroom.agent.jobs.description import kind_of
from strongroom.agent.journal import RunJournal
from strongroom.base.clock import utc_text
from strongroom.base.errors import StrongroomError
from strongroom.engine.filesets.blocks import treatments
from strongroom.engine.knobs.settings import KnobSettings, merged
from strongroom.engine.knobs.table import JOB_KNOBS, knob_named
from strongroom.net.control.messages import StartBackup

_MOST_ENDED: Final = 100
# What the options of a FileSet may say as well.
_OF_FILESET: Final = ("compression", "signature", "acls", "xattrs")


class EndedRuns:
    """The last run of each job that has ended while this agent runs."""

    def __init__(self) -> None:
        self._by_job: dict[tuple[str, str], dict[str, object]] = {}

    def note(self, journal: RunJournal, tuning: KnobSettings) -> None:
        """A run has ended. tuning: what the agent set when it began."""
        if journal.ended is None:
            return
        entry = journal.entry
        key = (entry.director, entry.start.job)
        self._by_job.pop(key, None)
        self._by_job[key] = {
            **run_object(journal, tuning),
            "status": journal.ended.status,
            "ended": utc_text(journal.ended.time_ns),
            "security": journal.ended.security,
        }
        while len(self._by_job) > _MOST_ENDED:
            del self._by_job[next(iter(self._by_job))]

    def shown(self) -> list[dict[str, object]]:
        """All of them, the newest last."""
        return list(self._by_job.values())


def _effective(own: KnobSettings, start: StartBackup) -> dict[str, dict[str, object]]:
    """The knobs of a backup: the agent's own, then the director's, then those of the FileSet."""
    values = merged(own, start.tuning, spelling="directive", knobs=JOB_KNOBS)
    given, directed = own.given(), start.tuning.given()
    found: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        source, knob = "default", knob_named(name)
        if name in directed and not (knob.is_limit and value != directed[name]):
            source = f"director: {knob.directive or name}"
        elif name in given:
            source = "agent"
        found[name] = {"value": value, "source": source}
    for name in _OF_FILESET:
        chosen = _of_fileset(start, name)
        if chosen:
            found[name] = {"value": chosen[0], "source": f"FileSet {start.fileset.name}"}
            if len(chosen) > 1:
                found[name]["values"] = chosen
    return found


def _of_fileset(start: StartBackup, attribute: str) -> list[object]:
    found = [getattr(one, attribute) for one in treatments(start.fileset)]
    return list(dict.fromkeys(one for one in found if one is not None))


def run_object(journal: RunJournal, tuning: KnobSettings) -> dict[str, object]:
    """A run, as JSON. tuning: what the agent set when it began."""
    start = journal.entry.start
    shown: dict[str, object] = {
        "run": journal.run_id,
        "job": start.job,
        "director": journal.entry.director,
        "kind": kind_of(start),
    }
    if isinstance(start, StartBackup):
        shown["fileset"] = start.fileset.name
        shown["maximum_bandwidth"] = start.maximum_bytes_per_second
        shown["tls"] = {
            "mode": start.storage.tls_mode,
            "cipher_suites": start.storage.cipher_suites,
        }
        # A run whose options make no sense has failed of them: it has no effective ones.
        with suppress(StrongroomError):
            shown["knobs"] = _effective(tuning, start)
    return shown
