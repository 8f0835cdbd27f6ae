"""Secrets are in the files made for them, and neither in logs nor in what `ps` shows."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from kit import prepared_commands
from kit.house_of_daemons import PASSPHRASE, HouseOfDaemons

# Where secrets are meant to be, and only their owner may look.
_HOMES = (
    "passphrase",
    "restore.key",
    "appliance.key",
    "*.token",
    "*/key.pem",
    "*/identity/key.pem",
    "*/identity/put-keys/*.key",
    "ca/*key*",
)


class Watcher:
    """Looks again and again at the command lines and environments of all processes of ours."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(0.02):
            for process in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    command = Path("/proc", process, "cmdline").read_bytes()
                    if b"strongroom" in command and b"pytest" not in command:
                        self.seen.add(command)
                        self.seen.add(Path("/proc", process, "environ").read_bytes())


def secrets_of(house: HouseOfDaemons, *more: str) -> dict[str, bytes]:
    """Name -> what must not be found: the middle of a key is as good as all of it."""
    found = {"passphrase": PASSPHRASE.encode()}
    for pattern in _HOMES[1:]:
        for path in house.folder.glob(pattern):
            for number, line in enumerate(path.read_bytes().split(b"\n")):
                if len(line) > 30 and not line.startswith(b"-----"):
                    found[f"{path.relative_to(house.folder)}:{number}"] = line.strip()
    found |= {f"more {number}": text.encode() for number, text in enumerate(more)}
    return found


def test_no_secret_is_in_a_log_a_command_line_or_an_environment(folder, monkeypatch):
    # A daemon that is forked has the command line and environment of its server.
    monkeypatch.setattr(prepared_commands, "LOCALE", "none is prepared")
    watcher = Watcher()
    with watcher.watching(), HouseOfDaemons(folder, ("web1", "web2")) as house:
        house.write_files("web1", {"a": b"content" * 1000})
        run = house.run("nightly-web1")
        target = folder / "restored"
        run_id = house.post(
            "/restores", {"snapshot": run["snapshot"], "target": str(target), "client": "web2"}
        )["id"]
        assert house.ended(run_id)["state"] == "done"
        api_token = house.post("/tokens", {"name": "ann"})["text"]
        house.api().get("/status", headers={"authorization": f"Bearer {api_token}"})
        # What is refused is not told to the log either.
        house.api().get("/status", headers={"authorization": "Bearer wrong-token-9c2d7e55aa"})
        house.console("token", "create", "ann", "--output", str(folder / "console.token"))
        house.maintain("check")
        secrets = secrets_of(house, api_token, "wrong-token-9c2d7e55aa")
        logs = "".join(daemon.log for daemon in house.daemons)
        logs += "".join(house.log(one["id"]) for one in house.get("/runs")["items"])
        logs += str(house.get("/audit")) + str(house.get("/config"))
    assert len(watcher.seen) > 10
    told = logs.encode() + b"\n".join(watcher.seen)
    assert [name for name, secret in secrets.items() if secret in told] == []
    # No ticket or grant either: they are long, and nothing else in a log is.
    assert re.findall(r"[A-Za-z0-9+/_=-]{200,}", logs) == []
    homes = {path for pattern in _HOMES for path in folder.glob(pattern)}
    assert len(homes) >= 10
    for path in homes:
        assert path.stat().st_mode & 0o077 == 0, path
    encoded = {name: base64.b64encode(secret) for name, secret in secrets.items()}
    for path in folder.rglob("*"):
        if path.is_file() and path not in homes:
            data = path.read_bytes()
            assert [name for name in secrets if secrets[name] in data] == [], path
            assert [name for name in encoded if encoded[name] in data] == [], path
