"""The keyword arguments of clients by types of keys and values. Written by `tools/keywords.py`, not by hand.

Only type checkers read the module: overloads of `Producer` and `Consumer` infer the types of keys and values from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypedDict, TypeVar

from ottla.client.consumer.rebalance_listeners import Listener
from ottla.client.keywords import ConsumerKeywords, ConsumerOptions, ProducerOptions
from ottla.schemas.registry_values import RegistrySerializer

Key = TypeVar("Key")
Value = TypeVar("Value")


class ListenerKeywords(TypedDict, total=False):
    """The rebalance listeners of a consumer."""

    on_assigned: Listener | None
    on_revoked: Listener | None
    on_lost: Listener | None


class AnyConsumer(ConsumerKeywords, ListenerKeywords):
    """Keyword arguments of a consumer."""


class ProducerKeyBytes(TypedDict, total=False):
    """Keys of bytes."""

    key_serializer: Literal["bytes"] | None


class ProducerKeyOwn(TypedDict, Generic[Key]):
    """Keys of a function's type."""

    key_serializer: Callable[[Key], bytes | None]


class ProducerKeyStr(TypedDict):
    """Keys of str."""

    key_serializer: Literal["str"]


class ProducerKeyInt(TypedDict):
    """Keys of int."""

    key_serializer: Literal["int16", "int32", "int64"]


class ProducerKeyAny(TypedDict):
    """Keys of any type."""

    key_serializer: Literal["bool", "float32", "float64", "json", "uuid"] | RegistrySerializer


class ProducerValueBytes(TypedDict, total=False):
    """Values of bytes."""

    value_serializer: Literal["bytes"] | None


class ProducerValueOwn(TypedDict, Generic[Value]):
    """Values of a function's type."""

    value_serializer: Callable[[Value], bytes | None]


class ProducerValueStr(TypedDict):
    """Values of str."""

    value_serializer: Literal["str"]


class ProducerValueInt(TypedDict):
    """Values of int."""

    value_serializer: Literal["int16", "int32", "int64"]


class ProducerValueAny(TypedDict):
    """Values of any type."""

    value_serializer: Literal["bool", "float32", "float64", "json", "uuid"] | RegistrySerializer


class ProducerBytesBytes(ProducerOptions, ProducerKeyBytes, ProducerValueBytes):
    """Keys of bytes, values of bytes."""


class ProducerBytesOwn(ProducerOptions, ProducerKeyBytes, ProducerValueOwn[Value]):
    """Keys of bytes, values of a function's type."""


class ProducerBytesStr(ProducerOptions, ProducerKeyBytes, ProducerValueStr):
    """Keys of bytes, values of str."""


class ProducerBytesInt(ProducerOptions, ProducerKeyBytes, ProducerValueInt):
    """Keys of bytes, values of int."""


class ProducerBytesAny(ProducerOptions, ProducerKeyBytes, ProducerValueAny):
    """Keys of bytes, values of any type."""


class ProducerOwnBytes(ProducerOptions, ProducerKeyOwn[Key], ProducerValueBytes):
    """Keys of a function's type, values of bytes."""


class ProducerOwnOwn(ProducerOptions, ProducerKeyOwn[Key], ProducerValueOwn[Value]):
    """Keys of a function's type, values of a function's type."""


class ProducerOwnStr(ProducerOptions, ProducerKeyOwn[Key], ProducerValueStr):
    """Keys of a function's type, values of str."""


class ProducerOwnInt(ProducerOptions, ProducerKeyOwn[Key], ProducerValueInt):
    """Keys of a function's type, values of int."""


class ProducerOwnAny(ProducerOptions, ProducerKeyOwn[Key], ProducerValueAny):
    """Keys of a function's type, values of any type."""


class ProducerStrBytes(ProducerOptions, ProducerKeyStr, ProducerValueBytes):
    """Keys of str, values of bytes."""


class ProducerStrOwn(ProducerOptions, ProducerKeyStr, ProducerValueOwn[Value]):
    """Keys of str, values of a function's type."""


class ProducerStrStr(ProducerOptions, ProducerKeyStr, ProducerValueStr):
    """Keys of str, values of str."""


class ProducerStrInt(ProducerOptions, ProducerKeyStr, ProducerValueInt):
    """Keys of str, values of int."""


class ProducerStrAny(ProducerOptions, ProducerKeyStr, ProducerValueAny):
    """Keys of str, values of any type."""


class ProducerIntBytes(ProducerOptions, ProducerKeyInt, ProducerValueBytes):
    """Keys of int, values of bytes."""


class ProducerIntOwn(ProducerOptions, ProducerKeyInt, ProducerValueOwn[Value]):
    """Keys of int, values of a function's type."""


class ProducerIntStr(ProducerOptions, ProducerKeyInt, ProducerValueStr):
    """Keys of int, values of str."""


class ProducerIntInt(ProducerOptions, ProducerKeyInt, ProducerValueInt):
    """Keys of int, values of int."""


class ProducerIntAny(ProducerOptions, ProducerKeyInt, ProducerValueAny):
    """Keys of int, values of any type."""


class ProducerAnyBytes(ProducerOptions, ProducerKeyAny, ProducerValueBytes):
    """Keys of any type, values of bytes."""


class ProducerAnyOwn(ProducerOptions, ProducerKeyAny, ProducerValueOwn[Value]):
    """Keys of any type, values of a function's type."""


class ProducerAnyStr(ProducerOptions, ProducerKeyAny, ProducerValueStr):
    """Keys of any type, values of str."""


class ConsumerKeyBytes(TypedDict, total=False):
    """Keys of bytes."""

    key_deserializer: Literal["bytes"] | None


class ConsumerKeyOwn(TypedDict, Generic[Key]):
    """Keys of a function's type."""

    key_deserializer: Callable[[bytes], Key]


class ConsumerKeyStr(TypedDict):
    """Keys of str."""

    key_deserializer: Literal["str"]


class ConsumerKeyInt(TypedDict):
    """Keys of int."""

    key_deserializer: Literal["int16", "int32", "int64"]


class ConsumerKeyAny(TypedDict):
    """Keys of any type."""

    key_deserializer: Literal["bool", "float32", "float64", "json", "uuid"]


class ConsumerValueBytes(TypedDict, total=False):
    """Values of bytes."""

    value_deserializer: Literal["bytes"] | None


class ConsumerValueOwn(TypedDict, Generic[Value]):
    """Values of a function's type."""

    value_deserializer: Callable[[bytes], Value]


class ConsumerValueStr(TypedDict):
    """Values of str."""

    value_deserializer: Literal["str"]


class ConsumerValueInt(TypedDict):
    """Values of int."""

    value_deserializer: Literal["int16", "int32", "int64"]


class ConsumerValueAny(TypedDict):
    """Values of any type."""

    value_deserializer: Literal["bool", "float32", "float64", "json", "uuid"]


class ConsumerBytesBytes(ConsumerOptions, ListenerKeywords, ConsumerKeyBytes, ConsumerValueBytes):
    """Keys of bytes, values of bytes."""


class ConsumerBytesOwn(ConsumerOptions, ListenerKeywords, ConsumerKeyBytes, ConsumerValueOwn[Value]):
    """Keys of bytes, values of a function's type."""


class ConsumerBytesStr(ConsumerOptions, ListenerKeywords, ConsumerKeyBytes, ConsumerValueStr):
    """Keys of bytes, values of str."""


class ConsumerBytesInt(ConsumerOptions, ListenerKeywords, ConsumerKeyBytes, ConsumerValueInt):
    """Keys of bytes, values of int."""


class ConsumerBytesAny(ConsumerOptions, ListenerKeywords, ConsumerKeyBytes, ConsumerValueAny):
    """Keys of bytes, values of any type."""


class ConsumerOwnBytes(ConsumerOptions, ListenerKeywords, ConsumerKeyOwn[Key], ConsumerValueBytes):
    """Keys of a function's type, values of bytes."""


class ConsumerOwnOwn(ConsumerOptions, ListenerKeywords, ConsumerKeyOwn[Key], ConsumerValueOwn[Value]):
    """Keys of a function's type, values of a function's type."""


class ConsumerOwnStr(ConsumerOptions, ListenerKeywords, ConsumerKeyOwn[Key], ConsumerValueStr):
    """Keys of a function's type, values of str."""


class ConsumerOwnInt(ConsumerOptions, ListenerKeywords, ConsumerKeyOwn[Key], ConsumerValueInt):
    """Keys of a function's type, values of int."""


class ConsumerOwnAny(ConsumerOptions, ListenerKeywords, ConsumerKeyOwn[Key], ConsumerValueAny):
    """Keys of a function's type, values of any type."""


class ConsumerStrBytes(ConsumerOptions, ListenerKeywords, ConsumerKeyStr, ConsumerValueBytes):
    """Keys of str, values of bytes."""


class ConsumerStrOwn(ConsumerOptions, ListenerKeywords, ConsumerKeyStr, ConsumerValueOwn[Value]):
    """Keys of str, values of a function's type."""


class ConsumerStrStr(ConsumerOptions, ListenerKeywords, ConsumerKeyStr, ConsumerValueStr):
    """Keys of str, values of str."""


class ConsumerStrInt(ConsumerOptions, ListenerKeywords, ConsumerKeyStr, ConsumerValueInt):
    """Keys of str, values of int."""


class ConsumerStrAny(ConsumerOptions, ListenerKeywords, ConsumerKeyStr, ConsumerValueAny):
    """Keys of str, values of any type."""


class ConsumerIntBytes(ConsumerOptions, ListenerKeywords, ConsumerKeyInt, ConsumerValueBytes):
    """Keys of int, values of bytes."""


class ConsumerIntOwn(ConsumerOptions, ListenerKeywords, ConsumerKeyInt, ConsumerValueOwn[Value]):
    """Keys of int, values of a function's type."""


class ConsumerIntStr(ConsumerOptions, ListenerKeywords, ConsumerKeyInt, ConsumerValueStr):
    """Keys of int, values of str."""


class ConsumerIntInt(ConsumerOptions, ListenerKeywords, ConsumerKeyInt, ConsumerValueInt):
    """Keys of int, values of int."""


class ConsumerIntAny(ConsumerOptions, ListenerKeywords, ConsumerKeyInt, ConsumerValueAny):
    """Keys of int, values of any type."""


class ConsumerAnyBytes(ConsumerOptions, ListenerKeywords, ConsumerKeyAny, ConsumerValueBytes):
    """Keys of any type, values of bytes."""


class ConsumerAnyOwn(ConsumerOptions, ListenerKeywords, ConsumerKeyAny, ConsumerValueOwn[Value]):
    """Keys of any type, values of a function's type."""


class ConsumerAnyStr(ConsumerOptions, ListenerKeywords, ConsumerKeyAny, ConsumerValueStr):
    """Keys of any type, values of str."""
