"""An appliance on loopback: storage daemon, director, and an operator with all permissions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from strongroom.cli.measure.testbed.daemons import Daemon, free_ports
from strongroom.cli.measure.testbed.local import STRONGROOM
from strongroom.cli.measure.testbed.vault import Vault
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import OWN_HEADERS

PATIENCE_SECONDS = 600.0
_DIRECTOR = """
Director {{ Name = boss; Password = x; Messages = standard; Address = 127.0.0.1; Port = {port}
  Working Directory = "{folder}/work"
  Identity Directory = "{folder}/boss"
  Authority Directory = "{folder}/ca"
  Appliance Key File = "{folder}/appliance.key"
  Maximum Concurrent Jobs = {at_once} }}
Messages {{ Name = standard; Console = all }}
Catalog {{ Name = main; Db Name = main; Db User = x; Db Password = x }}
Storage {{ Name = vault; Address = 127.0.0.1; Port = {storage_port}; Password = x; Device = disk
  Media Type = File; Maximum Concurrent Jobs = {at_once}
  Repository = "unix:{socket}"; Passphrase File = "{folder}/passphrase" }}
Pool {{ Name = pool; Pool Type = Backup }}
JobDefs {{ Name = usual; Type = Backup; Level = Full; Messages = standard; Storage = vault
  Pool = pool{schedule} }}
Profile {{ Name = everything; Command ACL = *all*; Job ACL = *all*; Client ACL = *all*
  Storage ACL = *all*; Schedule ACL = *all*; Pool ACL = *all*; FileSet ACL = *all*
  Where ACL = *all* }}
Console {{ Name = admin; Password = x; Profile = everything }}
"""
_CLIENT = """
Client {{ Name = {name}; Address = {name}; Password = x }}
FileSet {{ Name = {name}; Include {{ File = "{data}" }} }}
Job {{ Name = {name}; Job Defs = usual; Client = {name}; FileSet = {name} }}
"""


class Appliance:
    """Runs within its `with` block; each client has a job and a FileSet of its name."""

    def __init__(
        self,
        folder: Path,
        clients: Mapping[str, Path],
        at_once: int,
        *,
        more: str = "",
        schedule: str = "",
        before: Callable[[Vault], None] | None = None,
    ) -> None:
        """`clients`: name -> what its job backs up. `at_once`: jobs.

        more: configuration. schedule: the name of a Schedule there, for every job. before: done
        when the storage daemon is up, before the director is started.
        """
        self.vault = Vault(folder)
        self.folder = folder
        (folder / "work").mkdir()
        self.authority = self.vault.authority
        hosts = ["localhost", "127.0.0.1"]
        self.authority.issue_identity(str(folder / "boss"), "boss", "director", hosts)
        operator = self.authority.issue_identity(str(folder / "admin"), "admin", "operator")
        (self.port,) = free_ports(1)
        fields: dict[str, Any] = {
            "folder": folder,
            "socket": self.vault.socket,
            "port": self.port,
            "at_once": at_once,
        }
        fields["schedule"] = f"; Schedule = {schedule}" if schedule else ""
        text = _DIRECTOR.format(**fields, storage_port=self.vault.port) + more
        text += "".join(_CLIENT.format(name=name, data=data) for name, data in clients.items())
        self._configuration = folder / "director.conf"
        self._configuration.write_text(text)
        self._context = client_context(operator)
        self._stack = ExitStack()
        self._before = before

    def __enter__(self) -> Self:
        import httpx

        try:
            self._stack.enter_context(self.vault)
            key = str(self.folder / "appliance.key")
            self.vault.maintain("key", "export-appliance", key)
            if self._before is not None:
                self._before(self.vault)
            self.director = self._stack.enter_context(
                Daemon(
                    [*STRONGROOM, "director", "--config", str(self._configuration)],
                    self.vault.environment,
                    self.folder / "director.log",
                )
            )
            self.director.await_port(self.port)
            self.api = self._stack.enter_context(
                httpx.Client(
                    base_url=f"https://localhost:{self.port}/api/v1",
                    headers=OWN_HEADERS,
                    verify=self._context,
                    timeout=60.0,
                )
            )
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def all_of(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """All items of a listing that comes in pages."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            answer = self.api.get(path, params={"limit": 1000, "after": after, **query})
            answer.raise_for_status()
            page = answer.json()
            found += page["items"]
            if page["next"] is None:
                return found
            after = page["next"]

    def await_connected(self, count: int, agents: Sequence[Daemon] = ()) -> float:
        """Wait until so many agents are connected; seconds it took. Raises TimeoutError."""
        begin = time.monotonic()
        while time.monotonic() - begin < PATIENCE_SECONDS:
            connected = sum(bool(client["connected"]) for client in self.all_of("/clients"))
            if connected >= count:
                return time.monotonic() - begin
            for agent in agents:
                agent.require_alive()
            self.director.require_alive()
            time.sleep(1.0)
        raise TimeoutError(f"not {count} agents connected in {PATIENCE_SECONDS:.0f} s")
