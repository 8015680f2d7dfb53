"""The metrics that clients push to the brokers (KIP-714): the clients, and the last values of one."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.admin.client_metrics import PushingClient
from ottla.client.admin.otlp import ClientMetric
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import PageRefused, Part
from ottla.console.rows import Pages, cut, filter_rows, sorted_by

MOST_METRICS = 2_000


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A client instance that a broker knows. `pushed_at_ms` is None before its first push."""

    broker: int
    instance: str
    client_id: str
    software: str
    address: str
    subscriptions: list[str]
    interval_ms: int
    pushed_at_ms: int | None
    seen_ms_ago: int
    pushes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ClientList:
    """A page of the clients that push metrics."""

    clients: list[ClientRow]
    place: Pages
    q: str
    sort: str
    trouble: str


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric of a client's last push. Of a histogram or a summary, `value` is the sum and `samples` the number of values."""

    name: str
    kind: str
    value: float | None
    samples: int | None
    unit: str
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """A client instance with the metrics that it pushed last."""

    client: ClientRow
    metrics: Part[list[MetricRow]]


SORTS = {
    "client_id": lambda row: row.client_id,
    "software": lambda row: row.software,
    "address": lambda row: row.address,
    "bytes": lambda row: row.bytes,
    "seen": lambda row: row.seen_ms_ago,
}


async def clients(cluster: ClusterSession, q: str = "", sort: str = "client_id", page: int = 1) -> ClientList:
    """Return the clients that ask for subscriptions to metrics, filtered by a part of their client ids."""
    part = await cluster.part("client metrics", lambda admin: admin.describe_client_metrics())
    rows = [_row(each) for each in part.value or ()]
    matching = filter_rows(rows, q, lambda row: f"{row.client_id} {row.instance}")
    on_page, place = cut(sorted_by(matching, sort, SORTS), page, len(rows))
    return ClientList(on_page, place, q, sort, part.trouble)


def _row(each: PushingClient) -> ClientRow:
    return ClientRow(
        each.node_id,
        each.instance_id,
        each.client_id,
        f"{each.software_name} {each.software_version}".strip(),
        f"{each.address}:{each.port}",
        list(each.subscriptions),
        each.push_interval_ms,
        each.pushed_at_ms,
        each.seen_ms_ago,
        each.pushes,
        each.size_bytes,
    )


def _metric(each: ClientMetric) -> MetricRow:
    attributes = {name: "" if value is None else str(value) for name, value in each.attributes.items()}
    return MetricRow(each.name, each.kind, each.value, each.samples, each.unit, attributes)


async def client(cluster: ClusterSession, instance: str) -> ClientDetails:
    """Return a client instance with the metrics that it pushed last."""
    found = await cluster.query(lambda admin: admin.describe_client_metrics())
    chosen = max((each for each in found if each.instance_id == instance), key=lambda each: each.pushed_at_ms or 0, default=None)
    if chosen is None:
        raise PageRefused(404, f"No broker knows client instance {instance}: it has ended, or its metrics have expired.")
    if not chosen.size_bytes:
        return ClientDetails(_row(chosen), Part(None, "This client has pushed no metrics yet."))
    part = await cluster.part(f"metrics {instance}", lambda admin: admin.read_client_metrics(chosen))
    rows = None
    if part.value is not None:
        listed = sorted(part.value, key=lambda metric: (metric.name, str(metric.attributes)))[:MOST_METRICS]
        rows = [_metric(each) for each in listed]
    return ClientDetails(_row(chosen), Part(rows, part.trouble, part.as_of_ms))
