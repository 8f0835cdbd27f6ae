"""Clients that join a group: their resources, made of the group's JobDefs, in a file of their own.

    director.d/client/NAME.conf     Client NAME, and a Job for each JobDefs of its group

The bearer of a token chooses nothing but a plain name; all else is the configuration's. The file is
tried out together with all others before it is written, and written in one step, so that the
configuration on disk is valid at every moment. Functions block.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.config.trees.loader import component_folder
from strongroom.config.trees.printer import quoted
from strongroom.daemons.director.configuration import read_configuration
from strongroom.errors import (
    ConfigurationError,
    ConflictError,
    OperatingSystemError,
    PeerRefusedError,
    UsageError,
)
from strongroom.net.identities.private_files import PUBLIC_MODE, sync_folder, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.config.settings.configuration import DirectorConfiguration

_FOLDER: Final = "client"
_HEAD: Final = """\
# {name} joined the group {group} on {day} (UTC).
# This file may be edited; `strongroom client remove {name}` removes it.
Client {{ Name = "{name}"; Address = "{name}"; Password = unused }}
"""
_JOB: Final = 'Job {{ Name = {job}; Job Defs = {jobdefs}; Client = "{name}" }}\n'


@dataclass(frozen=True, slots=True)
class JoiningClient:
    """What is to be written for a client. `jobs`: the names of its jobs."""

    name: str
    group: str
    jobs: tuple[str, ...]
    file: str
    text: str


def client_file(path: str, name: str) -> str:
    """The file of a client of a configuration at `path`. Raises UsageError."""
    folder = component_folder(path, "director")
    if folder is None:
        raise UsageError(
            f"{path} is one file, to which the director adds nothing: clients join a group where "
            "the configuration is a folder such as /etc/strongroom/director.d"
        )
    return os.path.join(folder, _FOLDER, f"{name}.conf")


def check_free(configuration: DirectorConfiguration, name: str) -> None:
    """Raise PeerRefusedError when a Client or Job has the name, in whichever case."""
    folded = name.casefold()
    for kind, names in (("client", configuration.clients), ("job", configuration.jobs)):
        if taken := next((one for one in names if one.casefold() == folded), ""):
            raise PeerRefusedError(
                f"there is a {kind} {taken!r} already; choose another name, or ask for a token for "
                "just this name"
            )


def joining_client(
    configuration: DirectorConfiguration, path: str, name: str, group: str
) -> JoiningClient:
    """The resources of a client that joins a group, tried out with the configuration at `path`.

    Raises PeerRefusedError where there is no such group, ConfigurationError, UsageError.
    """
    jobdefs = configuration.client_groups.get(group)
    if not jobdefs:
        raise PeerRefusedError(
            f"no JobDefs of the director has the Client Group {group!r} of the token any more"
        )
    day = clock.utc_text(clock.now_ns())[:10]
    jobs = _job_names(name, jobdefs)
    text = _HEAD.format(name=name, group=group.replace("\n", " "), day=day)
    for job, defs in zip(jobs, jobdefs, strict=True):
        text += _JOB.format(job=quoted(job), jobdefs=quoted(defs), name=name)
    joining = JoiningClient(name, group, jobs, client_file(path, name), text)
    if os.path.lexists(joining.file):
        raise ConflictError(f"{joining.file} is there already, and holds no Client {name}")
    _, report = read_configuration(path, {joining.file: text})
    if report.errors:
        raise _cannot_change(report.errors)
    return joining


def write_client(joining: JoiningClient) -> None:
    """Write its file in one step. Raises OperatingSystemError."""
    try:
        os.makedirs(os.path.dirname(joining.file), 0o755, exist_ok=True)
        write_file(os.fsencode(joining.file), joining.text.encode(), PUBLIC_MODE)
    except OSError as error:
        raise OperatingSystemError(
            f"cannot write {joining.file}: {error.strerror}; its folder must belong to the "
            "director's user"
        ) from error


def removable_file(configuration: DirectorConfiguration, path: str, name: str) -> str:
    """The file of a client without which the configuration is valid and has no such client.

    Raises ConflictError that says what stands in the way.
    """
    file = client_file(path, name) if component_folder(path, "director") else ""
    if not file or not os.path.exists(file):
        raise ConflictError(
            f"the Client {name} does not stand in a file of its own"
            f"{f', {file}' if file else ''}: remove it and its jobs from the configuration, give "
            "`strongroom reload`, and repeat this command"
        )
    loaded, report = read_configuration(path, {file: None})
    if loaded is None:
        raise ConflictError(
            f"without {file} the configuration is not valid: {report.errors[0]}; mend that first"
        )
    others = set(configuration.clients) - set(loaded.settings.clients) - {name}
    others |= {
        job.name
        for job in configuration.jobs.values()
        if job.name not in loaded.settings.jobs and job.client != name
    }
    if name in loaded.settings.clients or others:
        what = ", ".join(sorted(others)) or f"another Client {name}"
        raise ConflictError(f"{file} is not of {name} alone ({what}): edit the configuration")
    return file


def remove_file(file: str) -> None:
    """Remove a client's file. Raises OperatingSystemError."""
    try:
        os.unlink(file)
        sync_folder(os.fsencode(os.path.dirname(file)))
    except OSError as error:
        raise OperatingSystemError(f"cannot remove {file}: {error.strerror}") from error


def _cannot_change(errors: Sequence[str]) -> ConfigurationError:
    # They may quote the configuration of others.
    return ConfigurationError(
        f"the director's configuration on disk has {len(errors)} errors, so that no client can "
        "join now; `strongroom config check` at the director shows them"
    )


def _job_names(name: str, jobdefs: Sequence[str]) -> tuple[str, ...]:
    """The first job has the client's name, each further one that of its JobDefs beside it."""
    return tuple(f"{name}-{one}" if number else name for number, one in enumerate(jobdefs))
