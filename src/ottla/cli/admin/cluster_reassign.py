"""`ottla cluster reassign`, `drain` and `elect`: moves of replicas and leaders (KIP-455, KIP-460), for any Kafka cluster.

`ottla.client.admin.replica_plans` plans the moves, and `ottla.net.client.admin` sends the requests.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.cli.admin.cluster_throttles import follow, lift_throttles, throttle
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, table
from ottla.cli.command.parser import Example, completes
from ottla.errors import SettingError

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands
    from ottla.client.admin.replica_plans import Moves
    from ottla.client.connection.metadata import TopicInfo
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin

REASSIGN = """Move replicas. --topic spreads topics evenly over all brokers or those of --brokers; replicas that are already there
stay where the spread is even. --plan reads a JSON file of Kafka's kafka-reassign-partitions. With neither option,
the current reassignments are shown, or cancelled with --cancel. Waits until all replicas are moved, and shows the progress."""
DRAIN = """Move all replicas of a broker to the others, so that it can be removed. Topics that are created meanwhile may be placed
on it: they are moved, too, until it has no replica, unless --no-wait is given. Stop the broker when this command has ended."""
ELECT = """Elect the preferred leaders of partitions. With --unclean, partitions without a leader get one that is out of
sync: records that it lacks are lost."""
VERSION = 1
DRAINED = "Broker {0} has no replicas. Stop it now: a topic that is created before it has stopped may be placed on it."
HEARD_WITHIN_S = 10

Asking = Callable[["Admin", argparse.Namespace], int]
REASSIGN_EXAMPLES = (
    Example("cluster reassign --topic flights --dry-run", "Print a plan that spreads the replicas of a topic."),
    Example("cluster reassign --plan plan.json --throttle 10000000", "Move partitions by a plan, at most 10 MB a second."),
    Example("cluster reassign --cancel", "Cancel all moves: the replicas stay where they were."),
)
DRAIN_EXAMPLES = (
    Example("cluster drain 3 --dry-run", "Print a plan that leaves no replica on broker 3."),
    Example("cluster drain 3 --throttle 10000000", "Move them, at most 10 MB a second, and wait."),
    Example("cluster drain 3 --no-wait", "Begin the moves."),
)
ELECT_EXAMPLES = (
    Example("cluster elect", "The preferred leaders of all partitions."),
    Example("cluster elect --topic flights", "Those of one topic."),
    Example("cluster elect --topic flights:0 --json", "That of one partition, for programs."),
)


def add_to(own: Commands) -> None:
    reassign = own.add("reassign", "move replicas to other brokers", description=REASSIGN, examples=REASSIGN_EXAMPLES)
    what = reassign.add_mutually_exclusive_group()
    topic = what.add_argument("--topic", action="append", metavar="NAME", help="spread the replicas of this topic; can be repeated")
    completes(topic, "topics")
    what.add_argument("--plan", metavar="FILE", help="move partitions as in this JSON file")
    what.add_argument("--cancel", action="store_true", help="cancel all reassignments in progress")
    what.add_argument("--lift-throttles", action="store_true", help="remove throttles that an interrupted command left")
    reassign.add_argument("--brokers", metavar="ID,ID,…", type=_node_ids, help="the brokers to spread topics over (default: all)")
    reassign.add_argument("--replication-factor", type=int, metavar="N", help="the number of replicas of each partition of --topic")
    reassign.set_defaults(run=lambda options: _asking(options, _reassign))
    drain = own.add("drain", "move all replicas away from a broker", description=DRAIN, examples=DRAIN_EXAMPLES)
    completes(drain.add_argument("node_id", metavar="BROKER", type=int, help="its id"), "brokers")
    drain.set_defaults(run=lambda options: _asking(options, _drain))
    for each in (reassign, drain):
        each.add_argument("--dry-run", action="store_true", help="only print the plan, as JSON for --plan")
        each.add_argument(
            "--throttle",
            type=int,
            metavar="BYTES",
            help="the maximum rate, in bytes a second, that a broker sends or receives for the moves",
        )
        each.add_argument("--no-wait", action="store_true", help="do not wait until the moves are done")
    elect = own.add("elect", "elect the preferred leaders", description=ELECT, examples=ELECT_EXAMPLES)
    elect.add_argument(
        "--topic", action="append", metavar="NAME[:PARTITION]", help="only this topic; can be repeated (default: all)"
    )
    elect.add_argument("--unclean", action="store_true", help="elect a replica out of sync where no other is alive")
    elect.set_defaults(run=lambda options: _asking(options, _elect))
    for each in (reassign, drain, elect):
        add_options(each)


def _asking(options: argparse.Namespace, ask: Asking) -> int:
    """Check options that argparse cannot check, then run the command."""
    if getattr(options, "throttle", None) is not None and (options.no_wait or options.throttle < 1):
        return fail("--throttle must be 1 or more, and is removed at the end: leave out --no-wait.", MISUSED)
    return on_cluster(ask)(options)


def _node_ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 1,2,3") from None


def topics_of(admin: Admin, names: Sequence[str] | None) -> Iterator[TopicInfo]:
    """Yield topics with their partitions, sorted by name; all topics if `names` is None."""
    wanted = admin.list_topics(internal=True) if names is None else sorted(set(names))
    if wanted:
        found = admin.describe_topics(*wanted)
        yield from (found[name] for name in wanted)


def _placed(topics: Iterable[TopicInfo]) -> Moves:
    from ottla.client.types import TopicPartition

    return {TopicPartition(topic.name, index): list(info.replicas) for topic in topics for index, info in topic.partitions.items()}


def _reassign(admin: Admin, options: argparse.Namespace) -> int:
    from ottla.client.admin.replica_plans import spread

    if options.lift_throttles:
        lift_throttles(admin)
        return 0
    if options.cancel:
        return _cancel(admin, options)
    if options.plan:
        return _move(admin, options, _plan_in(options.plan))
    if not options.topic:
        return _show(admin, options)
    racks = {node.node_id: node.rack for node in admin.describe_cluster().nodes}
    wanted = sorted(racks) if options.brokers is None else options.brokers
    if unknown := [node_id for node_id in wanted if node_id not in racks]:
        raise SettingError(f"Broker {unknown[0]} is not alive: choose among {', '.join(map(str, sorted(racks)))}.")
    placed = _placed(topics_of(admin, options.topic))
    return _move(admin, options, spread(placed, {node_id: racks[node_id] for node_id in wanted}, options.replication_factor))


def _drain(admin: Admin, options: argparse.Namespace) -> int:
    """Move all replicas of a broker to others. Repeat this, because new topics can be placed on the broker during the move."""
    left = _left_on(admin, options.node_id)
    up = sorted(node.node_id for node in admin.describe_cluster().nodes)
    if not left and options.node_id not in up:
        there_are = ", ".join(map(str, up))
        raise SettingError(f"Broker {options.node_id} is not alive and has no replica: choose among {there_are}.")
    while True:
        code = _move(admin, options, left)
        if not left or options.dry_run or options.no_wait:
            return code
        left = _still_left_on(admin, options.node_id, left)
        if not left:
            _say(options, DRAINED.format(options.node_id), drained=options.node_id)
            return code


def _left_on(admin: Admin, node_id: int) -> Moves:
    from ottla.client.admin.replica_plans import drain_broker

    racks = {node.node_id: node.rack for node in admin.describe_cluster().nodes}
    return drain_broker(_placed(topics_of(admin, None)), node_id, racks)


def _still_left_on(admin: Admin, node_id: int, moved: Moves) -> Moves:
    """Return the moves away from broker `node_id` that are still needed after the moves `moved`.

    Wait some seconds for this, because brokers can show the end of a move a little later.
    """
    for _ in range(HEARD_WITHIN_S):
        left = _left_on(admin, node_id)
        if not left.keys() & moved.keys():
            break
        time.sleep(1)
    return left


def _move(admin: Admin, options: argparse.Namespace, moves: Moves) -> int:
    from ottla.client.types import TopicPartition

    if options.dry_run:
        print(_plan_text(moves))
        return 0
    if not moves:
        _say(options, "No replica has to be moved.")
        return 0
    before = _placed(topics_of(admin, sorted({where.topic for where in moves})))
    if unknown := [where for where in moves if where not in before]:
        raise SettingError(f"There is no partition {unknown[0].topic}-{unknown[0].partition}: remove it from the plan.")
    if options.throttle is not None:
        throttle(admin, before, moves, options.throttle)
    admin.alter_partition_reassignments(moves)
    if not options.no_wait:
        follow(admin, [TopicPartition(*where) for where in moves], as_json=options.json)
        if options.throttle is not None:
            lift_throttles(admin)
    return 0


def _show(admin: Admin, options: argparse.Namespace) -> int:
    found = sorted(admin.list_partition_reassignments().items())
    if options.json:
        for line in as_lines({**where._asdict(), **move._asdict()} for where, move in found):
            print(line)
    elif found:
        rows = ((*where, *(",".join(map(str, some)) or None for some in move)) for where, move in found)
        for line in table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows):
            print(line)
    else:
        print("Nothing moves.")
    return 0


def _cancel(admin: Admin, options: argparse.Namespace) -> int:
    moving = sorted(admin.list_partition_reassignments())
    if moving:
        admin.alter_partition_reassignments(dict.fromkeys(moving))
    _say(options, f"{len(moving)} reassignments were cancelled.", cancelled=len(moving))
    return 0


def _elect(admin: Admin, options: argparse.Namespace) -> int:
    wanted = None if options.topic is None else named_partitions(admin, options.topic)
    elected = admin.elect_leaders(wanted, unclean=options.unclean)
    if options.json:
        for line in as_lines(where._asdict() for where in elected):
            print(line)
    else:
        print(f"{len(elected)} partitions have a new leader.")
    return 0


def named_partitions(admin: Admin, words: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that arguments NAME and NAME:PARTITION name. Raises `SettingError`."""
    from ottla.client.types import TopicPartition

    found: list[TopicPartition] = []
    for word in words:
        name, colon, index = word.partition(":")
        if colon and not index.isdecimal():
            raise SettingError(f"{word!r} is not a partition: write {name}:0.")
        indexes = [int(index)] if colon else sorted(next(topics_of(admin, [name])).partitions)
        found += (TopicPartition(name, each) for each in indexes)
    return found


def _plan_text(moves: Moves) -> str:
    import json

    partitions = [{**where._asdict(), "replicas": replicas} for where, replicas in sorted(moves.items())]
    return json.dumps({"version": VERSION, "partitions": partitions}, ensure_ascii=False)


def _plan_in(path: str) -> Moves:
    """Return the moves in a file of Kafka's kafka-reassign-partitions. Raises `SettingError`."""
    import json
    from pathlib import Path

    from ottla.client.types import TopicPartition

    try:
        plan = json.loads(Path(path).read_text(encoding="utf-8"))
        return {
            TopicPartition(str(each["topic"]), int(each["partition"])): [int(node_id) for node_id in each["replicas"]]
            for each in plan["partitions"]
        }
    except OSError as error:
        raise SettingError(f"Cannot read {path}: {error.strerror}; name a readable file.") from None
    except (ValueError, LookupError, TypeError):
        example = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
        raise SettingError(f"{path} is not a plan of reassignments: write JSON like {example}.") from None


def _say(options: argparse.Namespace, sentence: str, **row: object) -> None:
    if not options.json:
        print(sentence)
    elif row:
        print(*as_lines([row]))
