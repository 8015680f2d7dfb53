"""`ottla config`: the commands and their arguments. The modules beside it run the commands with an admin client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.arguments import argument
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.parser import Example, completes
from ottla.cli.config import alterations, values
from ottla.cli.config.resource_names import FORMS, KINDS, parse_change, parse_resource

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands, Parser

LIST = """List the resources that have settings: topics, brokers and their loggers, groups and client metrics (KIP-1142). A broker
lists itself alone: `ottla cluster brokers` lists the others."""
GET = """Print the settings of a resource that differ from the defaults, or the named ones, with the source of each value:
dynamic ones were set with this command, static ones are in a broker's server.properties. With --diff, print the settings of two
resources that differ."""
SET = """Change settings of a resource: NAME=VALUE sets one, NAME+=VALUE adds to a list, NAME-=VALUE removes from a list. Its
other settings stay. The levels of loggers change at once and last until the broker stops."""
UNSET = """Remove values that were set for a resource, so that the next ones apply: of the brokers or the defaults. A
subscription of client-metrics ends with its last setting."""


def build(parser: Parser) -> None:
    own = parser.group()
    _add_list(own)
    _add_get(own)
    _add_set(own)
    _add_unset(own)


def _add_get(own: Commands) -> None:
    command = own.add("get", "print the settings of a resource", on_cluster(values.get), description=GET)
    command.examples = (
        Example("config get topic/flights", "The settings that differ from the defaults."),
        Example("config get topic/flights cleanup.policy --synonyms", "One setting, with the values that it falls back to."),
        Example("config get --diff topic/flights topic/planes", "The settings in which two topics differ."),
    )
    words = command.add_argument("words", metavar="RESOURCE [NAME…]", nargs="*", help=f"{FORMS}; then names of settings")
    completes(words, "resources and settings")
    shown = command.add_mutually_exclusive_group()
    help_text = "print the settings of two resources that differ"
    completes(shown.add_argument("--diff", metavar=("RESOURCE", "RESOURCE"), nargs=2, help=help_text), "resources")
    shown.add_argument("--values", action="store_true", help="print only the values, a line each")
    shown.add_argument("--explain", action="store_true", help="print what the settings mean, in the broker's words")
    shown.add_argument("--synonyms", action="store_true", help="print also the values that each setting falls back to")
    command.add_argument("-a", "--all", action="store_true", help="print settings with default values, too")
    help_text = "with --diff: the second resource is in the cluster of this profile"
    completes(command.add_argument("--with", dest="other", metavar="PROFILE", help=help_text), "profiles")
    add_options(command)


def _add_list(own: Commands) -> None:
    command = own.add("list", "list the resources that have settings", on_cluster(values.list_resources), description=LIST)
    command.examples = (
        Example("config list", "Topics, the asked broker and its loggers, groups, client metrics."),
        Example("config list group", "The groups that ever had settings of their own."),
        Example("config list client-metrics --json", "The subscriptions to metrics of clients."),
    )
    command.add_argument("kind", metavar="KIND", nargs="?", choices=KINDS, help=f"only this kind: {', '.join(KINDS)}")
    add_options(command)


def _add_set(own: Commands) -> None:
    command = own.add("set", "change settings of a resource", on_cluster(alterations.set_values), description=SET)
    command.examples = (
        Example("config set topic/flights retention.ms=86400000 cleanup.policy+=compact", "Change two settings."),
        Example("config set 'broker/*' log.retention.ms=86400000 --dry-run", "Check a default for all brokers."),
        Example("config set loggers/1 root=DEBUG", "Change the level of a broker's logger."),
    )
    _add_resource(command)
    help_text = "a setting; NAME+= and NAME-= change lists"
    changes = command.add_argument("changes", metavar="NAME=VALUE", nargs="*", type=argument(parse_change), help=help_text)
    completes(changes, "resources and settings")
    command.add_argument("--file", metavar="FILE", help="set the settings of this properties file, too, such as passwords")
    command.add_argument("--dry-run", action="store_true", help="only check whether the broker would do it")
    add_options(command)


def _add_unset(own: Commands) -> None:
    command = own.add(
        "unset", "remove values that were set for a resource", on_cluster(alterations.unset_values), description=UNSET
    )
    command.examples = (
        Example("config unset topic/flights retention.ms", "Restore the default of one setting."),
        Example("config unset broker/1 --all --dry-run", "Print what would be removed."),
        Example("config unset 'broker/*' log.retention.ms", "Let the value of each broker's file or the default apply again."),
    )
    _add_resource(command)
    completes(command.add_argument("names", metavar="NAME", nargs="*", help="a setting"), "resources and settings")
    command.add_argument("-a", "--all", action="store_true", help="remove all values that were set for this resource")
    command.add_argument("--dry-run", action="store_true", help="only check whether the broker would do it")
    confirm.add_option(command)
    add_options(command)


def _add_resource(command: Parser) -> None:
    completes(command.add_argument("resource", metavar="RESOURCE", type=argument(parse_resource), help=FORMS), "resources")
