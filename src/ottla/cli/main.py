"""The `ottla` command, which parses arguments and runs one command."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from ottla.cli.exits import MISUSED, fail, unwritten
from ottla.version import VERSION

SILENT = logging.NullHandler()
"""A handler that drops the clients' warnings, because a command prints one sentence of its own about a failure."""


class Words(argparse.ArgumentParser):
    """A parser that reports wrong arguments in one sentence."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message}; see `{self.prog} --help`.", MISUSED))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    The codes are: 0 done, 1 could not, 2 wrong arguments, 70 a bug in Ottla. Ctrl-C ends the program at once.
    """
    if argv is None:
        # A KeyboardInterrupt can get lost in an import. Only `serve` has state to clean up, and by then it has its own
        # signal handlers.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = _parser()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        program = " ".join(filter(None, ("ottla", options.command)))
        return fail(f"unknown arguments: {' '.join(unknown)}; see `{program} --help`.", MISUSED)
    if options.run is None:
        parser.print_help()
        return MISUSED
    logging.getLogger("ottla.client").addHandler(SILENT)
    try:
        code: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        unable = unwritten(error)
        if unable is None:
            raise
        return unable
    return code


def _parser() -> argparse.ArgumentParser:
    from ottla.cli import log, mirror, pipeline, serve
    from ottla.cli.admin import acl, cluster, features, quota, transactions, user
    from ottla.cli.decode import decode
    from ottla.cli.protocol import protocol
    from ottla.cli.registry import registry

    parser: argparse.ArgumentParser = Words(prog="ottla", description="A log that speaks Kafka's protocol.")
    parser.add_argument("--version", action="version", version=f"ottla {VERSION}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    serve.add_to(commands)
    protocol.add_to(commands)
    decode.add_to(commands)
    log.add_to(commands)
    registry.add_to(commands)
    transactions.add_to(commands)
    features.add_to(commands)
    quota.add_to(commands)
    user.add_to(commands)
    acl.add_to(commands)
    cluster.add_to(commands)
    pipeline.add_to(commands)
    mirror.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
