"""A user with a repository, who types commands: every test of backup runs the real program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.json_output import objects_of
from kit.prepared_commands import run_command
from kit.tiny_backup import new_repository
from kit.tree_compare import compare_trees
from strongroom.engine.stores.local import LocalStore

PASSPHRASE = "correct horse"
TIMEOUT_SECONDS = 120


@dataclass
class Outcome:
    """What a command left behind: exit code, the JSON objects it wrote, its messages."""

    code: int
    objects: list[dict[str, Any]]
    messages: str

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.objects if item.get("type") == kind]

    @property
    def summary(self) -> dict[str, Any]:
        (summary,) = self.of_type("summary")
        return summary

    @property
    def problems(self) -> dict[str, str]:
        """Path -> what is wrong with it, of the problems that count."""
        return {
            item["path"]: item["message"]
            for item in self.of_type("problem")
            if not item["harmless"]
        }

    @property
    def vanished(self) -> set[str]:
        return {item["path"] for item in self.of_type("problem") if item["harmless"]}

    @property
    def warnings(self) -> list[str]:
        return [item["message"] for item in self.of_type("warning")]

    @property
    def error(self) -> str:
        """The id of the error it ended with; "" without."""
        for line in reversed(self.messages.splitlines()):
            if line.startswith('{"type":"error"'):
                return str(json.loads(line)["id"])
        return ""


@dataclass
class User:
    """Somebody with a home, a repository and a passphrase in `folder`."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    credentials: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    restored: int = 0

    def __post_init__(self) -> None:
        kept = {key: value for key, value in os.environ.items() if "STRONGROOM" not in key}
        kept.pop("XDG_CACHE_HOME", None)
        self.environment = {
            **kept,
            "HOME": str(self.folder / "home"),
            "LC_ALL": "C.UTF-8",
            "STRONGROOM_REPOSITORY": str(self.repository),
            **({} if self.credentials else {"STRONGROOM_PASSWORD": PASSPHRASE}),
            **self.environment,
        }

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def packs(self) -> list[Path]:
        return sorted(path for path in (self.repository / "packs").rglob("*") if path.is_file())

    def command(self, *words: str | bytes | Path) -> list[str | bytes]:
        plain = [word if isinstance(word, bytes) else str(word) for word in words]
        return [
            *self.prefix,
            sys.executable,
            "-m",
            "strongroom",
            "--json",
            *self.credentials,
            *plain,
        ]

    def start(self, *words: str | bytes | Path, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            self.command(*words),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            **options,
        )

    def run(self, *words: str | bytes | Path, data: bytes | None = None) -> Outcome:
        """Run a command to its end; `data` is its standard input."""
        if data is not None:
            return self.end(self.start(*words, stdin=subprocess.PIPE), data)
        if self.prefix:
            return self.end(self.start(*words))
        plain = ["--json", *self.credentials, *(os.fsdecode(word) for word in words)]
        return _outcome(run_command(plain, self.environment, self.folder))

    def end(self, process: subprocess.Popen[bytes], data: bytes | None = None) -> Outcome:
        """Wait for a command that was started."""
        output, messages = process.communicate(data, timeout=TIMEOUT_SECONDS)
        ended = subprocess.CompletedProcess((), process.returncode, output, messages)
        return _outcome(ended)

    def make_repository(self) -> None:
        """Make an empty repository; its passphrase costs next to nothing."""
        new_repository(LocalStore(str(self.repository)), PASSPHRASE.encode()).close()

    def backup(
        self, *words: str | bytes | Path, code: int = 0, data: bytes | None = None
    ) -> Outcome:
        """Back up; the exit code must be `code`."""
        outcome = self.run("backup", *words, data=data)
        assert outcome.code == code, (outcome.messages, outcome.objects)
        return outcome

    def restore(self, snapshot: str = "latest", code: int | None = 0, *words: str) -> Path:
        """The snapshot, restored and verified in a new folder, with exit code `code` or 0 or 3."""
        self.restored += 1
        target = self.folder / f"restored-{self.restored}"
        outcome = self.run("restore", snapshot, "--target", target, "--verify", *words)
        assert outcome.code in ((0, 3) if code is None else (code,)), (
            outcome.messages,
            outcome.objects,
        )
        return target

    def listed(
        self, snapshot: str = "latest", below: Path | str = "/"
    ) -> dict[str, dict[str, Any]]:
        """Path relative to `below` -> what `ls` says."""
        outcome = self.run("ls", snapshot, below, "-R")
        assert outcome.code == 0, outcome.messages
        start = len(str(below).rstrip("/")) + 1
        return {
            item["path"][start:]: item
            for item in outcome.of_type("entry")
            if str(below) != item["path"]
        }

    def names(self, below: Path | str, snapshot: str = "latest") -> set[str]:
        """Paths in a snapshot below a folder, relative to it."""
        return set(self.listed(snapshot, below))

    def snapshots(self) -> list[dict[str, Any]]:
        outcome = self.run("snapshots")
        assert outcome.code == 0, outcome.messages
        return outcome.of_type("snapshot")

    def assert_restores(self, source: Path, snapshot: str = "latest") -> None:
        """What the snapshot holds of `source` is `source`, attribute by attribute."""
        target = self.restore(snapshot, 0, "--keep-privileges")
        restored = target / str(source).lstrip("/")
        assert compare_trees(os.fsencode(source), os.fsencode(restored)) == []


def _outcome(ended: subprocess.CompletedProcess[bytes]) -> Outcome:
    return Outcome(
        ended.returncode, objects_of(ended.stdout), ended.stderr.decode("utf-8", "replace")
    )


def stored_objects(repository: Path) -> dict[str, bytes]:
    """Every object of a repository, but for leases and what is being written."""
    return {
        str(path.relative_to(repository)): path.read_bytes()
        for path in sorted(repository.rglob("*"))
        if path.is_file() and "leases" not in path.parts and path.name != "reserve"
    }


def processes_of(group: int) -> list[int]:
    """Processes of a process group that still run (no zombies)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(name))
    return found


def children_of(process_id: int) -> list[int]:
    """Processes that a process has started, in order."""
    text = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
    return sorted(map(int, text.split()))
