"""`ottla topic`: the commands and their arguments. The modules beside it run the commands with an admin client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.arguments import MOST_REPLICAS, argument, count, decimal, name, name_value, pattern, whole
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.parser import Example, completes
from ottla.cli.topic import changes, copy, descriptions, offsets
from ottla.inspection.times import FORMS, parse_time

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands, Parser

LIST = "List topics with their partitions, replicas, records and size. --rate measures the records written meanwhile."
CREATE = "Create topics. Counts that are left out are the broker's defaults."
DESCRIBE = """Describe topics: a summary, the partitions, and the settings that differ from the defaults. -p prints partitions
alone, -c all settings with their sources. Exit code 1: a partition has no leader, or a replica is out of sync."""
ALTER = "Change settings of a topic, restore their defaults, or add partitions."
DELETE = "Delete topics with all their records. The name is typed to confirm it, or --yes is given."
OFFSETS = "Print the first and the next offset of each partition, and with --at the first offset of a time or later."
TRIM = "Delete the records of a topic before an offset or a time. The name is typed to confirm it, or --yes is given."
COPY = """Copy the records of a topic, up to its current end, into another topic: keys, values, headers, timestamps and partitions
stay. A missing topic is created with the same partitions and settings. A copy that was killed continues where it was, and one that
is run again copies new records, each once. A topic with other records is refused without --append."""


def build(parser: Parser) -> None:
    own = parser.group()
    _add_list(own)
    _add_create(own)
    _add_describe(own)
    _add_alter(own)
    _add_delete(own)
    _add_offsets(own)
    _add_trim(own)
    _add_copy(own)


def _add_list(own: Commands) -> None:
    command = own.add("list", "list topics", on_cluster(descriptions.list_topics), description=LIST)
    command.examples = (
        Example("topic list", "All topics but internal ones."),
        Example("topic list 'flights-.*' --rate 2", "Some of them, with the records a second during 2 seconds."),
        Example("topic list --names", "Names only, a line each."),
    )
    command.add_argument("pattern", metavar="PATTERN", nargs="?", type=pattern, help="a regular expression that whole names match")
    command.add_argument("--internal", action="store_true", help="internal topics, too")
    command.add_argument("--names", action="store_true", help="print names only: one request, however many topics there are")
    help_text = "measure the records written during this time (default 1 s)"
    command.add_argument("--rate", metavar="SECONDS", type=decimal(0.001, 3600, "seconds"), nargs="?", const=1.0, help=help_text)
    add_options(command)


def _add_create(own: Commands) -> None:
    command = own.add("create", "create topics", on_cluster(changes.create), description=CREATE)
    command.examples = (
        Example("topic create flights -p 6", "A topic of 6 partitions."),
        Example("topic create flights planes -c cleanup.policy=compact -c retention.ms=-1", "Two topics with settings."),
        Example("topic create flights --if-not-exists", "Succeed if it exists already."),
    )
    _add_names(command)
    command.add_argument("-p", "--partitions", type=count, metavar="N", help="partitions of each topic")
    command.add_argument("-r", "--replication-factor", type=whole(1, MOST_REPLICAS), metavar="N", help="replicas of each partition")
    _add_configs(command)
    command.add_argument("--if-not-exists", action="store_true", help="succeed if a topic exists already")
    command.add_argument("--dry-run", action="store_true", help="only check whether the broker would create them")
    add_options(command)


def _add_describe(own: Commands) -> None:
    command = own.add("describe", "describe topics", on_cluster(descriptions.describe), description=DESCRIBE)
    command.examples = (
        Example("topic describe flights", "A summary, the partitions, and changed settings."),
        Example("topic describe flights -c", "All settings with their sources."),
        Example("topic describe flights -p --json", "A JSON object for each partition."),
    )
    _add_names(command)
    command.add_argument("-p", "--partitions", action="store_true", help="only partitions: leaders, replicas, offsets")
    command.add_argument("-c", "--configs", action="store_true", help="only settings, all of them, with their sources")
    add_options(command)


def _add_alter(own: Commands) -> None:
    command = own.add("alter", "change settings or add partitions", on_cluster(changes.alter), description=ALTER)
    command.examples = (
        Example("topic alter flights -c retention.ms=86400000", "Keep records for a day."),
        Example("topic alter flights --delete-config retention.ms", "Restore the default."),
        Example("topic alter flights -p 12", "12 partitions in all."),
    )
    _add_name(command)
    _add_configs(command)
    help_text = "restore the default of a setting; can be repeated"
    deleted = command.add_argument("--delete-config", action="append", default=[], metavar="NAME", help=help_text)
    completes(deleted, "topic settings")
    command.add_argument("-p", "--partitions", type=count, metavar="N", help="the new number of partitions, more than now")
    command.add_argument("--dry-run", action="store_true", help="only check whether the broker would do it")
    add_options(command)


def _add_delete(own: Commands) -> None:
    command = own.add("delete", "delete topics", on_cluster(changes.delete), description=DELETE)
    command.examples = (
        Example("topic delete flights", "Ask for the name, then delete the topic."),
        Example("topic delete flights planes --yes", "Delete two topics without a question."),
        Example("topic delete --regex 'test-.*' --dry-run", "Print the topics that would be deleted."),
    )
    _add_names(command, at_least="*")
    command.add_argument("--regex", metavar="PATTERN", type=pattern, help="delete the topics whose whole names match")
    command.add_argument("--dry-run", action="store_true", help="only print the topics that would be deleted")
    confirm.add_option(command)
    add_options(command)


def _add_offsets(own: Commands) -> None:
    command = own.add("offsets", "print the offsets of partitions", on_cluster(offsets.offsets), description=OFFSETS)
    command.examples = (
        Example("topic offsets flights", "The first and the next offset of each partition."),
        Example("topic offsets flights --at 2h", "Also the first offset of the last two hours."),
        Example("topic offsets flights --at 2026-11-23T10:00Z --json", "For programs."),
    )
    _add_name(command)
    command.add_argument("--at", metavar="TIME", type=argument(parse_time), help=f"find offsets by time: {FORMS}")
    command.add_argument("--utc", action="store_true", help="print times in UTC (default: local, with the zone)")
    add_options(command)


def _add_trim(own: Commands) -> None:
    command = own.add("trim", "delete the first records of a topic", on_cluster(offsets.trim), description=TRIM)
    command.examples = (
        Example("topic trim flights --before 7d", "Delete records older than a week."),
        Example("topic trim flights --before 5000 --partition 3", "Delete the records before an offset of one partition."),
        Example("topic trim flights --before end --yes", "Delete all records without a question."),
    )
    _add_name(command)
    help_text = f"an offset (offset:N if it has 10 digits or more), end, or {FORMS}"
    command.add_argument("--before", metavar="OFFSET|TIME", required=True, type=offsets.position_argument, help=help_text)
    command.add_argument("--partition", type=whole(0), metavar="N", help="only this partition (default: all)")
    command.add_argument("--dry-run", action="store_true", help="only print the records that would be deleted")
    confirm.add_option(command)
    add_options(command)


def _add_copy(own: Commands) -> None:
    command = own.add("copy", "copy the records of a topic into another", copy.run, description=COPY)
    command.examples = (
        Example("topic copy flights flights-2", "Copy the records up to now, or those since the last copy."),
        Example("topic copy flights flights --to staging", "Copy into the cluster of a profile."),
        Example("topic copy flights flights-2 --dry-run", "Print the offsets that would be copied."),
    )
    source = command.add_argument("source", metavar="FROM", help="the topic to copy")
    completes(source, "topics")
    command.add_argument("target", metavar="INTO", type=name, help="the topic to write")
    to = command.add_argument("--to", metavar="PROFILE", help="the profile of the target's cluster (default: the same cluster)")
    completes(to, "profiles")
    command.add_argument("--no-create", action="store_true", help="fail if the target does not exist")
    help_text = "copy all records, also if INTO has records of other origin or of an earlier copy"
    command.add_argument("--append", action="store_true", help=help_text)
    command.add_argument("--dry-run", action="store_true", help="only print the offsets that would be copied")
    add_options(command)


def _add_name(command: Parser) -> None:
    completes(command.add_argument("name", metavar="NAME", help="a topic"), "topics")


def _add_names(command: Parser, at_least: str = "+") -> None:
    completes(command.add_argument("names", metavar="NAME", nargs=at_least, help="a topic"), "topics")


def _add_configs(command: Parser) -> None:
    help_text = "a setting of the topic; can be repeated"
    kind = name_value("retention.ms=86400000")
    config = command.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE", type=kind, help=help_text)
    completes(config, "topic settings")
