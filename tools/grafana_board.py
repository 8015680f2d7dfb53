"""Write deploy/grafana/ottla.json, a Grafana board of Ottla's metrics. `make docs` runs it as `python -m tools.grafana_board`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BOARD = Path(__file__).parents[1] / "deploy" / "grafana" / "ottla.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, COLUMNS = 24, 3
HEIGHT = 8
HERE = 'instance=~"$instance"'
OF_TOPIC = f'{HERE},topic=~"$topic",topic!=""'
OF_GROUP = f'{HERE},consumergroup=~"$group"'
OF_API = f'{HERE},request=~"$request"'


class Panel(NamedTuple):
    """One diagram: its title, its unit in Grafana's words, and expressions with their legends."""

    title: str
    unit: str
    targets: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    explanation: str = ""


def _rate(metric: str, labels: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def _topics(name: str) -> tuple[tuple[str, str], ...]:
    return ((_rate(f"kafka_server_brokertopicmetrics_{name}_total", OF_TOPIC, "topic"), "{{topic}}"),)


def _sum(metric: str) -> tuple[tuple[str, str], ...]:
    return ((f"sum({metric}{{{HERE}}})", ""),)


def _stage(stage: str, quantile: float = 0.99) -> tuple[tuple[str, str], ...]:
    rate = _rate("ottla_request_stage_seconds_bucket", f'{OF_API},stage="{stage}"', "le, request")
    return ((f"histogram_quantile({quantile}, {rate})", "{{request}}"),)


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Health",
        (
            Panel("Brokers", "short", (("count(ottla_build_info)", ""),), "stat"),
            Panel("Controllers", "short", _sum("kafka_controller_kafkacontroller_activecontrollercount"), "stat", "Must be 1."),
            Panel(
                "Offline partitions", "short", _sum("kafka_controller_kafkacontroller_offlinepartitionscount"), "stat", "Must be 0."
            ),
            Panel("Offline replicas", "short", _sum("kafka_server_replicamanager_offlinereplicacount"), "stat", "Must be 0."),
            Panel(
                "Under-replicated partitions",
                "short",
                _sum("kafka_server_replicamanager_underreplicatedpartitions"),
                "stat",
                "Must be 0, except while a broker restarts.",
            ),
            Panel("Requests refused by a bug", "short", _sum("ottla_refused_by_a_bug_total"), "stat", "Must be 0: see the log."),
        ),
    ),
    (
        "Traffic",
        (
            Panel("Records in", "cps", _topics("messagesin")),
            Panel("Bytes in", "Bps", _topics("bytesin")),
            Panel("Bytes out", "Bps", _topics("bytesout")),
            Panel(
                "Refused batches and fetches",
                "cps",
                (
                    (_rate("kafka_server_brokertopicmetrics_failedproducerequests_total", OF_TOPIC, "topic"), "produce {{topic}}"),
                    (_rate("kafka_server_brokertopicmetrics_failedfetchrequests_total", OF_TOPIC, "topic"), "fetch {{topic}}"),
                ),
            ),
            Panel("Log size", "bytes", ((f"sum by (topic) (kafka_log_log_size{{{OF_TOPIC}}})", "{{topic}}"),)),
            Panel(
                "Replication",
                "Bps",
                (
                    (_rate("kafka_server_brokertopicmetrics_replicationbytesin_total", HERE, "instance"), "in {{instance}}"),
                    (_rate("kafka_server_brokertopicmetrics_replicationbytesout_total", HERE, "instance"), "out {{instance}}"),
                ),
            ),
        ),
    ),
    (
        "Requests",
        (
            Panel("Requests", "reqps", ((_rate("kafka_network_requestmetrics_requests_total", OF_API, "request"), "{{request}}"),)),
            Panel("Total time, 99%", "s", _stage("total")),
            Panel(
                "Produce, 99%, by Kafka's quantiles",
                "ms",
                ((f'kafka_network_requestmetrics_totaltimems{{{HERE},request="Produce",quantile="0.99"}}', "{{instance}}"),),
            ),
            Panel("Queue, 99%", "s", _stage("queue")),
            Panel("Local, 99%", "s", _stage("local")),
            Panel("Sync, 99%", "s", _stage("sync"), explanation="The wait for stable storage, in a cluster also for replicas."),
            Panel("Remote, 99%", "s", _stage("remote"), explanation="The wait for data, members or other brokers."),
            Panel("Send, 99%", "s", _stage("send")),
            Panel(
                "Delayed replies",
                "short",
                (
                    (
                        f"sum by (delayedOperation) (kafka_server_delayedoperationpurgatory_purgatorysize{{{HERE}}})",
                        "{{delayedOperation}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Groups",
        (
            Panel(
                "Lag",
                "short",
                ((f"sum by (consumergroup, topic) (kafka_consumergroup_lag{{{OF_GROUP}}})", "{{consumergroup}} {{topic}}"),),
            ),
            Panel(
                "Largest lags",
                "short",
                ((f"topk(20, kafka_consumergroup_lag{{{OF_GROUP}}})", "{{consumergroup}} {{topic}}-{{partition}}"),),
            ),
            Panel(
                "Committed records",
                "cps",
                (
                    (
                        f"sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset{{{OF_GROUP}}}[$__rate_interval]))",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
            ),
            Panel(
                "Members", "short", ((f"sum by (consumergroup) (kafka_consumergroup_members{{{OF_GROUP}}})", "{{consumergroup}}"),)
            ),
            Panel(
                "Groups by state",
                "short",
                (
                    (
                        f"sum by (protocol, state) (kafka_server_group_coordinator_metrics_group_count{{{HERE}}})",
                        "{{protocol}} {{state}}",
                    ),
                ),
            ),
            Panel("Transactional ids by state", "short", ((f"sum by (state) (ottla_transactions{{{HERE}}})", "{{state}}"),)),
        ),
    ),
    (
        "Broker",
        (
            Panel(
                "Idle time of the broker's thread",
                "percentunit",
                ((f"kafka_network_socketserver_networkprocessoravgidle_percent{{{HERE}}}", "{{instance}}"),),
            ),
            Panel(
                "Processor",
                "percentunit",
                (
                    (_rate("process_cpu_seconds_total", HERE, "instance"), "process {{instance}}"),
                    (_rate("ottla_broker_thread_cpu_seconds_total", HERE, "instance"), "broker's thread {{instance}}"),
                ),
            ),
            Panel("Memory", "bytes", ((f"process_resident_memory_bytes{{{HERE}}}", "{{instance}}"),)),
            Panel(
                "Writes to stable storage, 99%",
                "s",
                (
                    (
                        f"histogram_quantile(0.99, {_rate('ottla_sync_seconds_bucket', HERE, 'le, kind')})",
                        "{{kind}}",
                    ),
                ),
            ),
            Panel("Writes to stable storage", "iops", ((_rate("ottla_sync_seconds_count", HERE, "kind"), "{{kind}}"),)),
            Panel(
                "Connections",
                "short",
                (
                    (
                        f"sum by (instance, listener) (kafka_server_socket_server_metrics_connection_count{{{HERE}}})",
                        "{{instance}} {{listener}}",
                    ),
                ),
            ),
            Panel(
                "Partitions",
                "short",
                (
                    (f"kafka_server_replicamanager_partitioncount{{{HERE}}}", "replicas {{instance}}"),
                    (f"kafka_server_replicamanager_leadercount{{{HERE}}}", "led {{instance}}"),
                ),
            ),
            Panel(
                "Bytes that wait",
                "bytes",
                (
                    (f"ottla_backlog_bytes{{{HERE}}}", "requests {{instance}}"),
                    (f"ottla_unsent_bytes{{{HERE}}}", "replies {{instance}}"),
                ),
            ),
            Panel(
                "Requests that wait for a turn",
                "short",
                ((f"kafka_network_requestchannel_requestqueuesize{{{HERE}}}", "{{instance}}"),),
            ),
        ),
    ),
)
VARIABLES = (
    ("instance", "label_values(ottla_build_info, instance)"),
    ("topic", "label_values(kafka_log_log_size, topic)"),
    ("group", "label_values(kafka_consumergroup_members, consumergroup)"),
    ("request", "label_values(kafka_network_requestmetrics_requests_total, request)"),
)


def board() -> dict[str, Any]:
    """Return the board as Grafana imports it."""
    return {
        "title": "Ottla",
        "uid": "ottla",
        "tags": ["kafka", "ottla"],
        "timezone": "browser",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_data_source(), *(_variable(*each) for each in VARIABLES)]},
        "panels": list(_panels()),
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for title, panels in ROWS:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            "panels": [],
        }
        y += 1
        columns = len(panels) if panels[0].kind == "stat" else COLUMNS
        height = HEIGHT // 2 if panels[0].kind == "stat" else HEIGHT
        for index, panel in enumerate(panels):
            number += 1
            row, column = divmod(index, columns)
            place = {"x": column * (WIDTH // columns), "y": y + row * height, "w": WIDTH // columns, "h": height}
            yield _panel(number, panel, place)
        y += -(-len(panels) // columns) * height


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend or "__auto"}
        for index, (expression, legend) in enumerate(panel.targets)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.explanation,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def text() -> str:
    return json.dumps(board(), indent=1) + "\n"


if __name__ == "__main__":
    BOARD.parent.mkdir(parents=True, exist_ok=True)
    BOARD.write_text(text())
