"""What commands share that ask a running cluster: where it is, and what is said when it refuses. Imports the client when needed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli.exits import fail

if TYPE_CHECKING:
    from ottla.net.client.admin import Admin

WHERE = "localhost:9092"
PATIENCE_MS = 15_000
"""How long a command waits for what is not there yet, or never will be, such as a partition."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every such command."""
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT[,…]", default=WHERE, help=f"brokers to begin with, of any Kafka (default: {WHERE})"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object for each row, on a line of its own")


def asking(options: argparse.Namespace, ask: Callable[[Admin], int]) -> int:
    """Do what the command is about with an admin client; returns its exit code."""
    from ottla.errors import KafkaError
    from ottla.net.client.admin import Admin

    try:
        with Admin(options.bootstrap_server, default_api_timeout_ms=PATIENCE_MS) as admin:
            return ask(admin)
    except KafkaError as error:
        return fail(str(error))
