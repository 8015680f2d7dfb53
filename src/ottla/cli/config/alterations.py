"""The changes of settings: `ottla config set` and `unset`, which print each value before and after."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.command import confirm
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.files import read_properties
from ottla.cli.command.output import as_lines
from ottla.cli.command.parser import first_duplicate
from ottla.cli.config.resource_names import ALL, ResourceName, SettingChange, changed_list
from ottla.cli.config.values import nearest, resource_of
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin.topics import ConfigEntry, ConfigResource
    from ottla.net.client.admin.admin import Admin

OWN_SOURCES = {"topic": 1, "broker": 2, "loggers": 6, "client-metrics": 7, "group": 8}
"""Kafka's number of the source of values that are set for a resource of this kind."""
LISTED_WHOLE = ("topic", "broker", "group")
"""Kinds of resources whose settings brokers list completely, also unset ones. This does not apply to all brokers together."""
OF_ALL_BROKERS = 3
SECRETS = re.compile(r"password|secret|jaas\.config|\.key$", re.IGNORECASE)
"""Names of settings that are secrets. Brokers mark only secrets that they list."""


LISTENER = "listener.name."
THROTTLES = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Settings that every broker knows, but lists only once they are set."""
"""The start of settings of one listener, which brokers list only if they are set."""


class ChangedSetting(NamedTuple):
    """A setting before and after a change; None means that it has no value. A removed setting was perhaps never set."""

    name: str
    before: str | None
    after: str | None
    is_secret: bool
    was_set: bool = True


def set_values(admin: Admin, options: argparse.Namespace) -> int:
    """Change settings. Note names that the broker has not listed, because brokers also keep settings of plug-ins."""
    changes: list[SettingChange] = [*options.changes]
    if options.file is not None:
        changes += [SettingChange(name, "set", value) for name, value in read_properties(options.file).items()]
    names = [change.name for change in changes]
    if not names:
        reason = "nothing to change" if options.file is None else f"{options.file} has no settings"
        return fail(f"{reason}: add NAME=VALUE or {'--file' if options.file is None else 'name another file'}.", MISUSED)
    if (twice := first_duplicate(names)) is not None:
        return fail(f"{twice} is given twice: leave out one.", MISUSED)
    resource = resource_of(admin, options.resource)
    before = _before(admin, resource)
    _alter(admin, options, resource, before, names, changes=changes)
    outcomes = [_outcome(change, before) for change in changes]
    if before and options.resource.kind == "broker" and options.resource.name != ALL:
        for name in names:
            if name not in before and name not in THROTTLES and not name.startswith(LISTENER):
                sentence = f"{options.resource} has listed no setting {name}{nearest(name, before)}: a plug-in may read it"
                print(f"ottla: {sentence}.", file=sys.stderr)
    _report(options, outcomes)
    return 0


def _outcome(change: SettingChange, before: Mapping[str, ConfigEntry]) -> ChangedSetting:
    entry = before.get(change.name)
    value = None if entry is None else entry.value
    after = change.value if change.operation == "set" else changed_list(value, change.operation, change.value)
    return ChangedSetting(change.name, value, after, _is_secret(change.name, entry))


def unset_values(admin: Admin, options: argparse.Namespace) -> int:
    if (mistake := _unset_mistake(options)) is not None:
        return fail(mistake, MISUSED)
    resource = resource_of(admin, options.resource)
    before = _before(admin, resource)
    source = OF_ALL_BROKERS if options.resource == ("broker", ALL) else OWN_SOURCES[options.resource.kind]
    names = list(dict.fromkeys(options.names))
    if options.all:
        names = sorted(name for name, entry in before.items() if entry.source == source)
        if not names:
            if not options.json:
                print(f"{options.resource} has no settings of its own.")
            return 0
        effect = f"This removes {len(names)} setting{'s' * (len(names) > 1)} of {options.resource}: {', '.join(names)}."
        if not options.dry_run and (unconfirmed := confirm.refused(options, effect, options.resource.name)) is not None:
            return unconfirmed
    elif (unknown := _unknown(options.resource, names, before)) is not None:
        return fail(f"{options.resource} has no setting {unknown}{nearest(unknown, before)}.")
    _alter(admin, options, resource, before, names)
    outcomes = [_restored(name, before.get(name), source) for name in names]
    if options.resource.kind == "loggers" and not options.dry_run:  # the level of the parent, which only the broker knows
        levels = admin.describe_configs(resource)
        outcomes = [each._replace(after=levels[each.name].value if each.name in levels else None) for each in outcomes]
    _report(options, outcomes)
    return 0


def _unset_mistake(options: argparse.Namespace) -> str | None:
    """Return a sentence about wrong arguments of `config unset`, or None."""
    if bool(options.names) == options.all:
        return "name settings, or give --all."
    if wrong := next((name for name in options.names if "=" in name), None):
        return f"{wrong!r} is no name of a setting: leave out = and what follows."
    if options.all and options.resource.kind == "loggers":
        return "--all is not for loggers, whose levels all are values of their own: name loggers."
    return None


def _unknown(resource: ResourceName, names: Iterable[str], before: Mapping[str, ConfigEntry]) -> str | None:
    """Return the first name that brokers do not list for a resource, if they list all settings of resources of its kind."""
    if not before or resource.kind not in LISTED_WHOLE or resource.name == ALL:
        return None
    return next((name for name in names if name not in before), None)


def _restored(name: str, entry: ConfigEntry | None, source: int) -> ChangedSetting:
    """Return a setting before and after the removal of the value that has the given source."""
    if entry is None or entry.source != source:
        value = None if entry is None else entry.value
        return ChangedSetting(name, value, value, _is_secret(name, entry), was_set=False)
    after = next((each.value for each in entry.synonyms if each.source != source), None)
    return ChangedSetting(name, entry.value, after, _is_secret(name, entry))


def _is_secret(name: str, entry: ConfigEntry | None) -> bool:
    return SECRETS.search(name) is not None if entry is None else entry.is_sensitive


def _before(admin: Admin, resource: ConfigResource) -> Mapping[str, ConfigEntry]:
    """Return the settings before a change. Return none for a user who is allowed to change them, but not to describe them."""
    from ottla.client.errors import BrokerError

    try:
        return admin.describe_configs(resource, synonyms=True)
    except BrokerError as error:
        if error.name.endswith("AUTHORIZATION_FAILED"):
            return {}
        raise


def _alter(
    admin: Admin,
    options: argparse.Namespace,
    resource: ConfigResource,
    before: Mapping[str, ConfigEntry],
    names: Iterable[str],
    changes: Iterable[SettingChange] | None = None,
) -> None:
    """Send the changes, or the removal of `names` if there are none. An error about an unknown name also has the nearest name."""
    from ottla.client.errors import BrokerError

    given: dict[str, dict[str, str]] = {"set": {}, "append": {}, "subtract": {}}
    for change in changes or ():
        given[change.operation][change.name] = change.value
    removed = names if changes is None else ()
    try:
        admin.alter_configs(resource, **given, delete=removed, validate_only=options.dry_run)
    except BrokerError as error:
        near = "".join(nearest(name, before) for name in names if name not in before)
        if not near or "did you mean" in str(error):
            raise
        raise KafkaError(f"{str(error).rstrip('.')}{near}.") from error


def _report(options: argparse.Namespace, outcomes: Iterable[ChangedSetting]) -> None:
    for each in outcomes:
        if options.json:
            values = {"before": None, "after": None} if each.is_secret else {"before": each.before, "after": each.after}
            row = {"resource": str(options.resource), "setting": each.name, **values, "dry_run": options.dry_run}
            print(*as_lines([row]), flush=True)
        else:
            print(_sentence(options, each), flush=True)


def _sentence(options: argparse.Namespace, each: ChangedSetting) -> str:
    names_default = options.resource.kind != "loggers" and options.resource.name != ALL
    before, after = (
        absent if value is None else value or '""'
        for value, absent in ((each.before, "not set"), (each.after, "the default again" if names_default else "not set"))
    )
    about = f"{options.resource}: {each.name}"
    is_, was = ("would be", "is") if options.dry_run else ("is", "was")
    if not each.was_set:
        return f"{about} was not set for it{'' if each.after is None else f'; its value is {after}'}."
    if each.is_secret:
        return f"{about} {is_} {'removed' if each.after is None else 'changed'}; its value is hidden."
    return f"{about} {is_} {after} ({was} {before})."
