"""`ottla profile`: named sets of client settings, so that commands need no address."""

from __future__ import annotations

import argparse
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.cli.command import connection
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import Cell, as_lines, show
from ottla.cli.command.parser import Example, Run, completes
from ottla.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.cli.command.parser import Parser
    from ottla.cli.command.profiles import Profiles
    from ottla.client.settings.security import SecureSettings

CREATE = """Create a profile, or replace one. Its settings are those of -b, -X and --command-config. A value can name its source
instead of a secret: '${env:NAME}' is an environment variable, '${command:WORDS}' the first line that a command prints. The file
of a profile is readable by its owner alone."""
USE = "Use a profile from now on: commands without -b and --profile connect to its cluster. With --none, use no profile."
LIST = "List the profiles, with their bootstrap servers; the one in use is marked."
SHOW = "Print the settings of a profile, without its secrets."
DELETE = "Delete a profile."
HIDDEN = "[hidden]"
Found = TypeVar("Found")
LIST_EXAMPLES = (
    Example("profile list", "All profiles, and which is in use."),
    Example("profile list --json", "An object for each profile."),
)
SHOW_EXAMPLES = (
    Example("profile show dev", "Its settings; secrets are hidden."),
    Example("profile show dev --json", "An object for each setting."),
)
DELETE_EXAMPLES = (Example("profile delete dev", "Commands that use it then need another one, or -b."),)


def build(parser: Parser) -> None:
    own = parser.group()
    create = own.add("create", "create a profile", _reported(_create), description=CREATE)
    create.examples = (
        Example("profile create dev -b localhost:9092", "A profile of a broker on this machine."),
        Example(
            "profile create prod -b kafka1:9093 -X security.protocol=SSL -X 'ssl.key.password=${env:KEY_PASSWORD}'",
            "A secret from the environment.",
        ),
        Example("profile create prod --command-config client.properties --use", "The settings of a file, in use at once."),
    )
    create.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT[,…]", help="the bootstrap servers")
    create.add_argument("--command-config", metavar="FILE", help="take the settings of this properties file")
    create.add_argument("-X", "--command-property", action="append", default=[], metavar="NAME=VALUE", help="a client setting")
    create.add_argument("--use", action="store_true", help="use the profile from now on")
    use = own.add("use", "use a profile from now on", _reported(_use), description=USE)
    use.examples = (
        Example("profile use dev", "Commands connect to the cluster of dev."),
        Example("profile use --none", "Use none."),
    )
    use.add_argument("--none", action="store_true", help="use no profile")
    listing = own.add("list", "list profiles", _reported(_list), description=LIST, examples=LIST_EXAMPLES)
    shown = own.add("show", "print the settings of a profile", _reported(_show), description=SHOW, examples=SHOW_EXAMPLES)
    delete = own.add("delete", "delete a profile", _reported(_delete), description=DELETE, examples=DELETE_EXAMPLES)
    for each in (create, use, shown, delete):
        name = each.add_argument("name", metavar="NAME", nargs="?" if each is use else None, help="the profile")
        completes(name, "profiles")
    for each in (create, use, listing, shown, delete):
        each.add_argument("--json", action="store_true", help="print JSON objects")


def _reported(run: Callable[[Profiles, argparse.Namespace], int]) -> Run:
    def reported(options: argparse.Namespace) -> int:
        from ottla.cli.command.profiles import Profiles

        return run(Profiles(), options)

    return reported


def _create(profiles: Profiles, options: argparse.Namespace) -> int:
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings

    kinds = (AdminSettings, ConsumerSettings, ProducerSettings)
    texts = connection.read_config(options.command_config, *kinds) | connection.properties(options.command_property, *kinds)
    if options.bootstrap_server:
        texts[connection.SERVERS] = options.bootstrap_server
    if connection.SERVERS not in texts:
        return fail("a profile needs the address of its cluster: add -b HOST:PORT.", MISUSED)
    for kind in kinds:
        _check(kind, {name: text for name, text in texts.items() if "${" not in text})
    verb = "replaced" if options.name in profiles.names() else "created"
    profiles.save(options.name, texts)
    if options.use:
        profiles.use(options.name)
    return _report(options, f"Profile {options.name} is {verb}" + (" and in use." if options.use else "."))


def _check(kind: type[SecureSettings], texts: Mapping[str, str]) -> None:
    """Check each setting on its own, because options of a command can add others. Raises `SettingError`."""
    from ottla.client.settings.properties import values_of

    checks = {each.name: each.metadata["check"] for each in fields(kind)}
    for name, value in values_of(kind, texts).items():
        checks[name](name, value)


def _use(profiles: Profiles, options: argparse.Namespace) -> int:
    if (options.name is None) != options.none:
        return fail("name one profile, or give --none.", MISUSED)
    profiles.use(options.name)
    return _report(options, "No profile is in use." if options.none else f"Profile {options.name} is in use.")


def _list(profiles: Profiles, options: argparse.Namespace) -> int:
    errors: list[SettingError] = []
    names = profiles.names()
    if not names and not options.json:
        print("There are no profiles: `ottla profile create NAME -b HOST:PORT` creates one.")
        return 0
    in_use = _attempt(profiles.in_use, errors)
    found = {name: _attempt(partial(profiles.texts, name), errors) or {} for name in names}
    rows = [(name, _mark(name == in_use, options), texts.get(connection.SERVERS)) for name, texts in found.items()]
    show(("name", "in use", "bootstrap servers"), rows, as_json=options.json)
    return fail(str(errors[0])) if errors else 0


def _attempt(read: Callable[[], Found], errors: list[SettingError]) -> Found | None:
    """Return what `read` returns. Return None if it raises an error, which is added to `errors`."""
    try:
        return read()
    except SettingError as error:
        errors.append(error)
        return None


def _mark(is_used: bool, options: argparse.Namespace) -> Cell:
    if options.json:
        return is_used
    return "yes" if is_used else ""


def _show(profiles: Profiles, options: argparse.Namespace) -> int:
    from ottla.cli.command.profiles import is_secret

    rows = [(name, HIDDEN if is_secret(name, text) else text) for name, text in profiles.texts(options.name).items()]
    show(("setting", "value"), rows, as_json=options.json)
    return 0


def _delete(profiles: Profiles, options: argparse.Namespace) -> int:
    profiles.remove(options.name)
    return _report(options, f"Profile {options.name} is deleted.")


def _report(options: argparse.Namespace, sentence: str) -> int:
    print(*as_lines([{"name": options.name}]) if options.json else (sentence,))
    return 0
