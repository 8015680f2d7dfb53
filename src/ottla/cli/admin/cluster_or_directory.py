"""The common parts of commands that work on a running cluster, or on the data directory of a stopped broker."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli.command import connection
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.parser import Run

if TYPE_CHECKING:
    from ottla.net.client.admin.admin import Admin
    from ottla.net.offline.stopped_broker import StoppedBroker

    Asked = Admin | StoppedBroker
    """A running or a stopped broker: both classes have the same methods for users and ACLs."""


def add_options(parser: argparse.ArgumentParser, *, is_new: bool = False) -> None:
    """Add the options of commands for a cluster or a directory. With `is_new`, the data directory need not exist."""
    where = connection.add_options(parser)
    where.add_argument("--data-dir", metavar="DIR", help="the data directory of a stopped broker, instead of --bootstrap-server")
    if is_new:
        parser.add_argument("--node-id", type=int, metavar="N", help="the node id of a new data directory (default: 1)")
    parser.set_defaults(is_new=is_new, node_id=None)


def on_cluster_or_directory(ask: Callable[[Asked, argparse.Namespace], int]) -> Run:
    """Return a command function that calls `ask` with an admin client or with a data directory, and prints its errors."""

    def run(options: argparse.Namespace) -> int:
        if options.data_dir is not None:
            return _changing(options, lambda broker: ask(broker, options))
        if options.node_id is not None:
            return fail("--node-id is for a new data directory: leave it out, or add --data-dir.", MISUSED)
        return connection.on_cluster(ask)(options)

    return run


def _changing(options: argparse.Namespace, ask: Callable[[Asked], int]) -> int:
    from ottla.net.offline.stopped_broker import stopped_broker
    from ottla.net.startup.data_directory import DataDirectoryError, DirectoryInUse

    if options.command_config or options.command_property or options.profile:
        return fail("--data-dir needs no connection, so client settings have no effect: leave out one of them.", MISUSED)
    try:
        with stopped_broker(options.data_dir, is_new=options.is_new, node_id=options.node_id) as broker:
            return ask(broker)
    except DirectoryInUse:
        return fail(f"The broker of {options.data_dir} is running: use --bootstrap-server instead, or stop it first.")
    except DataDirectoryError as error:
        return fail(str(error))
