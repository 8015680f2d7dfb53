"""`ottla quota`: the quotas of clients by user, client id and address (KIP-546), for any Kafka broker.

`ottla.net.client.admin` sends the requests.
"""

from __future__ import annotations

import argparse
from math import isfinite
from typing import TYPE_CHECKING

from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, table
from ottla.cli.command.parser import Example, first_duplicate

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.client.admin.quotas import QuotaOf
    from ottla.net.client.admin.admin import Admin

LIST = "List the quotas: all of them, or those of a user, a client id or an address."
SET = (
    "Set quotas: producer_byte_rate and consumer_byte_rate (bytes a second), request_percentage (of the broker's thread), "
    "controller_mutation_rate (partitions created and deleted a second), and connection_creation_rate for addresses."
)
REMOVE = "Remove quotas by their names."
DEFAULT = "<default>"
LIST_EXAMPLES = (
    Example("quota list", "All quotas."),
    Example("quota list --user alice", "The quotas of a user."),
    Example("quota list --client-id app --json", "Those of a client id, for programs."),
)
SET_EXAMPLES = (
    Example("quota set --user alice producer_byte_rate=1000000", "Alice writes at most 1 MB a second to each broker."),
    Example("quota set --client-id app consumer_byte_rate=1000000 --dry-run", "Check whether the broker would take it."),
    Example("quota set --user '<default>' request_percentage=50", "For each user without a quota of its own."),
)
REMOVE_EXAMPLES = (
    Example("quota remove --user alice producer_byte_rate", "Alice writes without a limit again."),
    Example("quota remove --user alice producer_byte_rate --dry-run", "Check whether the broker would do it."),
    Example("quota remove --user '<default>' request_percentage", "Remove a default."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    listed = own.add("list", "list quotas", description=LIST, examples=LIST_EXAMPLES)
    listed.set_defaults(run=on_cluster(_list))
    setting = own.add("set", "set some", description=SET, examples=SET_EXAMPLES)
    setting.add_argument("quotas", metavar="QUOTA=NUMBER", nargs="+", type=_quota, help="such as producer_byte_rate=1000000")
    removing = own.add("remove", "remove some", description=REMOVE, examples=REMOVE_EXAMPLES)
    removing.add_argument("quotas", metavar="QUOTA", nargs="+", type=lambda text: (text, None), help="such as producer_byte_rate")
    for each in (setting, removing):
        each.add_argument("--dry-run", action="store_true", help="only check whether the broker would do it")
        each.set_defaults(run=on_cluster(_alter))
    for each in (listed, setting, removing):
        each.add_argument("--user", metavar="NAME", help=f"a user, or {DEFAULT} for users without a quota")
        each.add_argument("--client-id", metavar="ID", help=f"a client id, alone or together with a user, or {DEFAULT}")
        each.add_argument("--ip", metavar="ADDRESS", help=f"an address, or {DEFAULT}")
        add_options(each)


def _quota(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        if name and equals and isfinite(float(number)):
            return name, float(number)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not like producer_byte_rate=1000000")


def _entity(options: argparse.Namespace) -> QuotaOf:
    from ottla.client.admin.quotas import QuotaOf

    names = (options.user, options.client_id, options.ip)
    return QuotaOf(*("" if name == DEFAULT else name for name in names))


def _list(admin: Admin, options: argparse.Namespace) -> int:
    entity = _entity(options)
    rows = [(found, key, value) for found, quotas in admin.describe_quotas(*entity) for key, value in quotas.items()]
    if options.json:
        lines = as_lines({**found._asdict(), "quota": key, "value": value} for found, key, value in rows)
    elif rows:
        headers = ("USER", "CLIENT ID", "IP", "QUOTA", "VALUE")
        lines = table(
            headers, [(*map(_shown, found), key, f"{value:g}" if value % 1 else str(int(value))) for found, key, value in rows]
        )
    else:
        lines = ["No quotas are set."]
    for line in lines:
        print(line)
    return 0


def _shown(name: str | None) -> str | None:
    return DEFAULT if name == "" else name


def _alter(admin: Admin, options: argparse.Namespace) -> int:
    entity = _entity(options)
    if not any(name is not None for name in entity):
        return fail("the quota's entity is missing: give --user, --client-id, both of them, or --ip.", MISUSED)
    if (twice := first_duplicate(name for name, _ in options.quotas)) is not None:
        return fail(f"{twice} is given twice: leave out one.", MISUSED)
    admin.alter_quotas(dict(options.quotas), *entity, validate_only=options.dry_run)
    for key, value in options.quotas:
        (line,) = (
            as_lines([{**entity._asdict(), "quota": key, "value": value}]) if options.json else [_said(options, entity, key, value)]
        )
        print(line)
    return 0


def _said(options: argparse.Namespace, entity: QuotaOf, key: str, value: float | None) -> str:
    if value is None:
        return f"{entity}: {key} {'can be' if options.dry_run else 'is'} removed."
    return f"{entity}: {key} {'can be' if options.dry_run else 'is'} {value:.10g}."
