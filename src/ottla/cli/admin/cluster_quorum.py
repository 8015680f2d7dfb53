"""`ottla cluster quorum` and `unregister`: the controllers of a KRaft cluster, and brokers that are gone (KIP-595, KIP-631)."""

from __future__ import annotations

import argparse
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.arguments import whole
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import fail
from ottla.cli.command.output import Cell, show
from ottla.cli.command.parser import Example, completes
from ottla.inspection.times import format_time

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands
    from ottla.client.admin.quorum import QuorumDescription
    from ottla.net.client.admin.admin import Admin

QUORUM = """Print the controllers of a KRaft cluster and the brokers that follow them: how far each has read the metadata log, and
when it last caught up. A replica that was never heard of has no times."""
UNREGISTER = """Remove a broker from the metadata of a KRaft cluster, once it has stopped for ever and has no replicas. Its id is
typed to confirm it, or --yes is given."""
COLUMNS = ("node", "role", "log end offset", "lag", "last fetch", "last caught up", "directory", "endpoints")


def add_to(own: Commands) -> None:
    quorum = own.add("quorum", "show the controllers and their progress", on_cluster(_quorum), description=QUORUM)
    quorum.examples = (
        Example("cluster quorum", "The leader, the other voters, and brokers as observers."),
        Example("cluster quorum --utc", "Times in UTC."),
        Example("cluster quorum --json", "An object for each replica of the metadata log, with times in ms."),
    )
    quorum.add_argument("--utc", action="store_true", help="print times in UTC (default: local, with the zone)")
    unregister = own.add("unregister", "remove a broker that is gone", on_cluster(_unregister), description=UNREGISTER)
    unregister.examples = (
        Example("cluster unregister 3", "Ask for the id, then remove broker 3."),
        Example("cluster unregister 3 --yes", "Remove it without a question."),
        Example("cluster unregister 3 --yes --json", "The same, for programs."),
    )
    completes(unregister.add_argument("broker", metavar="ID", type=whole(0), help="the id of a stopped broker"), "brokers")
    confirm.add_option(unregister)
    for each in (quorum, unregister):
        add_options(each)


def _quorum(admin: Admin, options: argparse.Namespace) -> int:
    found = admin.describe_quorum()
    show(COLUMNS, list(_rows(found, options)), as_json=options.json)
    if not options.json:
        print(f"\nEpoch {found.leader_epoch}, high watermark {found.high_watermark}.")
    return 0


def _rows(found: QuorumDescription, options: argparse.Namespace) -> Iterator[tuple[Cell, ...]]:
    ends = {each.node_id: each.log_end_offset for each in (*found.voters, *found.observers)}
    leader_end = ends.get(found.leader_id, found.high_watermark)
    for replicas, role in ((found.voters, "voter"), (found.observers, "observer")):
        for each in sorted(replicas):
            times: list[Cell] = [_time(ms, options) for ms in (each.last_fetch_ms, each.last_caught_up_ms)]
            end = each.log_end_offset if each.log_end_offset >= 0 else None
            yield (
                each.node_id,
                "leader" if each.node_id == found.leader_id else role,
                end,
                None if end is None else max(leader_end - end, 0),
                *times,
                urlsafe_b64encode(each.directory_id).decode().rstrip("=") if any(each.directory_id) else None,
                list(found.endpoints.get(each.node_id, ())),
            )


def _time(ms: int, options: argparse.Namespace) -> Cell:
    if ms < 0:
        return None
    return ms if options.json else format_time(ms, utc=options.utc)


def _unregister(admin: Admin, options: argparse.Namespace) -> int:
    """Remove the registration of a broker that has stopped.

    Refuse a live broker, which would register again, or continue without being a member.
    """
    node_id: int = options.broker
    if any(node.node_id == node_id for node in admin.describe_cluster().nodes):
        return fail(f"Broker {node_id} is live: stop it first.")
    effect = f"This removes broker {node_id} from the cluster's metadata."
    unconfirmed = confirm.refused(options, effect, str(node_id))
    if unconfirmed is not None:
        return unconfirmed
    admin.unregister_broker(node_id)
    if options.json:
        show(("broker", "result"), [(node_id, "unregistered")], as_json=True)
    else:
        print(f"Broker {node_id} is unregistered.")
    return 0
