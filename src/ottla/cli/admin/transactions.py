"""`ottla transactions`: open and hanging transactions, and their abort, for any Kafka broker.

`ottla.net.client.admin` sends the requests.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, duration, table
from ottla.cli.command.parser import Example, completes

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands, Parser
    from ottla.client.admin.transactions import ActiveProducer, HangingTransaction, TransactionDescription
    from ottla.net.client.admin.admin import Admin

LIST = "List the transactional ids of all brokers, with their coordinators, producers and states."
DESCRIBE = "Show transactional ids: producer id and epoch, timeout, and the age and partitions of the open transaction."
FIND_HANGING = """List transactions that are open in a partition although no coordinator will end them there. Readers of committed
records wait for them without end. Exit code 1: there are some; `ottla transactions abort` ends them."""
ABORT = """End an open transaction. With --transactional-id, its producer is fenced, and its coordinator aborts. With --topic,
--partition and --start-offset, the hanging transaction that begins there is aborted in this partition alone. Brokers before Kafka
2.8 do not return its producer: give --producer-id, --producer-epoch and --coordinator-epoch instead of the offset."""

QUARTER_HOUR_MS = 900_000
OLDER = ("producer_id", "producer_epoch", "coordinator_epoch")
LIST_EXAMPLES = (
    Example("transactions list", "All transactional ids with their states."),
    Example("transactions list --state Ongoing --min-open-ms 60000", "Transactions that have been open for a minute."),
    Example("transactions list --json", "An object for each id."),
)
DESCRIBE_EXAMPLES = (
    Example("transactions describe copy-1", "Its producer, timeout and partitions."),
    Example("transactions describe copy-1 copy-2", "Two of them."),
    Example("transactions describe copy-1 --json", "For programs."),
)
FIND_HANGING_EXAMPLES = (
    Example("transactions find-hanging", "In all topics."),
    Example("transactions find-hanging --topic flights", "In one topic."),
    Example("transactions find-hanging --min-open-ms 3600000 --json", "Those without a record for an hour, for programs."),
)
ABORT_EXAMPLES = (
    Example("transactions abort --transactional-id copy-1", "Fence the producer, and abort its open transaction."),
    Example(
        "transactions abort --topic flights --partition 0 --start-offset 5",
        "Abort a hanging transaction that find-hanging has listed.",
    ),
    Example("transactions abort --transactional-id copy-1 --json", "For programs."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    listing = own.add("list", "list transactional ids", description=LIST, examples=LIST_EXAMPLES)
    listing.add_argument("--state", action="append", default=[], help="only this state, such as Ongoing; can be repeated")
    listing.add_argument("--producer-id", action="append", default=[], type=int, metavar="N", help="only this one; can be repeated")
    listing.add_argument("--min-open-ms", type=int, default=-1, metavar="MS", help="only transactions that are open for longer")
    listing.add_argument("--pattern", metavar="REGEX", help="only ids that match as a whole (Kafka 4.1 and later)")
    listing.set_defaults(run=on_cluster(_list))
    describe = own.add("describe", "show transactional ids", description=DESCRIBE, examples=DESCRIBE_EXAMPLES)
    completes(describe.add_argument("ids", metavar="ID", nargs="+", help="a transactional id"), "transactional ids")
    describe.set_defaults(run=on_cluster(_describe))
    find = own.add("find-hanging", "list hanging transactions", description=FIND_HANGING, examples=FIND_HANGING_EXAMPLES)
    find.add_argument("--topic", action="append", metavar="NAME", help="only in this one; can be repeated (default: all)")
    help_text = "the minimum time without a record: the longest timeout of all producers, or more (default: 15 minutes)"
    find.add_argument("--min-open-ms", type=int, default=QUARTER_HOUR_MS, metavar="MS", help=help_text)
    find.set_defaults(run=on_cluster(_find_hanging))
    _add_abort(own)
    for each in (listing, describe, find):
        add_options(each)


def _add_abort(own: Commands) -> None:
    abort = own.add("abort", "end one", description=ABORT, examples=ABORT_EXAMPLES)
    fenced = abort.add_argument("--transactional-id", metavar="ID", help="the transactional id whose producer is fenced")
    completes(fenced, "transactional ids")
    completes(abort.add_argument("--topic", metavar="NAME", help="the topic of a hanging transaction"), "topics")
    abort.add_argument("--partition", type=int, metavar="N", help="its partition")
    abort.add_argument("--start-offset", type=int, metavar="N", help="its first offset, as find-hanging shows it")
    for name in OLDER:
        abort.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help="for brokers before Kafka 2.8")
    add_options(abort)
    abort.set_defaults(run=_abort)


def _list(admin: Admin, options: argparse.Namespace) -> int:
    found = admin.list_transactions(
        states=options.state,
        producer_ids=options.producer_id,
        min_duration_ms=options.min_open_ms,
        transactional_id_pattern=options.pattern,
    )
    headers = ("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER ID", "STATE")
    _print(as_lines(each._asdict() for each in found) if options.json else table(headers, found))
    return 0


def _describe(admin: Admin, options: argparse.Namespace) -> int:
    found = admin.describe_transactions(*options.ids).values()
    if options.json:
        _print(as_lines({**each._asdict(), "partitions": [list(where) for where in each.partitions]} for each in found))
        return 0
    headers = ("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER ID", "EPOCH", "STATE", "TIMEOUT", "OPEN FOR", "PARTITIONS")
    _print(table(headers, (_described(each) for each in found)))
    return 0


def _described(found: TransactionDescription) -> tuple[str | int | None, ...]:
    is_open = found.start_time_ms is not None and found.partitions
    return (
        found.transactional_id,
        found.coordinator_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        duration(found.timeout_ms),
        duration(max(_now_ms() - (found.start_time_ms or 0), 0)) if is_open else None,
        ", ".join(f"{where.topic}-{where.partition}" for where in found.partitions) or None,
    )


def _find_hanging(admin: Admin, options: argparse.Namespace) -> int:
    found = admin.find_hanging_transactions(options.topic, min_open_ms=options.min_open_ms)
    if options.json:
        _print(as_lines({**each.partition._asdict(), **each.producer._asdict()} for each in found))
    elif found:
        headers = ("TOPIC", "PARTITION", "START OFFSET", "PRODUCER ID", "EPOCH", "COORDINATOR EPOCH", "SILENT FOR")
        _print(table(headers, (_hanging(each) for each in found)))
    else:
        print("There are no hanging transactions.")
    return 1 if found else 0


def _hanging(found: HangingTransaction) -> tuple[str | int | None, ...]:
    producer = found.producer
    return (
        *found.partition,
        producer.transaction_start_offset,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        duration(max(_now_ms() - producer.last_timestamp_ms, 0)),
    )


def _abort(options: argparse.Namespace) -> int:
    by_id = options.transactional_id is not None
    in_partition = options.topic is not None and options.partition is not None
    older = [getattr(options, name) for name in OLDER]
    named = (options.start_offset is not None) + (older != [None] * len(OLDER))
    if by_id and not (options.topic or options.partition or named):
        return on_cluster(_fence)(options)
    if by_id or not in_partition or named != 1 or (options.start_offset is None and None in older):
        sentence = "the transaction is missing: give --transactional-id, or --topic, --partition and --start-offset"
        return fail(f"{sentence}; see `ottla transactions abort --help`.", MISUSED)
    return on_cluster(_abort_in_partition)(options)


def _fence(admin: Admin, options: argparse.Namespace) -> int:
    name = options.transactional_id
    before = admin.describe_transactions(name)[name]
    if not before.partitions:
        return fail(f"{name} has no open transaction (its state is {before.state}): there is nothing to abort.")
    after = admin.fence_producers(name)[name]
    if options.json:
        _print(as_lines([{"transactional_id": name, **after._asdict()}]))
    else:
        where = ", ".join(f"{where.topic}-{where.partition}" for where in before.partitions)
        print(f"The producer of {name} is fenced, and its transaction in {where} is aborted.")
    return 0


def _abort_in_partition(admin: Admin, options: argparse.Namespace) -> int:
    topic, index = options.topic, options.partition
    if options.start_offset is None:
        producer_id, producer_epoch, coordinator_epoch = (getattr(options, name) for name in OLDER)
    else:
        found = _begun_at(admin, topic, index, options.start_offset)
        if found is None:
            sentence = f"no open transaction begins at offset {options.start_offset} of {topic}-{index}"
            return fail(f"{sentence}: `ottla transactions find-hanging --topic {topic}` lists them.")
        producer_id, producer_epoch, coordinator_epoch = found.producer_id, found.producer_epoch, found.coordinator_epoch
    admin.abort_transaction(topic, index, producer_id, producer_epoch, coordinator_epoch)
    if options.json:
        _print(as_lines([{"topic": topic, "partition": index, "producer_id": producer_id, "producer_epoch": producer_epoch}]))
    else:
        print(f"The transaction of producer {producer_id} in {topic}-{index} is aborted.")
    return 0


def _begun_at(admin: Admin, topic: str, index: int, offset: int) -> ActiveProducer | None:
    several = admin.describe_producers([(topic, index)])
    return next((one for found in several.values() for one in found if one.transaction_start_offset == offset), None)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _print(lines: list[str]) -> None:
    for line in lines:
        print(line)
