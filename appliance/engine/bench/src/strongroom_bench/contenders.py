"""The programs that are compared: where they come from and how each does a step.

Every contender runs with its defaults and with encryption on where it has one, on a fresh
repository, with its caches inside the benchmark's own folder. The rows fetch what is missing and
leave out with a message what cannot be had; the suites take those that are installed.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strongroom.base.interpreter import module_command
from strongroom.cli.measure.testbed.command import CommandUsage, measure
from strongroom.cli.measure.testbed.daemons import plain_environment
from strongroom_bench.errors import ContenderError
from strongroom_bench.places import CHECKOUT
from strongroom_bench.testbed import bacula_packages as bacula

PASSWORD = "benchmark only"
OURS = "strongroom"
# Strongroom of another commit, to measure the cost of a change.
BEFORE = "before"
STEPS = ("first", "unchanged", "changed", "restore", "prune")


@dataclass(frozen=True)
class Command:
    """One command line and the folder it runs in."""

    arguments: list[str]
    working_folder: Path | None = None


@dataclass(frozen=True)
class Place:
    """What a command is about: the repository, the data, and where to restore to."""

    repository: Path
    data: Path
    restored: Path
    archive: str = "first"


@dataclass(frozen=True)
class Contender:
    """A program under measurement; each step may take several commands, in order, or none.

    times_itself: the last line that a command writes is how many seconds count of what it took.
    is_incremental: a later backup may find what did not change.
    """

    name: str
    version: str
    program: str
    environment: Mapping[str, str]
    initialise: Callable[[Place], list[Command]]
    backup: Callable[[Place], list[Command]]
    restore: Callable[[Place], list[Command]]
    prune: Callable[[Place], list[Command]]
    start_up: Callable[[Place], dict[str, list[Command]]]
    times_itself: bool = False
    is_incremental: bool = True

    def commands(self, step: str, place: Place) -> list[Command]:
        """The commands of `step`, one of STEPS."""
        if step == "restore":
            return self.restore(place)
        return self.prune(place) if step == "prune" else self.backup(place)


def _version(program: str, argument: str) -> str:
    answer = subprocess.run([program, argument], capture_output=True, text=True, check=True)
    words = answer.stdout.split()
    return next((word for word in words if word[0].isdigit()), "unknown")


def _environment(work_folder: Path, **own: str) -> dict[str, str]:
    home = work_folder / "home"
    return plain_environment(home, XDG_CACHE_HOME=str(home / "cache"), **own)


def measure_commands(
    commands: Sequence[Command], environment: Mapping[str, str], folder: Path, log: Path
) -> CommandUsage:
    """Run commands in turn as one step, in `folder` where they name none. Raises CommandError."""
    found = [
        measure(one.arguments, environment, one.working_folder or folder, log) for one in commands
    ]
    return functools.reduce(CommandUsage.joined, found)


def _strongroom(work_folder: Path) -> Contender:
    program = shutil.which("strongroom")
    if not program:
        raise ContenderError("strongroom is not in PATH; run through `make bench`")
    return _strongroom_at(program, OURS, work_folder)


def strongroom_before(commit: str, work_folder: Path) -> Contender:
    """Strongroom as it was at `commit`, in its own environment that is made here.

    Raises ContenderError when there is no such commit or it cannot be installed.
    """
    found = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    folder = work_folder / f"before-{found[:12]}"
    program = folder / ".venv/bin/strongroom"
    if not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        archive = folder / "archive.tar"
        _git("archive", "--output", str(archive), found)
        subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
        archive.unlink()
        setup = str(folder / "appliance/engine/setup_environment.sh")
        arguments = [setup, sys.executable, str(folder / ".venv")]
        if subprocess.run(arguments, check=False).returncode:
            raise ContenderError(f"strongroom of {commit} cannot be installed; see above")
    return _strongroom_at(str(program), BEFORE, work_folder)


def _git(*words: str) -> str:
    top = str(CHECKOUT)
    answer = subprocess.run(["git", "-C", top, *words], capture_output=True, text=True, check=False)
    if answer.returncode:
        reason = answer.stderr.strip() or "there is no such commit"
        raise ContenderError(f"git {' '.join(words)}: {reason}")
    return answer.stdout.strip()


def _strongroom_at(program: str, name: str, work_folder: Path) -> Contender:

    def call(place: Place, command: str, *arguments: str) -> list[Command]:
        options = ["--repo", str(place.repository)]
        return [Command([program, command, *options, *arguments])]

    return Contender(
        name=name,
        version=_version(program, "version"),
        program=program,
        environment=_environment(work_folder, STRONGROOM_PASSWORD=PASSWORD),
        initialise=lambda place: call(place, "init"),
        # Its summary is read by the runner; without progress it does not count ahead.
        backup=lambda place: call(place, "backup", "--json", "-q", str(place.data)),
        # As the peers do: with set-id bits and devices.
        restore=lambda place: call(
            place, "restore", "latest", "--target", str(place.restored), "--keep-privileges"
        ),
        prune=lambda place: call(place, "forget", "--keep-last", "1", "--prune"),
        start_up=lambda place: {
            "help": [Command([program, "--help"])],
            "snapshots": call(place, "snapshots"),
        },
    )


def _restic(work_folder: Path) -> Contender:
    program = shutil.which("restic")
    if not program:
        raise ContenderError("restic is not installed; `apt-get install restic`")
    return _restic_at(program, work_folder)


def _restic_at(program: str, work_folder: Path) -> Contender:
    def call(place: Place, *arguments: str) -> list[Command]:
        return [Command([program, "--repo", str(place.repository), *arguments])]

    return Contender(
        name="restic",
        version=_version(program, "version"),
        program=program,
        environment=_environment(work_folder, RESTIC_PASSWORD=PASSWORD),
        initialise=lambda place: call(place, "init"),
        backup=lambda place: call(place, "backup", str(place.data)),
        restore=lambda place: call(place, "restore", "latest", "--target", str(place.restored)),
        prune=lambda place: call(place, "forget", "--keep-last", "1", "--prune"),
        start_up=lambda place: {
            "help": [Command([program, "--help"])],
            "snapshots": call(place, "snapshots"),
        },
    )


def _fetched_borg(work_folder: Path) -> Path:
    folder = work_folder / "peers/borg"
    program = folder / "bin/borg"
    if program.exists():
        return program
    try:
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "borgbackup<2"], check=True)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ContenderError(
            "borg was not built; `apt-get install python3-venv python3-dev gcc pkg-config "
            "libacl1-dev libssl-dev liblz4-dev libzstd-dev libxxhash-dev`"
        ) from error
    return program


def _borg_at(program: str, work_folder: Path) -> Contender:
    def create(place: Place) -> list[Command]:
        archive = f"{place.repository}::{place.archive}"
        return [Command([program, "create", archive, str(place.data)])]

    def prune(place: Place) -> list[Command]:
        return [
            Command([program, "prune", "--keep-last", "1", str(place.repository)]),
            Command([program, "compact", str(place.repository)]),
        ]

    def restore(place: Place) -> list[Command]:
        return [
            Command([program, "extract", f"{place.repository}::{place.archive}"], place.restored)
        ]

    return Contender(
        name="borg",
        version=_version(program, "--version"),
        program=program,
        environment=_environment(
            work_folder,
            BORG_PASSPHRASE=PASSWORD,
            BORG_BASE_DIR=str(work_folder / "home/borg"),
            BORG_RELOCATED_REPO_ACCESS_IS_OK="yes",
        ),
        initialise=lambda place: [
            Command([program, "init", "--encryption", "repokey-blake2", str(place.repository)])
        ],
        backup=create,
        restore=restore,
        prune=prune,
        start_up=lambda place: {
            "help": [Command([program, "--help"])],
            "snapshots": [Command([program, "list", str(place.repository)])],
        },
    )


def _fetched_rustic(work_folder: Path) -> Path:
    folder = work_folder / "peers/rustic"
    program = folder / "bin/rustic"
    if program.exists():
        return program
    cargo = shutil.which("cargo")
    if not cargo:
        raise ContenderError("rustic is built by cargo, which is not installed")
    command = [cargo, "install", "rustic-rs", "--locked", "--root", str(folder)]
    target = {"CARGO_TARGET_DIR": str(folder / "target")}
    if subprocess.run(command, env=os.environ | target, check=False).returncode:
        raise ContenderError("cargo could not build rustic-rs; its messages are above")
    shutil.rmtree(folder / "target", ignore_errors=True)
    return program


def _rustic_at(program: str, work_folder: Path) -> Contender:
    def call(place: Place, *arguments: str) -> list[Command]:
        return [Command([program, "--repository", str(place.repository), *arguments])]

    return Contender(
        name="rustic",
        version=_version(program, "--version"),
        program=program,
        environment=_environment(work_folder, RUSTIC_PASSWORD=PASSWORD),
        initialise=lambda place: call(place, "init"),
        backup=lambda place: call(place, "backup", str(place.data)),
        restore=lambda place: call(place, "restore", "latest", str(place.restored)),
        prune=lambda place: call(
            place, "forget", "--keep-last", "1", "--prune", "--instant-delete"
        ),
        start_up=lambda place: {
            "help": [Command([program, "--help"])],
            "snapshots": call(place, "snapshots"),
        },
    )


def _bacula(work_folder: Path) -> Contender:
    """It neither deduplicates nor encrypts. Start and end of its three daemons do not count."""
    programs = bacula.fetch(work_folder)

    def job(place: Place, step: str, *words: str) -> list[Command]:
        module = module_command("strongroom_bench.testbed.bacula_packages", step, str(programs))
        return [Command([*module, str(place.repository), str(place.data), *words])]

    return Contender(
        name="bacula",
        version=bacula.version(programs),
        program=str(programs),
        environment=_environment(work_folder),
        initialise=lambda _: [],
        backup=lambda place: job(place, "full" if place.archive == "first" else "incremental"),
        restore=lambda place: job(place, "restore", str(place.restored)),
        prune=lambda _: [],
        start_up=lambda _: {},
        times_itself=True,
    )


def _tar_at(program: str, work_folder: Path) -> Contender:
    """It writes everything anew each time, and is not a row: there it is a floor."""

    def shell(script: str, *paths: Path) -> list[Command]:
        return [Command(["bash", "-o", "pipefail", "-ec", script, "bash", *map(str, paths)])]

    def pack(place: Place) -> list[Command]:
        threads = len(os.sched_getaffinity(0))
        script = f'tar -C "$1" -cf - . | zstd -1 -T{threads} -q -f -o "$2/archive"'
        return shell(script, place.data, place.repository)

    return Contender(
        name="tar, zstd -1",
        version=_version(program, "--version"),
        program=program,
        environment=_environment(work_folder),
        initialise=lambda place: [Command(["mkdir", str(place.repository)])],
        backup=pack,
        restore=lambda place: shell(
            'zstd -dc "$2/archive" | tar -C "$1" -xpf -', place.restored, place.repository
        ),
        prune=lambda _: [],
        start_up=lambda _: {},
        is_incremental=False,
    )


CONTENDERS: dict[str, Callable[[Path], Contender]] = {
    "strongroom": _strongroom,
    "restic": _restic,
    "borg": lambda folder: _borg_at(str(_fetched_borg(folder)), folder),
    "rustic": lambda folder: _rustic_at(str(_fetched_rustic(folder)), folder),
    "bacula": _bacula,
}


def installed_peers(work_folder: Path) -> list[Contender]:
    """Those that are installed of tar with zstd, restic, rustic and borg; nothing is fetched."""
    found = {"tar": _tar_at, "restic": _restic_at, "rustic": _rustic_at, "borg": _borg_at}
    needed = {"tar": ("tar", "zstd", "bash")}
    return [
        make(str(shutil.which(name)), work_folder)
        for name, make in found.items()
        if all(map(shutil.which, needed.get(name, (name,))))
    ]
