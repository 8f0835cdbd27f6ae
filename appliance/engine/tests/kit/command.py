"""The real command, run in their own processes on a repository of a test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.json_output import objects_of
from kit.prepared_commands import run_for_text
from kit.tiny_backup import new_repository
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.stores.local import LocalStore

PASSPHRASE = "open sesame"


@dataclass
class Command:
    """`strongroom` with its own home; opens `repository` with the key file once it is made."""

    folder: Path
    repository: Path = field(init=False)
    passphrase_file: Path = field(init=False)
    restore_key: Path = field(init=False)
    put_key: Path = field(init=False)

    def __post_init__(self) -> None:
        self.repository = self.folder / "repository"
        self.passphrase_file = self.folder / "passphrase"
        self.restore_key = self.folder / "restore.key"
        self.put_key = self.folder / "put.key"
        self.passphrase_file.write_text(PASSPHRASE + "\n")
        self.passphrase_file.chmod(0o600)

    @property
    def environment(self) -> dict[str, str]:
        """A user's environment without any setting of ours but the repository."""
        kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
        kept.pop("XDG_CACHE_HOME", None)
        return {
            **kept,
            "HOME": str(self.folder / "home"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "STRONGROOM_REPOSITORY": str(self.repository),
        }

    def make_repository(self) -> None:
        """Make the repository, with a passphrase that costs nothing, and its two keys as files."""
        store = LocalStore(str(self.repository))
        with closing(new_repository(store, PASSPHRASE.encode())) as repository:
            self.restore_key.write_text(export_key(repository.restore_key))
            self.put_key.write_text(export_key(repository.key.put_key(socket.gethostname())))
        for file in (self.restore_key, self.put_key):
            file.chmod(0o600)

    def words(self, *words: str, key_file: Path | None = None) -> list[str]:
        """The command line."""
        line = [sys.executable, "-m", "strongroom", *words]
        return line if key_file is None else [*line, "--key-file", str(key_file)]

    def run(
        self, *words: str, exit_code: int = 0, key_file: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it; the exit code must be the one that is expected."""
        line = self.words(*words, key_file=key_file)
        ended = run_for_text(line[3:], {**self.environment, **environment})
        assert ended.returncode == exit_code, (words, ended.returncode, ended.stderr)
        return ended

    def __call__(self, *words: str, exit_code: int = 0) -> list[str]:
        """The lines it prints, opened with the restore key."""
        answer = self.run(*words, exit_code=exit_code, key_file=self.restore_key)
        return answer.stdout.splitlines()

    def objects(self, *words: str) -> list[dict[str, Any]]:
        """The objects it prints with --json, opened with the restore key."""
        return objects_of("\n".join(self(*words, "--json")))

    def back_up(self, *words: str) -> str:
        """Make a snapshot; its whole id."""
        summary = self.objects("backup", *words)[-1]
        return str(summary["snapshot"])

    def stored_objects(self) -> dict[str, tuple[int, int]]:
        """Inode and size of every object of the repository."""
        return {
            str(path.relative_to(self.repository)): (path.stat().st_ino, path.stat().st_size)
            for path in self.repository.rglob("*")
            if path.is_file() and path.name != "reserve"
        }
