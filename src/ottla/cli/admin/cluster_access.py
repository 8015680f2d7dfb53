"""The common parts of commands that query a running cluster: its address, and its errors. The client is imported when needed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.exits import MISUSED, fail
from ottla.errors import KafkaError, SettingError

if TYPE_CHECKING:
    from ottla.net.client.admin.admin import Admin

WHERE = "localhost:9092"
PATIENCE_MS = 15_000
"""The time, in ms, for which a command waits for a missing resource, such as a partition."""


Choice = argparse._MutuallyExclusiveGroup  # argparse has no public name for the result of add_mutually_exclusive_group


def add_options(parser: argparse.ArgumentParser) -> Choice:
    """Add the options of every command that queries a cluster.

    Return the group of mutually exclusive options to which --bootstrap-server belongs; a command can add an alternative.
    """
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--bootstrap-server", metavar="HOST:PORT[,…]", default=WHERE, help=f"the bootstrap servers, of any Kafka (default: {WHERE})"
    )
    add_client_options(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each row, on a line of its own")
    return where


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that set properties of a command's client."""
    parser.add_argument(
        "--command-config", metavar="FILE", help="a properties file of client settings, as for Kafka's tools: TLS and SASL"
    )
    help_text = (
        "another client setting by Kafka's name; can be repeated. Put passwords into the file, which other users cannot read"
    )
    parser.add_argument("--command-property", action="append", default=[], metavar="NAME=VALUE", help=help_text)


def client_texts(options: argparse.Namespace) -> dict[str, str]:
    """Return the client settings of a command line as texts, by Kafka's names. Raises `SettingError` with a sentence."""
    found = read_config(options.command_config)
    for pair in options.command_property:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise SettingError(f"{name!r} has no value: write --command-property NAME=VALUE.")
        if name not in _known_names():
            raise SettingError(f"--command-property: clients of commands have no setting {name}; leave it out.")
        found[name] = value
    return found


def _known_names() -> set[str]:
    """Return the settings of a command's client without the bootstrap servers, which have their own option."""
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import names_of

    return names_of(AdminSettings).keys() - {"bootstrap.servers"}


def read_config(path: str | None) -> dict[str, str]:
    """Return the client settings in a file. Print the names of settings without effect to standard error. Raises `SettingError`."""
    from ottla.properties import parse_properties

    if path is None:
        return {}
    try:
        found = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingError(f"Cannot read {path}: {why}; name a readable properties file.") from None
    except SettingError as error:
        raise SettingError(f"{path}, {error}") from None
    known = _known_names()
    if idle := sorted(found.keys() - known):
        print(f"ottla: ignored settings of {path}, which have no effect: {', '.join(idle)}", file=sys.stderr)
    return {name: text for name, text in found.items() if name in known}


def asking(options: argparse.Namespace, ask: Callable[[Admin], int]) -> int:
    """Run `ask` with an admin client; return the command's exit code."""
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import values_of
    from ottla.net.client.admin.admin import Admin

    try:
        given = {"default_api_timeout_ms": PATIENCE_MS, **values_of(AdminSettings, client_texts(options))}
        with Admin(options.bootstrap_server, **given) as admin:
            return ask(admin)
    except SettingError as error:
        return fail(str(error), MISUSED)
    except KafkaError as error:
        return fail(str(error))
