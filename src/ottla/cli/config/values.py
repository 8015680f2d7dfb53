"""The settings of resources, as `ottla config get` prints them: a table, values only, explanations, or two resources compared."""

from __future__ import annotations

import argparse
import difflib
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.cli.command.connection import options_of_profile, settings
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import BOLD, Cell, as_lines, styled, table, terminal_width
from ottla.cli.config.resource_names import ALL, FORMS, KINDS, NUMBERED, ResourceName, parse_resource
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin.topics import ConfigEntry, ConfigResource, ConfigSynonym
    from ottla.net.client.admin.admin import Admin

HIDDEN = "[hidden]"
NEAR = 0.8
"""The similarity from which a name counts as misspelt: names of settings share many words."""
WIDTH = 100
"""The width of explanations where standard output is not a terminal, in characters."""


def resource_of(admin: Admin, name: ResourceName) -> ConfigResource:
    """Return the resource that the admin client uses. Raises `KafkaError` at once for a broker or a topic that does not exist."""
    from ottla.client.admin.topics import ConfigResource
    from ottla.client.errors import BrokerError, UnknownTopic

    if name.name == ALL and name.kind in NUMBERED:
        return ConfigResource.all_brokers()
    if name.kind in NUMBERED:
        nodes = [node.node_id for node in admin.describe_cluster().nodes]
        if int(name.name) not in nodes:
            raise KafkaError(f"There is no live broker {name.name}: the live ones are {', '.join(map(str, nodes))}.")
        return ConfigResource(KINDS[name.kind], str(int(name.name)))
    if name.kind == "topic":  # describing settings would wait, in case that the topic is new
        try:
            admin.describe_topics(name.name)
        except UnknownTopic:
            raise
        except BrokerError:  # rights to the topic and to its settings are separate
            pass
    return ConfigResource(KINDS[name.kind], name.name)


def list_resources(admin: Admin, options: argparse.Namespace) -> int:
    """Print the resources that have settings, as the words that other commands take."""
    kinds = [KINDS[options.kind]] if options.kind else []
    names = {number: kind for kind, number in KINDS.items()}
    found = [ResourceName(names.get(each.kind, str(each.kind)), each.name) for each in admin.list_config_resources(*kinds)]
    if options.json:
        lines = as_lines({"resource": str(each), "kind": each.kind, "name": each.name} for each in found)
    else:
        lines = [*map(str, found)] or [f"There are no resources of {options.kind or 'any kind'}."]
    for line in lines:
        print(line)
    return 0


def get(admin: Admin, options: argparse.Namespace) -> int:
    words = [*(options.diff or ()), *options.words]
    count = 2 if options.diff else 1
    if len(words) < count:
        return fail(f"name a resource: {FORMS}.", MISUSED)
    try:
        resources = [parse_resource(word) for word in words[:count]]
    except ValueError as error:
        return fail(f"{error}.", MISUSED)
    if options.other is not None and not options.diff:
        return fail("--with is for --diff: leave it out.", MISUSED)
    found = [_described(admin, resources[0], options)]
    if options.diff:
        found.append(_described_of_other(admin, resources[1], options))
    names = list(dict.fromkeys(words[count:]))
    for name in names:
        if not any(name in entries for entries in found):
            holder = f"Neither {resources[0]} nor {resources[1]}" if options.diff else str(resources[0])
            return fail(f"{holder} has {'a' if options.diff else 'no'} setting {name}{nearest(name, found[0])}.")
    if options.diff:
        return _show_differences(resources, found, names, options)
    return _show(resources[0], found[0], names, options)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question for the user that names the known setting nearest to a misspelt one, or an empty string."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=NEAR)
    return f" (did you mean {near[0]}?)" if near else ""


def _described(admin: Admin, resource: ResourceName, options: argparse.Namespace) -> Mapping[str, ConfigEntry]:
    return admin.describe_configs(resource_of(admin, resource), synonyms=options.synonyms, documentation=options.explain)


def _described_of_other(admin: Admin, resource: ResourceName, options: argparse.Namespace) -> Mapping[str, ConfigEntry]:
    """Return the settings of the resource that is compared, in the cluster of the profile of --with, if it is given."""
    from ottla.client.settings.clients import AdminSettings
    from ottla.net.client.admin.admin import Admin

    if options.other is None:
        return _described(admin, resource, options)
    with Admin(**settings(options_of_profile(options.other), AdminSettings)) as other:
        return _described(other, resource, options)


def _show(resource: ResourceName, found: Mapping[str, ConfigEntry], names: list[str], options: argparse.Namespace) -> int:
    wanted = names or sorted(name for name, entry in found.items() if options.all or not entry.is_default)
    entries = [found[name] for name in wanted]
    if options.json:
        lines = as_lines(_object(resource, entry, options) for entry in entries)
    elif options.values:
        lines = [shown(entry) or "" for entry in entries]
    elif options.explain:
        lines = [line for entry in entries for line in _explanation(entry)]
    elif entries:
        lines = _table(entries, options)
    else:
        hint = "" if options.all or not found else ": --all prints the defaults"
        lines = [f"{resource} has no settings{' other than defaults' if found else ' of its own'}{hint}."]
    for line in lines:
        print(line)
    return 0


def shown(entry: ConfigEntry) -> str | None:
    return HIDDEN if entry.is_sensitive else entry.value


def _table(entries: Iterable[ConfigEntry], options: argparse.Namespace) -> list[str]:
    """Return the lines of a table of settings. The last column, notes, is omitted if there are no notes."""
    columns, rows = ["SETTING", "VALUE", "SOURCE"], []
    notes = [_notes(entry) for entry in entries]
    for entry, note in zip(entries, notes, strict=True):
        row: list[Cell] = [entry.name, shown(entry), entry.source_name]
        if options.synonyms:
            row.append("; ".join(_fallback(each, entry) for each in entry.synonyms[1:]) or None)
        rows.append([*row, note] if any(notes) else row)
    columns += ["FALLS BACK TO"] if options.synonyms else []
    return table([*columns, "NOTES"] if any(notes) else columns, rows)


def _notes(entry: ConfigEntry) -> str:
    return ", ".join(note for note, applies in (("read-only", entry.read_only), ("sensitive", entry.is_sensitive)) if applies)


def _fallback(synonym: ConfigSynonym, entry: ConfigEntry) -> str:
    value = HIDDEN if entry.is_sensitive else synonym.value
    return f"{synonym.source_name}: {synonym.name}={'' if value is None else value}"


def _object(resource: ResourceName, entry: ConfigEntry, options: argparse.Namespace) -> dict[str, object]:
    found: dict[str, object] = {
        "resource": str(resource),
        "setting": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": entry.source_name,
        "read_only": entry.read_only,
        "sensitive": entry.is_sensitive,
    }
    if options.synonyms:
        found["synonyms"] = [
            {"setting": each.name, "value": None if entry.is_sensitive else each.value, "source": each.source_name}
            for each in entry.synonyms
        ]
    if options.explain:
        found["documentation"] = _plain(entry.documentation)
    return found


def _explanation(entry: ConfigEntry) -> list[str]:
    text = _plain(entry.documentation) or "The broker does not say what this setting means."
    indented = textwrap.wrap(text, terminal_width() or WIDTH, initial_indent="  ", subsequent_indent="  ")
    value = shown(entry)
    return [f"{styled(entry.name, BOLD)} = {'-' if value is None else value} ({entry.source_name})", *indented]


def _plain(documentation: str) -> str:
    """Return a text of Kafka's documentation without its HTML."""
    from html import unescape

    return " ".join(unescape(re.sub(r"</?[a-zA-Z][^>]*>", "", documentation)).split())


def _show_differences(
    resources: list[ResourceName], found: list[Mapping[str, ConfigEntry]], names: list[str], options: argparse.Namespace
) -> int:
    """Print the settings whose values differ, with the value in each of the two resources. Secrets cannot be compared."""
    one, other = found
    columns = [str(resources[0]), f"{resources[1]} of {options.other}" if options.other else str(resources[1])]
    rows = []
    for name in names or sorted(one.keys() | other.keys()):
        entries = [entries.get(name) for entries in found]
        values = [None if entry is None else shown(entry) for entry in entries]
        if values[0] != values[1]:
            rows.append((name, values, [None if entry is None else entry.source_name for entry in entries]))
    if options.json:
        lines = as_lines({"setting": name, "values": values, "sources": sources} for name, values, sources in rows)
    elif rows:
        lines = table(["SETTING", *columns], [(name, *values) for name, values, _ in rows])
    else:
        lines = [f"{columns[0]} and {columns[1]} do not differ."]
    for line in lines:
        print(line)
    return 0
