"""Entries of users for whom nothing is set any more: out of the shared registry, unless another broker puts a quota below them.

Apache Kafka removes them too. Its brokers and this one may do so at once, so what is removed is read, and checked by the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.cluster import layout
from ottla.cluster.image import configs_in
from ottla.ports import NEW, Change, Condition, Entry, SharedRegistry, Steps

PREFIX = f"{layout.USER_CONFIGS}/"


def without_empty_users(registry: SharedRegistry, changes: Sequence[Change]) -> Steps[list[Change | Condition]]:
    """Return these changes, by which entries of users go that say nothing then, and no others.

    `changes` have the versions that were read. Of a user whose entry is to go though some client id has a quota, it is emptied.
    """
    users = list(dict.fromkeys(_user_of(change) for change in changes if change.value is None and change.path.startswith(PREFIX)))
    if not users:
        return [*changes]
    below = [f"{user}/clients" for user in users]
    entries = yield from registry.read([*users, *below])
    listed = yield from registry.list(below)
    kept: list[Change | Condition] = [change for change in changes if _user_of(change) not in users]
    found = dict(zip((*users, *below), entries, strict=True))
    for user, names in zip(users, listed, strict=True):
        kept += _of_user(user, found, names or (), [change for change in changes if _user_of(change) == user])
    return kept


def _user_of(change: Change) -> str:
    """Return the path of the user's entry that a change is about, or that is above it."""
    return PREFIX + change.path.removeprefix(PREFIX).partition("/")[0] if change.path.startswith(PREFIX) else ""


def _of_user(
    user: str, entries: Mapping[str, Entry | None], names: Sequence[str], changes: Sequence[Change]
) -> list[Change | Condition]:
    entry, clients = entries[user], entries[f"{user}/clients"]
    own = next((change for change in changes if change.path == user), None)
    pairs = [change for change in changes if change is not own]
    left = {f"{user}/clients/{name}" for name in names} - {pair.path for pair in pairs if pair.value is None}
    is_set = own.value is not None if own is not None else entry is not None and bool(configs_in(entry.value))
    if entry is not None and not is_set and not left and all(pair.value is None for pair in pairs):
        version = entry.version if own is None or own.version is None else own.version
        checked = [Condition(f"{user}/clients", NEW if clients is None else clients.version)]
        checked += [Condition(pair.path, pair.version) for pair in pairs if pair.version is not None]
        return [*checked, Change(user, None, version)]
    if own is not None and own.value is None:
        return [own._replace(value=layout.config_json({})), *pairs]
    return [*changes]
