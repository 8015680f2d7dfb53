"""The table of message classes by name, for records of Kafka's internal topics and for values inside bytes fields.

The module maps names to classes, and reads no records.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

import ottla.wire.data
from ottla.wire import headers
from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.schema import Message

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"

_ELSEWHERE: Final = {"transaction_log": TRANSACTION_STATE, "share_group_state": SHARE_GROUP_STATE}
"""The internal topic of the records in each module that is not about `__consumer_offsets`."""

INSIDE: Final[dict[tuple[str, str], type[Message]]] = {
    ("JoinGroupRequest", "protocols.metadata"): ConsumerProtocolSubscription,
    ("JoinGroupResponse", "members.metadata"): ConsumerProtocolSubscription,
    ("SyncGroupRequest", "assignments.assignment"): ConsumerProtocolAssignment,
    ("SyncGroupResponse", "assignment"): ConsumerProtocolAssignment,
    ("DescribeGroupsResponse", "groups.members.member_metadata"): ConsumerProtocolSubscription,
    ("DescribeGroupsResponse", "groups.members.member_assignment"): ConsumerProtocolAssignment,
    ("GroupMetadataValue", "members.subscription"): ConsumerProtocolSubscription,
    ("GroupMetadataValue", "members.assignment"): ConsumerProtocolAssignment,
}
"""The class encoded in a bytes field of a consumer, by (message, field without indices). Other clients use other classes."""


@cache
def others() -> dict[str, type[Message]]:
    """Return all messages that are not requests or responses, by name: headers, stored records, values inside other messages."""
    modules = [headers, *(import_module(f"ottla.wire.data.{found.name}") for found in iter_modules(ottla.wire.data.__path__))]
    return {
        name: thing
        for module in modules
        for name, thing in vars(module).items()
        if isinstance(thing, type) and issubclass(thing, Message) and thing.__module__ == module.__name__
    }


@cache
def record_types(topic: str) -> dict[int, tuple[type[Message], type[Message]]]:
    """Return the key and value classes of an internal topic's records, by the record type with which a key begins."""
    found: dict[int, tuple[type[Message], type[Message]]] = {}
    for name, key in others().items():
        value = others().get(f"{name.removesuffix('Key')}Value")
        if value and _ELSEWHERE.get(key.__module__.rpartition(".")[2], CONSUMER_OFFSETS) == topic:
            found[_type_of(key)] = key, value
    return found


def _type_of(key: type[Message]) -> int:
    """Return the record type of a key, which is its first two bytes. Older declarations of Kafka call it the key's version."""
    return key.WIRE.key if key.WIRE.key >= 0 else key.WIRE.valid.start
