"""Settings of the agent: the Client resource and the Director resources with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from strongroom.base.errors import UsageError
from strongroom.base.quantities import lowest_limit
from strongroom.config.model import Resource
from strongroom.engine.backup.parent_cache import parents_folder
from strongroom.engine.knobs.settings import KnobSettings
from strongroom.engine.knobs.table import LARGEST_DEFAULT_SHARDS

USUAL_CONFIGURATION: Final = "/etc/strongroom"
_LONGEST_PAUSE_SECONDS: Final = 60
_PING_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class KnownDirector:
    """A director that this agent works for.

    dials: we dial address:port. listens: we accept its connections. commands: kinds of job it
    may start; () for all. restore_folders: where restores may write; () for everywhere.
    longest_pause_seconds: between two attempts to connect.
    """

    name: str
    address: str
    port: int
    dials: bool
    listens: bool
    commands: tuple[str, ...]
    script_folders: tuple[str, ...]
    restore_folders: tuple[str, ...]
    maximum_bytes_per_second: int
    longest_pause_seconds: int


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent. `processes`: shared by all runs; see `supervisor`.

    share_below: what backups may offer to share at most; None where the director alone decides.
    origins: knob -> where the configuration sets it, of those that it sets.
    """

    name: str
    directors: Mapping[str, KnownDirector]
    listen_addresses: tuple[tuple[str, int], ...]
    identity_folder: str
    working_folder: str
    tuning: KnobSettings
    share_below: tuple[str, ...] | None
    processes: int
    maximum_concurrent_runs: int
    maximum_run_seconds: int
    script_seconds: int
    allow_commands: bool
    restore_socket: str
    ping_seconds: int
    metrics_file: str
    origins: Mapping[str, str]

    @property
    def run_folder(self) -> bytes:
        """The folder of the runs' journals."""
        return os.fsencode(os.path.join(self.working_folder, "runs"))

    @property
    def cache_folder(self) -> str:
        """The folder for cached listings and index objects."""
        return os.path.join(self.working_folder, "cache")

    @property
    def parents_folder(self) -> bytes:
        """The folder where the cache keeps listings of earlier backups."""
        return parents_folder(os.fsencode(self.cache_folder))

    @property
    def last_runs_file(self) -> bytes:
        """The file with the metrics of jobs."""
        return os.fsencode(os.path.join(self.working_folder, "last-runs.json"))


def load_settings(path: str) -> AgentSettings:
    """Read the configuration at `path`. Raises ConfigurationError, UsageError."""
    from strongroom.config.resolve import load
    from strongroom.config.settings.client import client_knobs, knob_origins

    component = load(path, component="agent").agent
    client = None if component is None else component.daemon
    if component is None or client is None:
        raise UsageError(f"{path}: there is no Client resource for the agent")
    directors = {
        name: _director(director, client)
        for name, director in component.of_type("Director").items()
        if not director.switch("monitor")
    }
    if not directors:
        raise UsageError(f"{path}: no Director resource names a director for this agent")
    tuning, origins = client_knobs(client), knob_origins(client)
    # Its unit's, which each job inherits; the host's owner may have set it.
    inherited = os.getpriority(os.PRIO_PROCESS, 0)
    if inherited > max(0, tuning.nice or 0):
        tuning = msgspec.structs.replace(tuning, nice=inherited)
        origins["nice"] = "Nice of the agent's unit"
    listens = any(director.listens for director in directors.values())
    return AgentSettings(
        name=client.name,
        directors=directors,
        listen_addresses=_listen_addresses(client) if listens else (),
        identity_folder=client.text("identity_directory"),
        working_folder=client.text("working_directory"),
        tuning=tuning,
        share_below=client.texts("share_below") if client.is_set("share_below") else None,
        processes=client.number("maximum_workers")
        or min(LARGEST_DEFAULT_SHARDS, len(os.sched_getaffinity(0))),
        maximum_concurrent_runs=client.number("maximum_concurrent_jobs"),
        maximum_run_seconds=client.number("absolute_job_timeout"),
        script_seconds=client.number("script_time_limit_seconds"),
        allow_commands=client.switch("allow_fileset_commands"),
        restore_socket=client.text("restore_socket"),
        ping_seconds=client.number("heartbeat_interval_seconds") or _PING_SECONDS,
        metrics_file=client.text("metrics_file"),
        origins=origins,
    )


def _director(director: Resource, client: Resource) -> KnownDirector:
    from strongroom.config.settings.daemons import port_number

    address = director.text("address")
    dials = bool(address)
    if director.is_set("connection_from_client_to_director"):
        dials = director.switch("connection_from_client_to_director")
    listens = not dials
    if director.is_set("connection_from_director_to_client"):
        listens = director.switch("connection_from_director_to_client")
    limit_name = "maximum_bandwidth_per_job_bytes_per_second"
    commands, folders, restore_folders = (
        director.texts(name) or client.texts(name)
        for name in ("allowed_job_command", "allowed_script_dir", "allowed_restore_dir")
    )
    return KnownDirector(
        name=director.name,
        address=address,
        port=port_number(director.value("port")),
        dials=dials,
        listens=listens,
        commands=tuple(command.lower() for command in commands),
        restore_folders=restore_folders,
        script_folders=folders or (client.text("scripts_directory"),),
        maximum_bytes_per_second=lowest_limit(
            director.number(limit_name), client.number(limit_name)
        ),
        longest_pause_seconds=director.number("reconnection_time_seconds")
        or _LONGEST_PAUSE_SECONDS,
    )


def _listen_addresses(client: Resource) -> tuple[tuple[str, int], ...]:
    """Where to listen; "" means every address."""
    from strongroom.config.settings.daemons import listening_addresses, port_number

    found = listening_addresses(client)
    if client.value("addresses") and client.text("address"):
        found.append((client.text("address"), port_number(client.value("port"))))
    return tuple(found)
