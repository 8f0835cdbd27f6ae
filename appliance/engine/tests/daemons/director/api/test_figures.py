"""Names, types and labels of the director's figures: dashboards and alerts hang on them."""

from prometheus_client.parser import text_string_to_metric_families

# Name without `strongroom_`, type, and labels where this director has a sample.
FIGURES = """\
agent_clock_ahead_seconds gauge
agent_connected gauge client
agent_info gauge client maximum_concurrent_jobs tls_mode version workers
backup_bytes_read gauge
backup_bytes_stored gauge
backup_duration_seconds gauge
backup_errors gauge
backup_errors_total counter client job
backup_expected_interval_seconds gauge client job
backup_files gauge
backup_ktls_receive gauge
backup_ktls_send gauge
backup_last_restore_test_success gauge
backup_last_restore_test_timestamp_seconds gauge
backup_last_run_status gauge
backup_last_run_timestamp_seconds gauge
backup_last_success_timestamp_seconds gauge
backup_last_verify_success gauge
backup_last_verify_timestamp_seconds gauge
director_active_runs gauge state
director_agent_connections gauge
director_handshakes gauge
director_refused_handshakes_total counter
director_retention_held gauge
director_run_bytes gauge
expiry_timestamp_seconds gauge kind name id client storage
incidents gauge
notices_dead gauge
notices_failed_total counter
notices_sent_total counter
notices_waiting gauge
last_restore_success gauge
last_restore_timestamp_seconds gauge
repository_dedup_ratio gauge
repository_snapshot_bytes gauge storage
repository_stored_bytes gauge
runs gauge
snapshots gauge client
snapshots_stored_bytes gauge client
"""


def test_figures_keep_their_names_types_and_labels(director):
    with director.client("admin") as api:
        answer = api.get(director.url + "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {
        metric.name + ("_total" if metric.type == "counter" else ""): metric
        for metric in text_string_to_metric_families(answer.text)
    }
    wanted = {f"strongroom_{line.split()[0]}": line.split()[1:] for line in FIGURES.splitlines()}
    assert found.keys() == wanted.keys()
    for name, (kind, *labels) in wanted.items():
        assert found[name].type == kind
        if labels:
            assert {frozenset(sample.labels) for sample in found[name].samples} == {
                frozenset(labels)
            }
