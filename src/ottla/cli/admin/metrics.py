"""`ottla metrics`: the metrics that clients pushed to brokers of Ottla (KIP-714)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import fail
from ottla.cli.command.output import Cell, duration, show, size
from ottla.cli.command.parser import Example

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.client.admin.client_metrics import PushingClient
    from ottla.client.admin.otlp import ClientMetric
    from ottla.net.client.admin.admin import Admin

CLIENTS = """Print the clients that ask for subscriptions to metrics, and what each pushed last. Subscriptions are settings:
`ottla config set client-metrics/NAME metrics=* interval.ms=10000`. Brokers of Ottla keep the last push of each client in memory."""
EXAMPLES = (
    Example("metrics clients", "All client instances, and how long ago each pushed."),
    Example("metrics clients --client-id app", "The metrics that clients with this id pushed last."),
    Example("metrics clients qYx3TzQvQ1uVbW2p0rJ8Lg --json", "The metrics of one client instance, an object for each value."),
)
CLIENT_COLUMNS = ("broker", "instance", "client-id", "software", "address", "subscriptions", "interval", "pushed", "size")
METRIC_COLUMNS = ("instance", "metric", "kind", "value", "samples", "unit", "attributes")


def build(parser: Parser) -> None:
    own = parser.group()
    clients = own.add("clients", "print the clients that push metrics, and the metrics", description=CLIENTS)
    clients.examples = EXAMPLES
    clients.add_argument("instances", metavar="INSTANCE", nargs="*", help="print the metrics of these client instances")
    clients.add_argument("--client-id", metavar="ID", help="print the metrics of all instances with this client id")
    add_options(clients)
    clients.set_defaults(run=on_cluster(_clients))


def _clients(admin: Admin, options: argparse.Namespace) -> int:
    found = admin.describe_client_metrics()
    if not options.instances and options.client_id is None:
        show(CLIENT_COLUMNS, list(_rows(found, as_json=options.json)), as_json=options.json)
        return 0
    chosen = [each for each in found if each.instance_id in options.instances or each.client_id == options.client_id]
    missing = set(options.instances) - {each.instance_id for each in chosen}
    if missing:
        return fail(f"No broker knows client instance {min(missing)}: `ottla metrics clients` prints those that are known.")
    pushed = [each for each in chosen if each.size_bytes]
    if not pushed:
        return fail("None of these clients has pushed metrics that are still kept: wait for a push, or subscribe to metrics.")
    show(METRIC_COLUMNS, list(_metrics(admin, pushed, as_json=options.json)), as_json=options.json)
    return 0


def _rows(found: list[PushingClient], *, as_json: bool) -> Iterator[tuple[Cell, ...]]:
    for each in found:
        software = f"{each.software_name} {each.software_version}"
        where = (
            each.node_id,
            each.instance_id,
            each.client_id,
            software,
            f"{each.address}:{each.port}",
            ",".join(each.subscriptions),
        )
        if as_json:
            yield (*where, each.push_interval_ms, each.pushed_at_ms, each.size_bytes)
        else:
            pushed = "never" if each.pushed_at_ms is None else f"{each.pushes} times, last seen {duration(each.seen_ms_ago)} ago"
            yield (*where, duration(each.push_interval_ms), pushed, size(each.size_bytes))


def _metrics(admin: Admin, clients: list[PushingClient], *, as_json: bool) -> Iterator[tuple[Cell, ...]]:
    for client in clients:
        for metric in sorted(admin.read_client_metrics(client), key=lambda metric: (metric.name, str(metric.attributes))):
            yield (client.instance_id, *_metric(metric, as_json=as_json))


def _metric(metric: ClientMetric, *, as_json: bool) -> tuple[Cell, ...]:
    attributes = ",".join(f"{key}={value}" for key, value in sorted(metric.attributes.items()))
    value: Cell = metric.value if as_json or metric.value is None else f"{metric.value:.15g}"
    return metric.name, metric.kind, value, metric.samples, metric.unit, attributes
