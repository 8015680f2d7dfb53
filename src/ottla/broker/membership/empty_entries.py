"""The removal of empty user entries from the shared registry, unless another broker adds a quota below them.

Apache Kafka removes empty user entries too. Another broker can change the entries meanwhile, so the commit verifies their
versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.cluster import layout
from ottla.ports import NEW, Change, Condition, Entry, SharedRegistry, Steps

PREFIX = f"{layout.USER_CONFIGS}/"


def without_empty_users(registry: SharedRegistry, changes: Sequence[Change]) -> Steps[list[Change | Condition]]:
    """Return these changes, extended by the removal of user entries that they leave empty.

    `changes` contain the versions that were read. The entry of a user with a quota for some client id is emptied instead of
    removed.
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
    """Return the path of the user entry that a change modifies or is below; "" if there is none."""
    return PREFIX + change.path.removeprefix(PREFIX).partition("/")[0] if change.path.startswith(PREFIX) else ""


def _of_user(
    user: str, entries: Mapping[str, Entry | None], names: Sequence[str], changes: Sequence[Change]
) -> list[Change | Condition]:
    entry, clients = entries[user], entries[f"{user}/clients"]
    own = next((change for change in changes if change.path == user), None)
    pairs = [change for change in changes if change is not own]
    left = {f"{user}/clients/{name}" for name in names} - {pair.path for pair in pairs if pair.value is None}
    is_set = own.value is not None if own is not None else entry is not None and bool(layout.configs_in(entry.value))
    if entry is not None and not is_set and not left and all(pair.value is None for pair in pairs):
        version = entry.version if own is None or own.version is None else own.version
        checked = [Condition(f"{user}/clients", NEW if clients is None else clients.version)]
        checked += [Condition(pair.path, pair.version) for pair in pairs if pair.version is not None]
        return [*checked, Change(user, None, version)]
    if own is not None and own.value is None:
        return [own._replace(value=layout.config_json({})), *pairs]
    return [*changes]
