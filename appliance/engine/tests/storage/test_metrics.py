"""Figures that alerts hang on: refused deletes, and TLS in the kernel."""

import contextlib
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kit.tiny_backup import back_up
from strongroom.base.errors import RightError
from strongroom.net.channels import ktls

STATISTICS = """\
TlsCurrTxSw                     \t2
TlsCurrRxSw                     \t1
TlsCurrTxDevice                 \t1
TlsCurrRxDevice                 \t0
TlsTxSw                         \t40
TlsRxSw                         \t30
TlsTxDevice                     \t2
TlsRxDevice                     \t0
TlsDecryptError                 \t3
"""


def figures(daemon) -> dict[str, float]:
    lines = daemon.server.serving.metrics_text().decode().splitlines()
    return {
        name.removeprefix("strongroom_storage_"): float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    }


def test_refused_deletes_are_counted_from_zero_on(daemon, open_as):
    refused = 'refused_deletes_total{role="agent"}'
    assert figures(daemon)[refused] == 0
    agent = daemon.agent("web1")
    snapshot = back_up(open_as(agent), {b"one": b"first"})
    thief = daemon.agent("web2")
    thief.put_new("leases", "1" * 32, daemon.object_of("web2", b"mine"))
    thief.delete("leases", "1" * 32)
    assert figures(daemon)[refused] == 0
    with pytest.raises(RightError):
        thief.delete("snapshots", snapshot.id)
    assert figures(daemon)[refused] == 1
    assert figures(daemon)['refused_deletes_total{role="local"}'] == 0


def test_what_the_kernel_counts_of_its_tls_is_shown(daemon, monkeypatch, tmp_path):
    statistics = tmp_path / "tls_stat"
    monkeypatch.setattr(ktls, "COUNTERS_FILE", str(statistics))
    assert not [name for name in figures(daemon) if name.startswith("kernel_tls")]
    statistics.write_text(STATISTICS)
    found = figures(daemon)
    assert found['kernel_tls_opened_total{direction="send"}'] == 42
    assert found['kernel_tls_opened_total{direction="receive"}'] == 30
    assert found['kernel_tls_open{direction="send"}'] == 3
    assert found['kernel_tls_open{direction="receive"}'] == 1
    assert found["kernel_tls_errors_total"] == 3
    assert ktls.read_counters() == (42, 30)
    # Kernels that count less, or say what no one understands, prove nothing.
    for text in (STATISTICS.replace("TlsTxSw", "Other"), "TlsTxSw many\n"):
        statistics.write_text(text)
        assert ktls.read_counters() is None


def test_every_figure_has_its_kind_and_its_meaning(daemon, open_as):
    with contextlib.suppress(RightError):
        daemon.agent("web1").delete("packs", "0" * 64)
    text = daemon.server.serving.metrics_text().decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        assert (kind == "counter") == name.endswith("_total")
        assert f"# HELP {name} " in text


# Name without `strongroom_storage_`, type, and labels.
FIGURES = """\
connections_total counter mode role
handshakes gauge
connections gauge role
uploads gauge
requests_total counter type
failures_total counter error
refused_deletes_total counter role
received_bytes_total counter
sent_bytes_total counter
objects gauge owner repository
stored_bytes gauge owner repository
unverified_objects gauge kind repository
false_objects gauge kind repository
clock_ahead_seconds gauge repository
restart_needed gauge
free_bytes gauge repository
size_bytes gauge repository
"""


def test_figures_keep_their_names_types_and_labels(daemon, open_as):
    agent = daemon.agent("web1")
    back_up(open_as(agent), {b"one": b"first"})
    with pytest.raises(RightError):
        agent.delete("snapshots", "1" * 64)
    found = {}
    for metric in text_string_to_metric_families(daemon.server.serving.metrics_text().decode()):
        name = metric.name + ("_total" if metric.type == "counter" else "")
        (labels,) = {tuple(sorted(sample.labels)) for sample in metric.samples}
        found[name.removeprefix("strongroom_storage_")] = [metric.type, *labels]
    wanted = {line.split()[0]: line.split()[1:] for line in FIGURES.splitlines()}
    # What the kernel does of TLS is there where it does any.
    assert {name: one for name, one in found.items() if "kernel" not in name} == wanted
