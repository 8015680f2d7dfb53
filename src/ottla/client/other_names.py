"""Methods of other Kafka clients, whose use raises an `AttributeError` that names Ottla's method.

The classes have no `__getattr__`, because it would slow down each access to an attribute, also in `send`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

NAMES = {
    "Producer": "bootstrap_connected cluster_id create_batch list_topics max_usable_produce_magic produce "
    "produce_batch send_and_wait send_batch send_offsets_to_transaction set_sasl_credentials start stop",
    "Consumer": "bootstrap bootstrap_connected cluster_id commit_async consume consumer_group_metadata "
    "get_watermark_offsets getmany getone highwater last_poll_timestamp last_stable_offset list_topics "
    "memberid partitions_for_topic set_sasl_credentials start stop store_offsets topics unassign",
    "Admin": "alter_consumer_group_offsets alter_user_scram_credentials api_versions cluster_id "
    "delete_consumer_groups describe_acls describe_consumer_groups describe_metadata_quorum "
    "describe_topic_partitions describe_user_scram_credentials find_coordinator get_broker_version_data "
    "incremental_alter_configs list_consumer_group_offsets list_consumer_groups list_partition_offsets "
    "poll remove_group_members reset_configs reset_group_offsets set_sasl_credentials start "
    "wait_for_topics",
}
"""Methods of other clients, by Ottla's class. A name that Ottla's class has itself is ignored."""


class OtherName:
    """A method of another client's class. Access raises `AttributeError`, as for any missing attribute."""

    def __init__(self, kind: str, name: str) -> None:
        self._kind, self._name = kind, name

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError(missing_method(self._kind, self._name), name=self._name, obj=instance)


def missing_method(kind: str, name: str) -> str:
    """Return the message about a method that another client has, and the class `kind` does not have."""
    from ottla.client.other_clients import find_method  # imported here, because only mistaken programs need it

    if name == "start":  # the asynchronous classes have this method
        return f"{kind} has no method start; a blocking client is started when it is made."
    here = find_method(kind, name)
    note = here.note.replace("`", "")
    if here.name not in ("", name):
        return f"{kind} has no method {name}; it is called {here.name} here. {note}".rstrip()
    if not note:
        return f"{kind} has no method {name}."
    return f"{kind} has no method {name}; {note if here.note[0] == '`' else note[0].lower() + note[1:]}"


class ClientType(type(Protocol)):  # type: ignore[misc]  # so that a class can derive from a client, and from a Protocol or an ABC
    """The type of the client classes. It gives Ottla's own the methods of other clients, as attributes that raise.

    `dir` and `help` list them neither for a class nor for an object.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        super().__init__(name, bases, namespace, **options)
        if cls.__module__.startswith("ottla."):
            for other in NAMES.get(name.removeprefix("Async"), "").split():
                if not hasattr(cls, other):
                    setattr(cls, other, OtherName(name, other))
            cls.__dir__ = _dir  # type: ignore[assignment, method-assign]  # a method of the class's objects

    def __dir__(cls) -> list[str]:
        return _without_other_names(super().__dir__(), cls.__mro__)


def _dir(self: object) -> list[str]:
    return _without_other_names(object.__dir__(self), type(self).__mro__, vars(self))


def _without_other_names(
    listed: Iterable[str], kinds: Sequence[type], own: Mapping[str, object] = MappingProxyType({})
) -> list[str]:
    """Return the sorted names of attributes, without those that are methods of other clients. `own` are those of an object."""
    found: dict[str, object] = {}
    for kind in reversed(kinds):
        found |= vars(kind)
    found |= own
    return sorted({*listed} - {name for name, attribute in found.items() if isinstance(attribute, OtherName)})
