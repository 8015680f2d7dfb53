"""The `ottla` command, which parses arguments and runs one command."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence

from ottla.cli.command import catalogue, exits
from ottla.cli.command.exits import MISUSED, fail, unwritten
from ottla.cli.command.parser import COMPLETE, Parser
from ottla.errors import KafkaError, SettingError
from ottla.version import VERSION

SILENT = logging.NullHandler()
"""A handler that drops the clients' warnings, because a command prints one sentence of its own about a failure."""

OBJECTS_PER_COLLECTION = 100_000
"""The new objects after which garbage is collected: with Python's 700, imports would be interrupted hundreds of times."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    The codes are: 0 done, 1 could not, 2 wrong arguments, 70 a bug in Ottla. Ctrl-C ends the program at once.
    """
    if argv is None:
        gc.set_threshold(OBJECTS_PER_COLLECTION, 10, 10)
        atexit.register(gc.freeze)  # otherwise the end of the process collects the garbage of all modules, which takes 30 ms
        # A KeyboardInterrupt can get lost in an import. Commands with state to clean up have their own signal handlers by then.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    words = sys.argv[1:] if argv is None else list(argv)
    if sys.stderr is None:  # it is closed, and print() would write to standard output instead
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 # until the end of the process
    if words[:1] == [COMPLETE]:
        from ottla.cli.completion import candidates

        return candidates.run(parser_for, words[1:])
    exits.report_as_json("--json" in words)
    parser = parser_for(words)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        return fail(_about_unknown(options.parser, unknown), MISUSED)
    logging.getLogger("ottla.client").addHandler(SILENT)
    try:
        code: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SettingError as error:
        return fail(str(error), MISUSED)
    except KafkaError as error:
        return fail(str(error))
    except OSError as error:
        unable = unwritten(error)
        if unable is None:
            raise
        return unable
    return code


def _about_unknown(parser: Parser, unknown: Sequence[str]) -> str:
    """Return a sentence about arguments that a command does not have, or has and finds before its name."""
    if early := parser.known_options(unknown):
        return f"{early[0]} is before its command: write it after `{parser.prog}`."
    near = parser.nearest_options(unknown)
    advice = f" (did you mean {' and '.join(near)}?)" if near else ""
    return f"unknown arguments: {' '.join(unknown)}{advice}; see `{parser.prog} --help`."


def parser_for(words: Sequence[str]) -> Parser:
    """Return the parser of `ottla`, with the arguments of the one command that `words` name."""
    named = next((word for word in words if not word.startswith("-")), None)
    parser = Parser(prog="ottla", description="A log that speaks Kafka's protocol, and a command for every Kafka.")
    parser.add_argument("--version", action="version", version=f"ottla {VERSION}")
    commands = parser.group()
    for name, entry in catalogue.COMMANDS.items():
        command = commands.add(name, entry.summary)
        if name == named:
            catalogue.build(name, command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
