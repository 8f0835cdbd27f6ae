"""A house of daemons with a real Prometheus and a real node_exporter that watch it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.house_of_daemons import HouseOfDaemons
from kit.prometheus_server import Monitoring
from monitoring.rules import RULES

MORE = """
Schedule { Name = daily; Run = Full daily at 3:00; }
Schedule { Name = tests; Run = daily at 4:00; }
Job { Name = broken; Job Defs = usual; Client = web2; FileSet = nothing }
FileSet { Name = nothing; Include { File = "/nowhere/at/all" } }
Job { Name = test-web1; Type = Verify; Level = Data; Job Defs = usual; Client = web1
  FileSet = all-web1; Job To Verify = nightly-web1; Schedule = tests }
Profile { Name = monitoring; Command ACL = metrics; Job ACL = *all*; Client ACL = *all*
  Storage ACL = *all* }
"""


class House:
    """A house of daemons that is watched."""

    def __init__(self, house: HouseOfDaemons, monitoring: Monitoring) -> None:
        self.house = house
        self.monitoring = monitoring

    def write_storage_metrics(self) -> str:
        """Do what the timer of the role does."""
        path = self.monitoring.textfiles / "strongroom-storage.prom"
        configuration = str(self.house.storage.configuration)
        words = ("--config", configuration, "--output", str(path))
        self.house.command("storage", "--metrics", *words)
        return path.read_text()

    def is_running(self) -> bool:
        """Whether the slow backup is under way; it is started otherwise."""
        active = self.house.get("/runs", state="running")["items"]
        if not active:
            self.house.write_files("web1", {"slow": random.randbytes(2_000_000)})
            self.house.begin_run("nightly-web1")
        return bool(active)


@contextmanager
def watched_house(folder: Path) -> Iterator[House]:
    """One in which a backup, a restore, a prune and a restore test went well, and a job failed."""
    textfiles = folder / "monitoring" / "textfiles"
    with HouseOfDaemons(
        folder,
        ("web1", "web2"),
        job_further="Schedule = daily",
        client_further="Maximum Bandwidth Per Job = 200 kb/s",
        agent_further=f'Metrics File = "{textfiles}/strongroom-agent.prom"',
        schedules=MORE,
    ) as house:
        house.write_files("web1", {f"{number}": bytes([number]) * 40_000 for number in range(9)})
        for job in ("nightly-web1", "housekeeping-web1", "test-web1"):
            assert house.run(job)["state"] == "done"
        newest = house.get("/snapshots", client="web1")["items"][0]["id"]
        assert house.restore(newest, folder / "back", "web1")["state"] == "done"
        assert house.run("broken")["state"] == "failed"
        # Its repository is checked when it starts.
        assert house.director.stop() == 0
        house.start_director()
        house.await_connected("web1")
        token = folder / "token"
        house.console("token", "create", "prometheus", "--profile", "monitoring", "-o", str(token))
        with Monitoring(
            folder / "monitoring",
            f"127.0.0.1:{house.director_port}",
            folder / "admin" / "authority.pem",
            token,
            RULES,
        ) as monitoring:
            yield House(house, monitoring)
