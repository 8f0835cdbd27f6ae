"""Names, types and labels of the director's metrics: dashboards and alerts hang on them."""

from prometheus_client.parser import text_string_to_metric_families

from strongroom.service.metric_table.director import SECTIONS

WANTED = {one.name: one for metrics in SECTIONS.values() for one in metrics}
# Of these this director has samples, so their labels are seen as well.
SEEN = {"agent_info", "agent_ktls_wanted", "backup_errors_total", "expiry_timestamp_seconds"}


def test_metrics_are_those_of_the_table(director):
    with director.client("admin") as api:
        answer = api.get(director.url + "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {
        metric.name + ("_total" if metric.type == "counter" else ""): metric
        for metric in text_string_to_metric_families(answer.text)
    }
    assert found.keys() == WANTED.keys()
    seen = set()
    for name, metric in found.items():
        assert metric.type == WANTED[name].kind
        for sample in metric.samples:
            assert set(sample.labels) == set(WANTED[name].labels)
            seen.add(name.removeprefix("strongroom_"))
    assert seen >= SEEN
