"""The connection of a command to a cluster: its options, its settings and their sources. The client is imported when needed.

A setting is taken from the first source that has it: an option of its own or -X, the file of --command-config, the profile of
--profile, the variable OTTLA_BOOTSTRAP_SERVER, the profile in use.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.cli.command import arguments, librdkafka
from ottla.cli.command.files import read_properties
from ottla.cli.command.parser import Run, completes
from ottla.errors import SettingError

if TYPE_CHECKING:
    from ottla.client.settings.security import SecureSettings
    from ottla.net.client.admin.admin import Admin

WHERE = "localhost:9092"
SERVERS = "bootstrap.servers"
SERVERS_VARIABLE = "OTTLA_BOOTSTRAP_SERVER"
PATIENCE_MS = 15_000
"""The time, in ms, for which a command waits for a missing resource, such as a partition."""
BOOTSTRAP_MS = 3_000
"""The time, in ms, for which a command retries refused connections: a broker that has just been started can need a moment."""
WRITING: dict[str, Any] = {"request_timeout_ms": 15_000, "delivery_timeout_ms": 30_000, "max_block_ms": 30_000}
"""Producer settings that -X can override: a person waits half a minute for a broker that does not answer."""

Choice = argparse._MutuallyExclusiveGroup  # argparse has no public name for the result of add_mutually_exclusive_group


def add_options(parser: argparse.ArgumentParser) -> Choice:
    """Add the options of every command that queries a cluster.

    Return the group of mutually exclusive options to which --bootstrap-server belongs; a command can add an alternative.
    """
    where = parser.add_mutually_exclusive_group()
    help_text = f"the bootstrap servers, of any Kafka (default: ${SERVERS_VARIABLE}, then the profile in use, then {WHERE})"
    where.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT[,…]", type=arguments.given, help=help_text)
    add_client_options(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each row, on a line of its own")
    return where


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that set properties of a command's client."""
    profile = parser.add_argument("--profile", metavar="NAME", help="the settings of this profile: see `ottla profile --help`")
    completes(profile, "profiles")
    help_text = "a properties file of client settings, of Kafka's tools or of librdkafka: TLS and SASL"
    parser.add_argument("--command-config", metavar="FILE", type=arguments.given, help=help_text)
    help_text = (
        "another client setting by Kafka's name; can be repeated. Put passwords into the file, which other users cannot read"
    )
    given = parser.add_argument("-X", "--command-property", action="append", default=[], metavar="NAME=VALUE", help=help_text)
    completes(given, "client settings")


def options_of_profile(name: str) -> argparse.Namespace:
    """Return the options of a command line that has --profile alone, for the second cluster of a command."""
    return argparse.Namespace(profile=name, bootstrap_server=None, command_config=None, command_property=[])


def bootstrap_servers(options: argparse.Namespace) -> str:
    """Return the bootstrap servers of a command line. Raises `SettingError` with a sentence."""
    return client_texts(options)[SERVERS]


def client_texts(options: argparse.Namespace, *kinds: type[SecureSettings]) -> dict[str, str]:
    """Return the client settings of a command line as texts, by Kafka's names, with the bootstrap servers.

    `kinds` are the declarations of settings that -X may name, by default an admin client's. Raises `SettingError` with a sentence.
    """
    found = {SERVERS: WHERE}
    profile = _profile(options)
    found |= profile
    servers = os.environ.get(SERVERS_VARIABLE)
    if servers and not (options.profile and SERVERS in profile):
        found[SERVERS] = servers
    found |= read_config(options.command_config, *kinds)
    found |= properties(options.command_property, *kinds)
    if getattr(options, "bootstrap_server", None):
        found[SERVERS] = options.bootstrap_server
    return found


def properties(pairs: Iterable[str], *kinds: type[SecureSettings]) -> dict[str, str]:
    """Return the settings of -X options, by Kafka's names. Raises `SettingError` with a sentence."""
    known = _known_names(*kinds)
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise SettingError(f"{name!r} has no value: write -X NAME=VALUE.")
        if not name:
            raise SettingError(f"{pair!r} has no name: write -X NAME=VALUE.")
        for each, text in librdkafka.translated({name: value}).items():
            if each not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
                advice = f"did you mean {near[0]}?" if near else "leave it out."
                raise SettingError(f"-X: clients of commands have no setting {name}; {advice}")
            found[each] = text
    return found


def _profile(options: argparse.Namespace) -> dict[str, str]:
    from ottla.cli.command.profiles import Profiles

    profiles = Profiles()
    name = options.profile or profiles.in_use()
    return profiles.read(name) if name else {}


def _known_names(*kinds: type[SecureSettings]) -> set[str]:
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.settings.properties import names_of

    return {name for kind in kinds or (AdminSettings,) for name in names_of(kind)}


def read_config(path: str | None, *kinds: type[SecureSettings]) -> dict[str, str]:
    """Return the client settings in a file. Print the names of settings without effect to standard error. Raises `SettingError`."""
    if path is None:
        return {}
    found = librdkafka.translated(read_properties(path))
    known = _known_names(*kinds)
    if idle := sorted(found.keys() - known):
        print(f"ottla: ignored settings of {path}, which have no effect: {', '.join(idle)}", file=sys.stderr)
    return {name: text for name, text in found.items() if name in known}


def settings(options: argparse.Namespace, kind: type[SecureSettings], *others: type[SecureSettings]) -> dict[str, Any]:
    """Return the keyword arguments of a client of this kind, bootstrap servers included.

    `others` are the kinds of further clients of the command, which -X may name settings of. Raises `SettingError` with a sentence.
    """
    from ottla.client.settings.properties import values_of

    patience = {"default_api_timeout_ms": PATIENCE_MS, "bootstrap_timeout_ms": BOOTSTRAP_MS}
    return {**patience, **values_of(kind, client_texts(options, kind, *others))}


def on_cluster(ask: Callable[[Admin, argparse.Namespace], int]) -> Run:
    """Return a command that calls `ask` with an admin client and the options, and reports its errors."""

    def run(options: argparse.Namespace) -> int:
        from ottla.client.settings.clients import AdminSettings
        from ottla.net.client.admin.admin import Admin

        with Admin(**settings(options, AdminSettings)) as admin:
            return ask(admin, options)

    return run
