"""A client outside the appliance, and the playbooks that the administrator runs there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from life import INSIDE
from machine import PATIENCE_SECONDS, PROJECT

if TYPE_CHECKING:
    from pathlib import Path

    from life import Life

CLIENT = "db1"
NUMBER = 21
SUITE = "trixie"
PACKAGES = PROJECT / "build/packages/apt"
# What is backed up.
SOURCE = "/srv/data"


def inventory(key: Path) -> dict[str, Any]:
    """The appliance, as its administrator reaches it, and one client."""
    ports = [("director", 9101), ("storage daemon", 9103), ("packages", 9105)]
    return {
        "all": {
            "vars": {
                "ansible_ssh_private_key_file": str(key),
                "strongroom_engine_repository_key": str(PACKAGES / "strongroom.asc"),
            },
            "children": {
                "appliance": {
                    "hosts": {"vault": {"ansible_host": INSIDE, "ansible_user": "ann"}},
                    "vars": {
                        "strongroom_appliance_packages": str(PACKAGES),
                        "strongroom_appliance_repository": "/srv/strongroom/repository",
                        "strongroom_hardening_allow": [{"name": name, "port": port} for name, port in ports],
                    },
                },
                "agents": {
                    "hosts": {CLIENT: {"ansible_host": f"10.88.0.{NUMBER}", "ansible_user": "root"}},
                    "vars": {
                        "strongroom_agent_group": "servers",
                        "strongroom_files": [SOURCE],
                        "strongroom_exclude": [],
                        # This host's kernel may not have TLS; the appliance's is asked for it all the same.
                        "strongroom_ktls": "yes",
                    },
                },
            },
        }
    }


class Fleet:
    """An appliance that was set up, and a host beside it in a container; both in the network of the machine."""

    def __init__(self, life: Life, folder: Path) -> None:
        self.life = life
        self.folder = folder
        for name in ("key", "key.pub"):
            shutil.copy(life.key.with_name(name), folder / name)
        (folder / "inventory.json").write_text(json.dumps(inventory(folder / "key")))
        self.client = folder / CLIENT / "root"
        # Made here, where there is a way to Debian's packages.
        subprocess.run([PROJECT / "molecule/root.sh", SUITE], stdout=subprocess.DEVNULL, check=True)
        self._host("up", CLIENT, str(NUMBER), SUITE)

    def end(self) -> None:
        """The container ends."""
        self._host("down", CLIENT)

    def _host(self, *words: str) -> None:
        network = self.life.machine.network
        given = {**os.environ, "LABORATORY": str(self.folder), "LABORATORY_NETWORK": network}
        subprocess.run([*self.life.machine.outside(), PROJECT / "molecule/host.sh", *words], env=given, check=True)

    def play(self, name: str, **variables: str) -> str:
        """Run a playbook of the repository, as an administrator does; what it says."""
        settings = {
            "CONFIG": PROJECT / "ansible/ansible.cfg",
            "CACHE_PLUGIN_CONNECTION": self.folder / "facts",
            "SSH_CONTROL_PATH_DIR": self.folder / "cp",
            "HOME": self.folder / "ansible",
            "SSH_COMMON_ARGS": "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no",
            # An emulated machine takes its time to answer.
            "TIMEOUT": 300,
            "NOCOLOR": 1,
        }
        given = {**os.environ, **{f"ANSIBLE_{name}": str(value) for name, value in settings.items()}}
        given["PATH"] = f"{PROJECT}/.venv-ansible/bin:{given['PATH']}"
        more = [word for pair in variables.items() for word in ("--extra-vars", "=".join(pair))]
        done = subprocess.run(
            [
                *self.life.machine.outside(),
                "ansible-playbook",
                name,
                "--inventory",
                self.folder / "inventory.json",
                *more,
            ],
            cwd=PROJECT / "ansible",
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3 * PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def strongroom(self, words: str) -> list[dict[str, Any]]:
        """What a command says on the appliance, as objects."""
        return [json.loads(line) for line in self.life.does(f"HOME=/root strongroom --json {words}").splitlines()]

    def configure(self, job: str, text: str) -> None:
        """Add a job to the director."""
        file = f"/etc/strongroom/director.d/job/{job}.conf"
        self.life.does(f"cat > {file} <<'END'\n{text}END\nHOME=/root strongroom reload")

    def runs(self, words: str = "") -> list[dict[str, Any]]:
        """The runs of the client, the last one first."""
        return [one for one in self.strongroom(f"runs --client {CLIENT} {words}") if one.get("type") == "run"]

    def counters(self) -> dict[str, int]:
        """How often the kernel of the appliance took TLS over."""
        lines = self.life.does("cat /proc/net/tls_stat").splitlines()
        return {name: int(value) for name, value in map(str.split, lines)}

    def stored_bytes(self) -> int:
        """How much is in the packs of the repository."""
        return int(self.life.does("du --bytes --summarize /srv/strongroom/repository/packs").split()[0])
