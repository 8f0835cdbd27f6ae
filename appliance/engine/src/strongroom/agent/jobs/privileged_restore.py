"""A restore with root's rights, for an agent that has none: the program behind its Restore Socket.

`python -m strongroom.agent.jobs.privileged_restore --config PATH --run-folder FOLDER`

The agent is not trusted here. It says which message of the director it passes on, and how much of
the machine the restore may take. Everything else comes from where the agent cannot write:

- whether there is such a restore, its target, options and scripts: the director's order
  (net.control.restore_orders), verified with `authority.pem` beside the configuration;
- which Directors may give one, Allowed Job Command, Allowed Restore Dir, Allowed Script Dir and
  time limits: the agent's configuration, which only root may be able to change;
- locks: a folder of this program's own. Nothing is written to the agent's folders.

Identity and put keys are read from the agent's Identity Directory: with them it connects as the
agent, and a false one gets it nothing. See job_process for its input and output.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from functools import partial
from typing import Final

import msgspec

from strongroom.agent.jobs.description import JobDescription, PassedRestore
from strongroom.agent.jobs.job import run_job
from strongroom.agent.restore_authority import restore_authority_path
from strongroom.agent.settings import USUAL_CONFIGURATION, AgentSettings, load_settings
from strongroom.base.errors import RefusedError, UsageError
from strongroom.base.quantities import lowest_limit
from strongroom.net.control.messages import RunEnded
from strongroom.net.identities.private_files import make_private_folder, read_bounded
from strongroom.net.identities.revocations import Revocations
from strongroom.net.identities.trust import Trust, roots_of
from strongroom.service.job_process.program import JobInput, JobOutput, run_program
from strongroom.service.trusted_files import require_trusted

_RUN_FOLDER: Final = "/run/strongroom-restore"
_RUN_ID: Final = re.compile(r"[0-9a-f]{32}")
_GREATEST_AUTHORITY_BYTES: Final = 256 << 10


def trusted_settings(path: str) -> AgentSettings:
    """The agent's configuration at `path`, if only root can change it.

    Raises UsageError, ConfigurationError.
    """
    from strongroom.config.trees.loader import STEMS, LoadOptions, load_trees

    what = "the configuration of the agent"
    path = os.path.abspath(path)
    require_trusted(path, what, is_listed=True)
    for stem in STEMS["agent"] if os.path.isdir(path) else ():
        for folder, below, _ in os.walk(os.path.join(path, f"{stem}.d")):
            for place in (folder, *(os.path.join(folder, name) for name in below)):
                require_trusted(place, what, is_listed=True)
    for file in load_trees(path, LoadOptions(), "agent").files:
        require_trusted(os.path.abspath(file), what)
    return load_settings(path)


def _described(passed: PassedRestore, path: str, run_folder: str) -> JobDescription:
    """The job, with rights from our own configuration. Raises what refuses it."""
    from strongroom.net.control.restore_orders import check_order

    start = passed.start
    if not _RUN_ID.fullmatch(start.run_id):
        raise UsageError("a run's id is not a UUID in hex")
    settings = trusted_settings(path)
    authority = restore_authority_path(path)
    require_trusted(authority, "the authority that restores trust")
    pem = read_bounded(os.fsencode(authority), _GREATEST_AUTHORITY_BYTES)
    # A list of revoked certificates is signed: the agent can withhold the newest, not make one.
    revoked = os.path.join(os.fsencode(settings.identity_folder), b"revoked.pem")
    trust = Trust(pem, Revocations(revoked, roots_of(pem)))
    name = check_order(start, trust, settings.name)
    director = settings.directors.get(name)
    if director is None:
        raise RefusedError(f"Director {name} is not one of this agent's configuration")
    if director.commands and "restore" not in director.commands:
        raise RefusedError(f"Director {name} may not start a restore here; see Allowed Job Command")
    make_private_folder(os.fsencode(run_folder))
    return JobDescription(
        start=start,
        client=settings.name,
        director=name,
        identity_folder=settings.identity_folder,
        cache_folder="",
        lock_file=os.path.join(run_folder, f"{start.run_id}.lock"),
        script_folders=director.script_folders,
        script_seconds=settings.script_seconds,
        restore_folders=director.restore_folders,
        processes=max(1, min(passed.processes, settings.processes)),
        maximum_bytes_per_second=passed.maximum_bytes_per_second,
        maximum_run_seconds=lowest_limit(settings.maximum_run_seconds, passed.maximum_run_seconds),
    )


def _do(
    path: str, run_folder: str, passed: PassedRestore, job_input: JobInput, output: JobOutput
) -> RunEnded:
    return run_job(_described(passed, path, run_folder), job_input, output)


def main() -> int:
    """Run the restore on standard input; returns the exit code."""
    parser = argparse.ArgumentParser(description="a restore for the agent; systemd starts it")
    parser.add_argument("--config", default=USUAL_CONFIGURATION)
    parser.add_argument("--run-folder", default=_RUN_FOLDER)
    options = parser.parse_args()
    do = partial(_do, options.config, options.run_folder)
    return run_program(msgspec.json.Decoder(PassedRestore), do)


if __name__ == "__main__":
    sys.exit(main())
