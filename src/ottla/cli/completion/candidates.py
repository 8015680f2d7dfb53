"""The candidates for the word at the cursor: commands, options and choices of the parsers, and names of the cluster."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.command.parser import Parser
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.net.client.admin.admin import Admin

TIMEOUT_MS = 2000
"""The time, in ms, that the cluster has for its names."""
SUMMARY_LENGTH = 60
"""The characters of a help that are shown beside a candidate."""


class Candidate(NamedTuple):
    """A word that can stand at the cursor, and a few words about it."""

    word: str
    summary: str = ""


class Line(NamedTuple):
    """The words before the cursor, parsed by the parser of their command."""

    parser: Parser
    waiting: argparse.Action | None
    """The option whose value the next word is, or None."""
    values: dict[str, list[str]]
    """The values of options and arguments, by their names in the namespace."""
    arguments: list[str]
    """The words that are no options, after the command's own name."""
    word: str
    """The word at the cursor, which may be a beginning."""


def split_line(text: str) -> list[str]:
    """Return the words of a line up to the cursor, without `ottla`; the last one, perhaps empty, is the one to complete."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote is still open
        words = text.split()
    return words[1:] + ([""] if text[-1:].isspace() or len(words) < 2 else [])


def candidates(parser: Parser, words: Sequence[str]) -> list[Candidate]:
    """Return the candidates for the last of `words`. `parser` is the one of `ottla`, with the command that the words name."""
    if not words:
        return []
    *before, word = words
    line = _read(parser, before, word)
    found = list(_all(line, word))
    return [candidate for candidate in found if candidate.word.startswith(word)]


def _read(parser: Parser, words: Sequence[str], last: str) -> Line:
    waiting: argparse.Action | None = None
    count = 0
    values: dict[str, list[str]] = {}
    arguments: list[str] = []
    for word in words:
        if waiting is not None:
            values.setdefault(waiting.dest, []).append(word)
            count -= 1
            waiting = waiting if count > 0 else None
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            action = parser._option_string_actions.get(name)
            if action is None:
                continue
            if equals:
                values.setdefault(action.dest, []).append(value)
            elif action.nargs != 0:
                waiting, count = action, action.nargs if isinstance(action.nargs, int) else 1
        elif parser.commands is not None and word in parser.commands.parsers:
            parser = parser.commands.parsers[word]
        else:
            arguments.append(word)
    return Line(parser, waiting, values, arguments, last)


def _all(line: Line, word: str) -> Iterator[Candidate]:
    if line.waiting is not None:
        yield from _of_action(line.waiting, line)
    elif word.startswith("-"):
        for action in line.parser._actions:
            if action.option_strings and action.help != argparse.SUPPRESS:
                yield Candidate(max(action.option_strings, key=len), _summary(action.help))
    elif line.parser.commands is not None and line.arguments:
        return  # a command that does not exist
    elif line.parser.commands is not None:
        for action in line.parser.commands._added._choices_actions:
            yield Candidate(action.dest, _summary(action.help))
    else:
        positionals = [action for action in line.parser._actions if not action.option_strings]
        if positionals:
            yield from _of_action(positionals[min(len(line.arguments), len(positionals) - 1)], line)


def _summary(text: str | None) -> str:
    return (text or "").partition(" (")[0].partition("; ")[0].replace("%%", "%")[:SUMMARY_LENGTH]


def _of_action(action: argparse.Action, line: Line) -> Iterator[Candidate]:
    if action.choices is not None:
        yield from (Candidate(str(choice)) for choice in action.choices)
    elif kind := getattr(action, "completes", None):
        end = "=" if action.metavar == "NAME=VALUE" and (line.arguments or action.option_strings) else ""
        try:
            yield from (Candidate(f"{name}{end}") for name in NAMES[kind](line))
        except (KafkaError, ValueError):  # a shell completes nothing where the cluster does not answer
            return


def _from_cluster(ask: Callable[[Admin, Line], list[str]]) -> Callable[[Line], list[str]]:
    def names(line: Line) -> list[str]:
        from ottla.cli.command.connection import settings
        from ottla.client.settings.clients import AdminSettings
        from ottla.net.client.admin.admin import Admin

        options = argparse.Namespace(
            bootstrap_server=next(iter(line.values.get("bootstrap_server", ())), None),
            profile=next(iter(line.values.get("profile", ())), None),
            command_config=next(iter(line.values.get("command_config", ())), None),
            command_property=line.values.get("command_property", []),
        )
        given = settings(options, AdminSettings) | {"default_api_timeout_ms": TIMEOUT_MS, "request_timeout_ms": TIMEOUT_MS}
        with Admin(**given) as admin:
            return ask(admin, line)

    return names


def _partitions(admin: Admin, line: Line) -> list[str]:
    topics = line.arguments[:1]
    return [str(index) for topic in admin.describe_topics(*topics).values() for index in sorted(topic.partitions)]


def _profiles(line: Line) -> list[str]:
    from ottla.cli.command.profiles import Profiles

    return Profiles().names()


def _resources(line: Line) -> list[str]:
    """Return the kinds of resources, or the resources of the kind before the slash."""
    from ottla.cli.config.resource_names import ALL, KINDS

    kind, slash, _ = line.word.partition("/")
    if not slash or kind not in KINDS:
        return [f"{each}/" for each in KINDS]
    names = {"topic": "topics", "group": "groups", "client-metrics": "client metrics"}
    return [f"{kind}/{name}" for name in (*NAMES[names.get(kind, "brokers")](line), *([ALL] if kind == "broker" else []))]


def _settings(admin: Admin, line: Line) -> list[str]:
    """Return the names of the settings of the first resource on the command line."""
    from ottla.cli.config.resource_names import parse_resource
    from ottla.cli.config.values import resource_of

    return sorted(admin.describe_configs(resource_of(admin, parse_resource(line.arguments[0]))))


def _topic_settings(admin: Admin, line: Line) -> list[str]:
    """Return the names of settings of the line's topic, or of any other topic if it does not exist yet."""
    topics = admin.list_topics(internal=True)
    named = next((name for name in line.arguments if name in topics), None) or next(iter(topics), None)
    return [] if named is None else sorted(admin.describe_topic_configs(named))


def _client_settings(line: Line) -> list[str]:
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings
    from ottla.client.settings.properties import names_of

    return sorted({name for kind in (AdminSettings, ConsumerSettings, ProducerSettings) for name in names_of(kind)})


def _formats(line: Line) -> list[str]:
    from ottla.cli.consume.consume import FORMATS

    return [*FORMATS, "unpack["]


CLIENT_METRICS = 16
"""Kafka's number of the type of resources that are subscriptions to metrics of clients."""
NAMES: dict[str, Callable[[Line], list[str]]] = {
    "topics": _from_cluster(lambda admin, line: admin.list_topics()),
    "groups": _from_cluster(lambda admin, line: [group.group_id for group in admin.list_groups()]),
    "brokers": _from_cluster(lambda admin, line: [str(node.node_id) for node in admin.describe_cluster().nodes]),
    "partitions": _from_cluster(_partitions),
    "client metrics": _from_cluster(lambda admin, line: [each.name for each in admin.list_config_resources(CLIENT_METRICS)]),
    "transactional ids": _from_cluster(lambda admin, line: [each.transactional_id for each in admin.list_transactions()]),
    "topic settings": _from_cluster(_topic_settings),
    "profiles": _profiles,
    "resources": _resources,
    "resources and settings": lambda line: _from_cluster(_settings)(line) if line.arguments else _resources(line),
    "client settings": _client_settings,
    "formats": _formats,
    "positions": lambda line: ["start", "end", "@1h", "@1d"],
    "record positions": lambda line: ["start", "end", "@1h", "@1d", "+10", "-10", "@1h:end"],
}
"""The names of each kind that `completes` can note at an argument."""


def run(parser_for: Callable[[Sequence[str]], Parser], words: Sequence[str]) -> int:
    """Print the candidates, each with a tab and its summary. The first word says whether a command line or single words follow."""
    form, *rest = words or ("words",)
    words = split_line(" ".join(rest)) if form == "line" else rest
    for candidate in candidates(parser_for(words), words):
        print("\t".join(filter(None, candidate)))
    return 0
