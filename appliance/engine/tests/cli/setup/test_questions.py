"""`strongroom setup appliance` on a terminal: what it asks, and what it makes of the answers.

It writes to the folders of the system, so it runs where these are an overlay that goes with it.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.descriptors import is_readable

PATIENCE_SECONDS = 300.0
OVERLAYS = """
set -e
mount -t tmpfs tmpfs "$1"
for name in etc var/lib root; do
    mkdir -p "$1/$name/upper" "$1/$name/work"
    folders="lowerdir=/$name,upperdir=$1/$name/upper,workdir=$1/$name/work"
    mount -t overlay overlay -o "$folders" "/$name"
done
rm -rf /etc/strongroom /var/lib/strongroom
echo strongroom:x:64001: >> /etc/group
for user in director storage; do
    echo "strongroom-$user:x:6400$((n += 1)):64001::/nonexistent:/bin/false" >> /etc/passwd
done
cd /
"""


class Dialogue:
    """A shell on its own terminal. `shown`: all that it showed."""

    def __init__(self, folder: Path, commands: str) -> None:
        self.shown = ""
        self.process, self._terminal = -1, -1
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
        words += [OVERLAYS + commands, "sh", str(folder), sys.executable]
        environment = {**os.environ, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        self.process, self._terminal = pty.fork()
        if not self.process:
            os.execvpe(words[0], words, environment)

    def expect(self, text: str) -> None:
        """Wait until it shows this, after what was expected before."""
        end = time.monotonic() + PATIENCE_SECONDS
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            if not self._read():
                raise AssertionError(f"no {text!r} in {self.shown!r}")
        self.shown = self.shown.partition(text)[2]

    def answer(self, text: str) -> None:
        """Type a line."""
        os.write(self._terminal, text.encode() + b"\n")

    def press(self, key: bytes) -> None:
        """Press a key."""
        os.write(self._terminal, key)

    def end(self) -> int:
        """Read all there is; gives the exit code."""
        while self._read():
            pass
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        if not is_readable(self._terminal, PATIENCE_SECONDS):
            raise AssertionError(f"nothing for minutes after {self.shown!r}")
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # its other end is closed
            return False
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def close(self) -> None:
        """End it, whatever it does."""
        os.close(self._terminal)
        if self.process > 0:
            os.kill(self.process, 9)
            os.waitpid(self.process, 0)


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[[str], Dialogue]]:
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", OVERLAYS, "sh"]
    probe = tmp_path / "probe"
    probe.mkdir()
    done = subprocess.run([*words, str(probe)], check=False, capture_output=True)
    if os.geteuid() or done.returncode:
        pytest.skip("mounting is not allowed here")
    made: list[Dialogue] = []

    def begin(commands: str) -> Dialogue:
        made.append(Dialogue(tmp_path, commands))
        return made[-1]

    yield begin
    for one in made:
        one.close()


SETUP = '"$2" -P -m strongroom setup appliance --no-start'


def test_it_asks_for_what_it_must_know_and_remembers_the_answers(
    ask: Callable[[str], Dialogue],
) -> None:
    dialogue = ask(f"{SETUP} && echo FIRST && {SETUP} && cat /etc/strongroom/appliance.toml")
    dialogue.expect("The name (or address) at which agents reach this machine. ")
    dialogue.answer("")
    dialogue.expect("this must be answered: a DNS name or an address")
    dialogue.answer("backup example")
    dialogue.expect("'backup example' will not do; write a DNS name or an address")
    dialogue.answer("  backup.example.org ")
    dialogue.expect("When backups begin, every day. [21:00] ")
    dialogue.answer("25:70")
    dialogue.expect("write a time such as 21:00")
    dialogue.answer("")
    dialogue.expect("s3://BUCKET/PREFIX. [/var/lib/strongroom/repository] ")
    dialogue.answer("/var/lib/strongroom/store")
    dialogue.expect("your answers are in /etc/strongroom/appliance.toml")
    dialogue.expect("https://backup.example.org:9101")
    dialogue.expect("FIRST")
    # The second time it asks nothing.
    dialogue.expect("everything is already set up as in these answers; nothing was changed")
    assert dialogue.end() == 0
    assert 'backup_time = "21:00"' in dialogue.shown
    assert 'repository = "/var/lib/strongroom/store"' in dialogue.shown


def test_who_does_not_answer_gets_nothing_made(ask: Callable[[str], Dialogue]) -> None:
    dialogue = ask(f"{SETUP} || echo CODE $? && ls -d /etc/strongroom /var/lib/strongroom")
    dialogue.expect("agents reach this machine. ")
    dialogue.answer("backup.example.org")
    dialogue.expect("every day. [21:00] ")
    dialogue.press(b"\x04")
    dialogue.expect("error [usage]: `backup_time` was not answered")
    dialogue.expect("CODE 2")
    assert dialogue.end() == 2
    assert dialogue.shown.count("No such file") == 2
