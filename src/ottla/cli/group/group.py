"""`ottla group`: the commands and their arguments. The modules beside it run the commands with an admin client."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.arguments import decimal, given, name, pattern
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.parser import Example, completes
from ottla.cli.command.positions import target_argument, topic_argument
from ottla.cli.group import descriptions, removal, seek, transfers

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands, Parser

LIST = "List the groups of all brokers. Brokers before Kafka 3.8 report no types, and all their groups are classic."
DESCRIBE = """Describe groups of any kind: a summary, the members with their partitions, and the lag of each partition. -m prints
members alone, -p partitions alone."""
LAG = """Print how many records groups have yet to read: of named groups by partition with totals, else the totals of all groups.
The lag is the distance of the committed offset to the end of the partition; there is none without a committed offset."""
SEEK = """Set the committed offsets of a group without members, whose consumers then continue from there. All partitions with
committed offsets change, or those of --topic; all of them in one request. Offsets before the start or after the end of a partition
become its start or its end. Of a share group, the start offsets change: its queue begins there."""
DELETE = "Delete groups without members, with their committed offsets. The name is typed to confirm it, or --yes is given."
REMOVE_MEMBER = """Remove members from a group, which then rebalances. A consumer that still runs joins again; a static member that
was lost leaves its partitions to others at once."""
OFFSETS = "Export, import and delete the committed offsets of groups."
EXPORT = """Write the committed offsets of groups as a file that kafka-consumer-groups reads, too: CSV with the columns
topic,partition,offset, preceded by group for several groups. With --json, lines of JSON with metadata and leader epochs."""
IMPORT = """Commit the offsets of a file for a group without members: CSV as kafka-consumer-groups --export writes it, the same with
blanks as rpk reads it, or JSON. A file with groups is for these; with GROUP, only its lines count. The whole file is checked
first."""
DELETE_OFFSETS = """Delete committed offsets of a group that no longer reads a topic. The name of the group is typed to confirm
it, or --yes is given."""


def build(parser: Parser) -> None:
    own = parser.group()
    _add_list(own)
    _add_describe(own)
    _add_lag(own)
    _add_seek(own)
    _add_delete(own)
    _add_remove_member(own)
    offsets = own.add("offsets", "export, import and delete committed offsets", description=OFFSETS).group()
    _add_export(offsets)
    _add_import(offsets)
    _add_delete_offsets(offsets)


def _add_list(own: Commands) -> None:
    command = own.add("list", "list groups", on_cluster(descriptions.list_groups), description=LIST)
    command.examples = (
        Example("group list", "All groups with their types and states."),
        Example("group list --state empty --state dead", "Groups without members."),
        Example("group list --type consumer --json", "Groups of the consumer protocol (KIP-848), for programs."),
        Example("group list --type share", "Queues (KIP-932)."),
    )
    command.add_argument("pattern", metavar="PATTERN", nargs="?", type=pattern, help="a regular expression that whole ids match")
    help_text = "only groups in this state, such as Stable or Empty; can be repeated"
    command.add_argument("--state", action="append", default=[], type=_state, metavar="S", help=help_text)
    help_text = "only groups of this type: classic, consumer, share or streams; can be repeated"
    command.add_argument(
        "--type", action="append", default=[], type=str.lower, choices=descriptions.TYPES, metavar="T", help=help_text
    )
    add_options(command)


def _add_describe(own: Commands) -> None:
    command = own.add("describe", "describe groups", on_cluster(descriptions.describe), description=DESCRIBE)
    command.examples = (
        Example("group describe board", "A summary, the members and the lag."),
        Example("group describe board --watch", "The same, every 2 seconds until Ctrl-C."),
        Example("group describe board -m --json", "A JSON object for each member."),
    )
    _add_groups(command)
    command.add_argument("-m", "--members", action="store_true", help="only members: ids, hosts, partitions")
    command.add_argument("-p", "--partitions", action="store_true", help="only partitions: offsets, lag, members")
    _add_watch(command)
    add_options(command)


def _add_lag(own: Commands) -> None:
    command = own.add("lag", "print the lag of groups", on_cluster(descriptions.lag), description=LAG)
    command.examples = (
        Example("group lag", "The total of each group."),
        Example("group lag board", "Each partition of a group, and its total."),
        Example("group lag board --watch 5 --json", "Rows for programs, every 5 seconds."),
    )
    _add_groups(command, at_least="*")
    _add_watch(command)
    add_options(command)


def _add_seek(own: Commands) -> None:
    command = own.add("seek", "set the committed offsets of a group", on_cluster(seek.run), description=SEEK)
    command.examples = (
        Example("group seek board --to start", "Read everything again."),
        Example("group seek board --to 2h --topic flights:0,3 --dry-run", "Print what two hours back would be."),
        Example("group seek board-2 --from-group board", "Continue where another group is."),
        Example("group seek workers --to end --topic jobs", "Skip the records of a queue (a share group)."),
    )
    _add_group(command)
    target = command.add_mutually_exclusive_group(required=True)
    help_text = """start, end, an offset (offset:N if it has 10 digits or more), a time (2h, 2026-11-23T10:00, @TIME), or +N or -N
records from the committed offset"""
    completes(target.add_argument("--to", metavar="POSITION", type=target_argument, help=help_text), "positions")
    completes(target.add_argument("--from-group", metavar="GROUP", help="the committed offsets of another group"), "groups")
    _add_topics(command)
    command.add_argument("--dry-run", action="store_true", help="only print the offsets")
    add_options(command)


def _add_delete(own: Commands) -> None:
    command = own.add("delete", "delete groups", on_cluster(removal.delete), description=DELETE)
    command.examples = (
        Example("group delete board", "Ask for the name, then delete the group."),
        Example("group delete board board-2 --yes", "Delete two groups without a question."),
        Example("group delete board --dry-run", "Check whether it can be deleted."),
    )
    _add_groups(command)
    command.add_argument("--dry-run", action="store_true", help="only check whether they can be deleted")
    confirm.add_option(command)
    add_options(command)


def _add_remove_member(own: Commands) -> None:
    command = own.add("remove-member", "remove members from a group", on_cluster(removal.remove_members), description=REMOVE_MEMBER)
    command.examples = (
        Example("group remove-member board ottla-7f3a", "Remove a member by its id, or by how its id begins."),
        Example("group remove-member board --instance reader-2", "Remove a static member."),
        Example("group remove-member board --all --dry-run", "Print the members that would be removed."),
    )
    _add_group(command)
    command.add_argument("members", metavar="MEMBER", nargs="*", type=name, help="a member id, or its first characters")
    help_text = "the instance id of a static member; can be repeated"
    command.add_argument("--instance", action="append", default=[], type=name, metavar="ID", help=help_text)
    command.add_argument("--all", action="store_true", help="remove all members")
    command.add_argument("--dry-run", action="store_true", help="only print the members that would be removed")
    add_options(command)


def _add_export(own: Commands) -> None:
    command = own.add("export", "write the committed offsets of groups to a file", on_cluster(transfers.export), description=EXPORT)
    command.examples = (
        Example("group offsets export board", "Print the offsets as CSV."),
        Example("group offsets export board board.csv", "Write a file."),
        Example("group offsets export board all.jsonl --and planes --json", "Two groups with metadata."),
    )
    _add_group(command)
    help_text = "the file to write (default: standard output)"
    command.add_argument("file", metavar="FILE", nargs="?", default="-", type=given, help=help_text)
    also = command.add_argument(
        "--and", dest="also", action="append", default=[], metavar="GROUP", help="another group; can be repeated"
    )
    completes(also, "groups")
    _add_topics(command)
    add_options(command)


def _add_import(own: Commands) -> None:
    command = own.add("import", "commit the offsets of a file", on_cluster(transfers.import_offsets), description=IMPORT)
    command.examples = (
        Example("group offsets import board board.csv", "Restore the offsets of a group."),
        Example("group offsets import board board.csv --dry-run", "Check the file, and print what would change."),
        Example("group offsets import all.jsonl", "Restore each group that the file names."),
    )
    completes(command.add_argument("group", metavar="GROUP", nargs="?", help="the group (default: those of the file)"), "groups")
    command.add_argument("file", metavar="FILE", type=given, help="the file to read; - is standard input")
    command.add_argument("--dry-run", action="store_true", help="only print the offsets")
    add_options(command)


def _add_delete_offsets(own: Commands) -> None:
    command = own.add("delete", "delete committed offsets", on_cluster(transfers.delete), description=DELETE_OFFSETS)
    command.examples = (
        Example("group offsets delete board --topic flights", "Forget a topic that the group no longer reads."),
        Example("group offsets delete board --topic flights:0,1 --yes", "Two partitions, without a question."),
        Example("group offsets delete board --topic flights --dry-run", "Print the offsets that would be deleted."),
    )
    _add_group(command)
    _add_topics(command, required=True)
    command.add_argument("--dry-run", action="store_true", help="only print the offsets that would be deleted")
    confirm.add_option(command)
    add_options(command)


def _add_group(command: Parser) -> None:
    completes(command.add_argument("group", metavar="GROUP", help="a group"), "groups")


def _add_groups(command: Parser, at_least: str = "+") -> None:
    completes(command.add_argument("groups", metavar="GROUP", nargs=at_least, help="a group"), "groups")


def _add_topics(command: Parser, *, required: bool = False) -> None:
    help_text = "only this topic, or these partitions of it, such as flights:0,3-5; can be repeated"
    topic = command.add_argument(
        "--topic", action="append", default=[], type=topic_argument, required=required, metavar="T[:P,P]", help=help_text
    )
    completes(topic, "topics")


def _add_watch(command: Parser) -> None:
    help_text = "print again each time (default 2 s) until Ctrl-C; on a terminal in place"
    command.add_argument("--watch", metavar="SECONDS", type=decimal(0.1, 3600, "seconds"), nargs="?", const=2.0, help=help_text)


def _state(text: str) -> str:
    """Return the state in Kafka's spelling."""
    for state in descriptions.STATES:
        if text.lower() == state.lower():
            return state
    raise argparse.ArgumentTypeError(f"{text!r} is not a state of groups: choose from {', '.join(descriptions.STATES)}")
