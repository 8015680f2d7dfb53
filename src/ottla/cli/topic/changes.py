"""The changes of topics: `ottla topic create`, `alter` and `delete`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines

if TYPE_CHECKING:
    from ottla.net.client.admin.admin import Admin

ASKED_NAMES = 10
"""The number of names that a confirmation lists; of more it gives the count."""


def create(admin: Admin, options: argparse.Namespace) -> int:
    """Create each topic. Return 1 if any was refused. With --if-not-exists, an existing topic is no failure."""
    from ottla.client.admin.topics import BROKER_DEFAULT, NewTopic
    from ottla.client.errors import BrokerError
    from ottla.wire.errors import TOPIC_ALREADY_EXISTS

    code = 0
    counts = (options.partitions or BROKER_DEFAULT, options.replication_factor or BROKER_DEFAULT)
    for name in dict.fromkeys(options.names):
        try:
            admin.create_topics([NewTopic(name, *counts, dict(options.config))], validate_only=options.dry_run)
            _report(options, name, "created")
        except BrokerError as error:
            if options.if_not_exists and error.code == TOPIC_ALREADY_EXISTS:
                _report(options, name, "exists")
            else:
                code = fail(str(error))
    return code


def alter(admin: Admin, options: argparse.Namespace) -> int:
    """Change the number of partitions of a topic, and its settings. Both are checked before either is changed."""
    from ottla.client.admin.topics import ConfigResource

    if not (options.config or options.delete_config or options.partitions):
        return fail("nothing to change: add -c NAME=VALUE, --delete-config NAME or -p N.", MISUSED)
    settings = partial(
        admin.alter_configs, ConfigResource.topic(options.name), set=dict(options.config), delete=options.delete_config
    )
    has_settings = options.config or options.delete_config
    if has_settings and (options.partitions or options.dry_run):
        settings(validate_only=True)
    if options.partitions:
        now = len(admin.describe_topics(options.name)[options.name].partitions)
        if now >= options.partitions:
            return fail(f"Topic {options.name} has {now} partitions, and -p {options.partitions} is not more: add some.")
        if not options.dry_run:
            admin.create_partitions({options.name: options.partitions})
    if has_settings and not options.dry_run:
        settings()
    _report(options, options.name, "altered")
    return 0


def delete(admin: Admin, options: argparse.Namespace) -> int:
    """Delete topics by name or pattern, after a confirmation. Return 1 if any was refused."""
    from ottla.client.errors import BrokerError

    if bool(options.names) == (options.regex is not None):
        return fail("name topics, or give --regex.", MISUSED)
    names: Sequence[str] = list(dict.fromkeys(options.names))
    if options.regex is not None:
        names = [name for name in admin.list_topics() if options.regex.fullmatch(name)]
        if not names:
            return fail(f"No topic's whole name matches {options.regex.pattern!r}: `ottla topic list` lists the topics.")
    else:
        admin.describe_topics(*names)
    if not options.dry_run:
        unconfirmed = confirm.refused(options, _effect(names), names[0] if len(names) == 1 else str(len(names)))
        if unconfirmed is not None:
            return unconfirmed
    code = 0
    for name in names:
        try:
            if not options.dry_run:
                admin.delete_topics(name)
            _report(options, name, "deleted")
        except BrokerError as error:
            code = fail(str(error))
    return code


def _effect(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"This deletes topic {names[0]} with all its records."
    listed = f": {', '.join(names)}" if len(names) <= ASKED_NAMES else ""
    return f"This deletes {len(names)} topics with all their records{listed}."


def _report(options: argparse.Namespace, name: str, done: str) -> None:
    if options.json:
        print(*as_lines([{"topic": name, "result": done, "dry_run": options.dry_run}]), flush=True)
    elif done == "exists":
        print(f"Topic {name} exists already.", flush=True)
    else:
        print(f"Topic {name} {'would be' if options.dry_run else 'is'} {done}.", flush=True)
