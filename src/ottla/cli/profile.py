"""`ottla profile`: named sets of client settings, so that commands need no address."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.command import connection
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import Cell, as_lines, show
from ottla.cli.command.parser import Example, Run, completes
from ottla.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.cli.command.parser import Parser
    from ottla.cli.command.profiles import Profiles

CREATE = """Create a profile, or replace one. Its settings are those of -b, -X and --command-config. A value can name its source
instead of a secret: '${env:NAME}' is an environment variable, '${command:WORDS}' the first line that a command prints. The file
of a profile is readable by its owner alone."""
USE = "Use a profile from now on: commands without -b and --profile connect to its cluster. With --none, use no profile."
LIST = "List the profiles, with their bootstrap servers; the one in use is marked."
SHOW = "Print the settings of a profile, without its secrets."
DELETE = "Delete a profile."
HIDDEN = "[hidden]"


def build(parser: Parser) -> None:
    own = parser.group()
    create = own.add(
        "create",
        "create a profile",
        _reported(_create),
        description=CREATE,
        examples=(
            Example("profile create dev -b localhost:9092", "A profile of a broker on this machine."),
            Example(
                "profile create prod -b kafka1:9093 -X security.protocol=SSL -X 'ssl.key.password=${env:KEY_PASSWORD}'",
                "A secret from the environment.",
            ),
            Example("profile create prod --command-config client.properties --use", "The settings of a file, in use at once."),
        ),
    )
    create.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT[,…]", help="the bootstrap servers")
    create.add_argument("--command-config", metavar="FILE", help="take the settings of this properties file")
    create.add_argument("-X", "--command-property", action="append", default=[], metavar="NAME=VALUE", help="a client setting")
    create.add_argument("--use", action="store_true", help="use the profile from now on")
    use = own.add(
        "use",
        "use a profile from now on",
        _reported(_use),
        description=USE,
        examples=(
            Example("profile use dev", "Commands connect to the cluster of dev."),
            Example("profile use --none", "Use none."),
        ),
    )
    use.add_argument("--none", action="store_true", help="use no profile")
    listing = own.add("list", "list profiles", _reported(_list), description=LIST)
    shown = own.add("show", "print the settings of a profile", _reported(_show), description=SHOW)
    delete = own.add("delete", "delete a profile", _reported(_delete), description=DELETE)
    for each in (create, use, shown, delete):
        name = each.add_argument("name", metavar="NAME", nargs="?" if each is use else None, help="the profile")
        completes(name, "profiles")
    for each in (create, use, listing, shown, delete):
        each.add_argument("--json", action="store_true", help="print JSON objects")


def _reported(run: Callable[[Profiles, argparse.Namespace], int]) -> Run:
    def reported(options: argparse.Namespace) -> int:
        from ottla.cli.command.profiles import Profiles

        try:
            return run(Profiles(), options)
        except SettingError as error:
            return fail(str(error), MISUSED)

    return reported


def _create(profiles: Profiles, options: argparse.Namespace) -> int:
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings

    kinds = (AdminSettings, ConsumerSettings, ProducerSettings)
    texts = connection.read_config(options.command_config, *kinds) | connection.properties(options.command_property, *kinds)
    if options.bootstrap_server:
        texts[connection.SERVERS] = options.bootstrap_server
    if connection.SERVERS not in texts:
        return fail("a profile needs the address of its cluster: add -b HOST:PORT.", MISUSED)
    profiles.save(options.name, texts)
    if options.use:
        profiles.use(options.name)
    return _report(options, f"Profile {options.name} is created" + (" and in use." if options.use else "."))


def _use(profiles: Profiles, options: argparse.Namespace) -> int:
    if (options.name is None) != options.none:
        return fail("name one profile, or give --none.", MISUSED)
    profiles.use(options.name)
    return _report(options, "No profile is in use." if options.none else f"Profile {options.name} is in use.")


def _list(profiles: Profiles, options: argparse.Namespace) -> int:
    in_use = profiles.in_use()
    names = profiles.names()
    if not names and not options.json:
        print("There are no profiles: `ottla profile create NAME -b HOST:PORT` creates one.")
        return 0
    rows = [(name, _mark(name == in_use, options), profiles.texts(name).get(connection.SERVERS)) for name in names]
    show(("name", "in use", "bootstrap servers"), rows, as_json=options.json)
    return 0


def _mark(is_used: bool, options: argparse.Namespace) -> Cell:
    if options.json:
        return is_used
    return "yes" if is_used else ""


def _show(profiles: Profiles, options: argparse.Namespace) -> int:
    rows = [(name, HIDDEN if _is_secret(name, text) else text) for name, text in profiles.texts(options.name).items()]
    show(("setting", "value"), rows, as_json=options.json)
    return 0


def _is_secret(name: str, text: str) -> bool:
    """Return whether a value must not be printed. A reference to the environment or to a command is no secret itself."""
    return not text.startswith("${") and any(word in name for word in ("password", "secret", "jaas", "keystore.key", "key.pem"))


def _delete(profiles: Profiles, options: argparse.Namespace) -> int:
    profiles.remove(options.name)
    return _report(options, f"Profile {options.name} is deleted.")


def _report(options: argparse.Namespace, sentence: str) -> int:
    print(*as_lines([{"name": options.name}]) if options.json else (sentence,))
    return 0
