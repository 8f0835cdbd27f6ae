"""A real Prometheus and a real node_exporter on loopback, of Debian's packages.

    with Monitoring(folder, targets) as monitoring:
        monitoring.query("up")

`director`: address, authority's certificate and token of a director that is scraped. node_exporter
collects the files in `textfiles`. `rules`: a file with rules that are evaluated every second.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from kit.daemon_process import PATIENCE_SECONDS, wait_for
from kit.ports import free_port

PROGRAMS = ("prometheus", "promtool", "prometheus-node-exporter")
# What the continuous integration installs (.ci/packages).
needs_prometheus = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)),
    reason="apt-get install prometheus prometheus-node-exporter",
)
_CONFIGURATION = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: {rules}
scrape_configs:
  - job_name: strongroom-director
    scheme: https
    static_configs: [{{targets: ["{director}"]}}]
    authorization: {{credentials_file: {token}}}
    tls_config: {{ca_file: {authority}}}
  - job_name: strongroom-node
    static_configs: [{{targets: ["127.0.0.1:{node_port}"]}}]
"""


class Monitoring:
    """See the module."""

    def __init__(
        self, folder: Path, director: str, authority: Path, token: Path, rules: Path | None = None
    ) -> None:
        self.folder = folder
        self.textfiles = folder / "textfiles"
        self.textfiles.mkdir(parents=True)
        self.port, self.node_port = free_port(), free_port()
        (folder / "prometheus.yml").write_text(
            _CONFIGURATION.format(
                director=director,
                token=token,
                authority=authority,
                node_port=self.node_port,
                rules=json.dumps([str(rules)] if rules is not None else []),
            )
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        self._api = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}/api/v1", timeout=PATIENCE_SECONDS
        )

    def __enter__(self) -> Self:
        self._start(
            "prometheus-node-exporter",
            f"--web.listen-address=127.0.0.1:{self.node_port}",
            f"--collector.textfile.directory={self.textfiles}",
        )
        self._start(
            "prometheus",
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        )
        try:
            wait_for(self._is_ready, lambda: self.log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self._end()
        print(self.log[-5000:])

    @property
    def log(self) -> str:
        """What both programs said."""
        return (self.folder / "log").read_text(errors="replace")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that a query gives now; it must be a valid one."""
        answer = self._api.post("/query", data={"query": expression})
        assert answer.status_code == 200, (expression, answer.text)
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    def label_values(self, label: str, selector: str) -> list[str]:
        """The values of a label."""
        answer = self._api.get(f"/label/{label}/values", params={"match[]": selector})
        assert answer.status_code == 200, (selector, answer.text)
        found: list[str] = answer.json()["data"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """All rules, as Prometheus loaded and judged them."""
        answer = self._api.get("/rules")
        assert answer.status_code == 200, answer.text
        return [one for group in answer.json()["data"]["groups"] for one in group["rules"]]

    def _is_ready(self) -> bool:
        assert all(process.poll() is None for process in self._processes), self.log
        try:
            return bool(self.query("up"))
        except (httpx.HTTPError, AssertionError):
            return False

    def _start(self, *words: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._processes.append(subprocess.Popen(words, stdout=log, stderr=log))

    def _end(self) -> None:
        self._api.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(PATIENCE_SECONDS)
