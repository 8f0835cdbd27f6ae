"""Clients that are enrolled: which client a name is, and the resources of those that join a group.

    director.d/client/NAME.conf     Client NAME, and a Job for each JobDefs of its group

The bearer of a token for a group chooses nothing but a plain name; all else is the configuration's.
The file is tried out together with all others before it is written, and written in one step, so
that the configuration on disk is valid at every moment.

A client's id and keys follow from its name and its generation, and from the secret of the
repository, which the appliance key holds. The catalog has the generation. It is raised when the
name is enrolled with a token for a new client, after a compromise: what the old keys opened or made
is not the new client's. Everything blocks: call it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import (
    ConfigurationError,
    ConflictError,
    OperatingSystemError,
    PeerRefusedError,
    UsageError,
)
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.trees.loader import component_folder
from strongroom.config.trees.printer import quoted
from strongroom.director.catalog.clients import (
    generation_of,
    is_known,
    next_generation,
)
from strongroom.director.configuration import read_configuration
from strongroom.director.context import DirectorContext
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.repository.keys.roles import ApplianceKey
from strongroom.net.identities.enrolment_tokens import TokenUse
from strongroom.net.identities.peer import ClientOf, Peer
from strongroom.net.identities.private_files import PUBLIC_MODE, sync_folder, write_file

# What Ansible and others run for such a name they run on the machine that they are on.
_EVERY_MACHINE: Final = frozenset(("localhost", "127.0.0.1", "::1"))
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

    Raises ConflictError that says what is in the way.
    """
    file = client_file(path, name) if component_folder(path, "director") else ""
    if not file or not os.path.exists(file):
        raise ConflictError(
            f"the Client {name} is not in its own file"
            f"{f', {file}' if file else ''}: remove it and its jobs from the configuration, run "
            "`strongroom reload`, and repeat this command"
        )
    loaded, report = read_configuration(path, {file: None})
    if loaded is None:
        raise ConflictError(
            f"without {file} the configuration is not valid: {report.errors[0]}; fix that first"
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


class EnrolledClient:
    """One enrolment or renewal of a name. put_keys: as text, one a repository; of agents only."""

    def __init__(self, context: DirectorContext, keys: tuple[ApplianceKey, ...], name: str) -> None:
        """`keys`: of the repositories whose clients are enrolled here."""
        self._context = context
        self._keys = keys
        self._name = name
        self.put_keys: list[str] = []

    def look(self, use: TokenUse, *, is_repeated: bool = False) -> None:
        """Whether the name can be enrolled now, before its token is used.

        is_repeated: the same machine has used it already. Raises PeerRefusedError for the
        director's own name, and if the token is for no single name for one that means something
        else, and one that was ever enrolled or backed up: its keys are those of the client before.
        CatalogUnavailableError.
        """
        if use.role == "agent" and self._name == self._context.name:
            raise PeerRefusedError(
                f"{self._name!r} is the name of this director, whose backups of the catalog are "
                "those of a client of that name: choose another for the agent"
            )
        generation_of(self._context.catalog, self._name)
        if use.name or is_repeated:
            return
        if use.role == "agent":
            self._require_free_of_meaning()
        if is_known(self._context.catalog, self._name):
            raise PeerRefusedError(
                f"there was a client {self._name!r} already; choose another name, or ask for a "
                "token for just this name"
            )

    def _require_free_of_meaning(self) -> None:
        """A machine that chooses its name does not choose that of a job, or of every machine."""
        configuration, folded = self._context.configuration, self._name.casefold()
        if folded in _EVERY_MACHINE:
            raise PeerRefusedError(
                f"{self._name!r} means every machine itself: choose another name"
            )
        for name, job in configuration.jobs.items():
            if name.casefold() == folded and job.client != self._name:
                raise PeerRefusedError(f"there is a job {name!r} already; choose another name")

    def enrol(self, use: TokenUse) -> tuple[ClientOf, ...]:
        """Which client the bearer of a token is, a new one where the token says so."""
        if use.new_client:
            next_generation(self._context.catalog, self._name)
        return self._clients(use.role)

    def deliver(self, peer: Peer) -> list[str]:
        """The put keys of an agent, as text: for the holder of its certificate alone.

        Raises PeerRefusedError where the certificate is that of an earlier client of the name.
        """
        if any(one not in peer.clients for one in self._clients(peer.role)):
            raise PeerRefusedError(f"the certificate of {peer} is not of the present client")
        return self.put_keys

    def renew(self, peer: Peer) -> tuple[ClientOf, ...]:
        """Which client a peer is; where the key is elsewhere as its certificate says."""
        ours = {key.repository_id for key in self._keys}
        others = tuple(one for one in peer.clients if one.repository not in ours)
        return self._clients(peer.role) + others

    def _clients(self, role: str) -> tuple[ClientOf, ...]:
        if role != "agent":
            return ()
        generation = generation_of(self._context.catalog, self._name)
        made = [key.put_key(self._name, generation) for key in self._keys]
        self.put_keys = [export_key(key) for key in made]
        return tuple(ClientOf(key.repository_id, key.client_id) for key in made)
