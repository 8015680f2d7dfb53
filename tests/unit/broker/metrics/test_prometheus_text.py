"""The text formats of metrics, and the choice between them."""

from __future__ import annotations

import pytest

from ottla.broker.metrics.declaration import Distribution, MetricKind, MetricRows, metric
from ottla.broker.metrics.prometheus_text import OPENMETRICS, TEXT, negotiate, render

BYTES_IN = metric(
    "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic={topic}", MetricKind.COUNTER, "Bytes, all of them."
)
SIZE = metric("kafka.log:type=Log,name=Size,topic={topic},partition={partition}", MetricKind.GAUGE, "A size.")
TOTAL = metric("kafka.network:type=RequestMetrics,name=TotalTimeMs,request={request}", MetricKind.SUMMARY, "A time.")
STAGE = metric("ottla_stage_seconds{stage}", MetricKind.HISTOGRAM, "A stage.")


@pytest.mark.parametrize(
    ("bean", "kind", "name", "labels"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic={topic}",
            MetricKind.COUNTER,
            "kafka_server_brokertopicmetrics_bytesin_total",
            ("topic",),
        ),
        (
            "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
            MetricKind.GAUGE,
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            (),
        ),
        (
            "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
            MetricKind.GAUGE,
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
            (),
        ),
        (
            "kafka.network:type=RequestMetrics,name=RequestsPerSec,request={request},version={version}",
            MetricKind.COUNTER,
            "kafka_network_requestmetrics_requests_total",
            ("request", "version"),
        ),
        ("kafka_consumergroup_lag{consumergroup,topic}", MetricKind.GAUGE, "kafka_consumergroup_lag", ("consumergroup", "topic")),
        ("ottla_up", MetricKind.GAUGE, "ottla_up", ()),
    ],
)
def test_a_metric_is_exported_under_the_name_that_the_jmx_exporter_gives_to_its_mbean(
    bean: str, kind: MetricKind, name: str, labels: tuple[str, ...]
) -> None:
    found = metric(bean, kind, "")
    assert (found.name, found.labels) == (name, labels)


def samples() -> MetricRows:
    found = MetricRows()
    found.put(BYTES_IN, 7)
    found.put(BYTES_IN, 5, 'a"b\\c\nd')
    found.put(SIZE, 1.5, "t", "0")
    distribution = Distribution([(0.001, 1), (0.002, 3), (float("inf"), 4)], 0.25, [(0.5, 0.0015), (0.99, 2.0)])
    found.put(TOTAL, distribution, "Fetch")
    found.put(STAGE, distribution, "local")
    return found


PLAIN = """\
# HELP kafka_server_brokertopicmetrics_bytesin_total Bytes, all of them.
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total 7
kafka_server_brokertopicmetrics_bytesin_total{topic="a\\"b\\\\c\\nd"} 5
# HELP kafka_log_log_size A size.
# TYPE kafka_log_log_size gauge
kafka_log_log_size{topic="t",partition="0"} 1.5
# HELP kafka_network_requestmetrics_totaltimems A time.
# TYPE kafka_network_requestmetrics_totaltimems summary
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.5"} 1.5
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 2000
kafka_network_requestmetrics_totaltimems_sum{request="Fetch"} 250
kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 4
# HELP ottla_stage_seconds A stage.
# TYPE ottla_stage_seconds histogram
ottla_stage_seconds_bucket{stage="local",le="0.001"} 1
ottla_stage_seconds_bucket{stage="local",le="0.002"} 3
ottla_stage_seconds_bucket{stage="local",le="+Inf"} 4
ottla_stage_seconds_sum{stage="local"} 0.25
ottla_stage_seconds_count{stage="local"} 4
"""


def test_the_text_of_prometheus_has_each_kind_of_metric() -> None:
    assert "".join(render(samples(), TEXT)) == PLAIN


def test_openmetrics_names_the_families_of_counters_without_their_ending_and_has_an_end() -> None:
    counter = "kafka_server_brokertopicmetrics_bytesin"
    wanted = PLAIN.replace(f"# HELP {counter}_total", f"# HELP {counter}").replace(f"# TYPE {counter}_total", f"# TYPE {counter}")
    assert "".join(render(samples(), OPENMETRICS)) == wanted + "# EOF\n"


def test_both_formats_are_read_by_the_parsers_of_prometheus() -> None:
    plain = pytest.importorskip("prometheus_client.parser")
    openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
    for parser, content_type in ((plain, TEXT), (openmetrics, OPENMETRICS)):
        families = {each.name: each for each in parser.text_string_to_metric_families("".join(render(samples(), content_type)))}
        (total, one) = families["kafka_server_brokertopicmetrics_bytesin"].samples
        assert (total.value, one.labels, one.value) == (7, {"topic": 'a"b\\c\nd'}, 5)
        assert families["ottla_stage_seconds"].type == "histogram"
        assert families["kafka_network_requestmetrics_totaltimems"].type == "summary"


def test_many_rows_are_rendered_in_pieces() -> None:
    found = MetricRows()
    for number in range(1000):
        found.put(SIZE, number, "t", str(number))
    pieces = list(render(found, TEXT))
    assert len(pieces) > 4
    assert max(piece.count("\n") for piece in pieces) <= 200


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        ("text/html,application/xhtml+xml;q=0.9", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            OPENMETRICS,
        ),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.7", TEXT),
        ("application/openmetrics-text;q=nonsense", OPENMETRICS),
        ("application/openmetrics-text;q=0", TEXT),
        (";;;,,,=", TEXT),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(accept: str, wanted: str) -> None:
    assert negotiate(accept) == wanted
