"""`ottla features`: the features of a cluster and their levels (KIP-584), for any Kafka broker.

`ottla.net.client.admin` sends the requests.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, table
from ottla.cli.command.parser import Example, first_duplicate

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.net.client.admin.admin import Admin

DESCRIBE = "List the features of the cluster: the supported levels, and the finalized one."
UPGRADE = "Raise features to a level, all of them or none."
DOWNGRADE = "Lower features to a level, all of them or none; level 0 disables one."
DESCRIBE_EXAMPLES = (
    Example("features describe", "The finalized level of each feature, and the supported ones."),
    Example("features describe --json", "An object for each feature."),
    Example("features describe --profile dev", "Those of the cluster of a profile."),
)
UPGRADE_EXAMPLES = (
    Example("features upgrade transaction.version=2", "Raise one feature."),
    Example("features upgrade transaction.version=2 --dry-run", "Check whether the cluster would do it."),
    Example("features upgrade transaction.version=2 --json", "For programs."),
)
DOWNGRADE_EXAMPLES = (
    Example("features downgrade transaction.version=1", "Lower one feature."),
    Example("features downgrade transaction.version=1 --dry-run", "Check whether the cluster would do it."),
    Example("features downgrade transaction.version=1 --json", "For programs."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    describe = own.add("describe", "all features", description=DESCRIBE, examples=DESCRIBE_EXAMPLES)
    describe.set_defaults(run=on_cluster(_describe))
    upgrade = own.add("upgrade", "raise features", description=UPGRADE, examples=UPGRADE_EXAMPLES)
    upgrade.set_defaults(downgrade=False, unsafe=False)
    downgrade = own.add("downgrade", "lower features", description=DOWNGRADE, examples=DOWNGRADE_EXAMPLES)
    downgrade.set_defaults(downgrade=True)
    downgrade.add_argument("--unsafe", action="store_true", help="even if metadata is lost that the lower level cannot express")
    for each in (upgrade, downgrade):
        each.add_argument("levels", metavar="FEATURE=LEVEL", nargs="+", type=_level, help="such as transaction.version=2")
        each.add_argument("--dry-run", action="store_true", help="only check whether the broker would do it")
        each.set_defaults(run=on_cluster(_update))
    for each in (describe, upgrade, downgrade):
        add_options(each)


def _level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not name or not equals or not level.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not like transaction.version=2")
    return name, int(level)


def _describe(admin: Admin, options: argparse.Namespace) -> int:
    found = admin.describe_features()
    rows = found.features.values()
    if not rows and not options.json:
        print("The cluster has no features: they need Kafka 2.7 or newer.")
        return 0
    headers = ("FEATURE", "LOWEST", "HIGHEST", "LEVEL")
    for line in as_lines({**each._asdict(), "epoch": found.epoch} for each in rows) if options.json else table(headers, rows):
        print(line)
    return 0


def _update(admin: Admin, options: argparse.Namespace) -> int:
    if (twice := first_duplicate(name for name, _ in options.levels)) is not None:
        return fail(f"{twice} is given twice: leave out one.", MISUSED)
    levels = dict(options.levels)
    admin.update_features(levels, downgrade=options.downgrade, unsafe=options.unsafe, validate_only=options.dry_run)
    verb = "can have" if options.dry_run else "has"
    for name, level in levels.items():
        (line,) = as_lines([{"name": name, "level": level}]) if options.json else [f"{name} {verb} level {level}."]
        print(line)
    return 0
