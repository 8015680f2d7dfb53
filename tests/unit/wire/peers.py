"""How other people's codecs, kio and kafka-python, are asked to read bytes and write them again."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

from ottla.wire.schema import Message

Rewrite = Callable[[bytes], bytes]
"""Reads what we wrote and writes it again, in a codec that we had no hand in."""


def place_in_kio(cls: type[Message], version: int) -> str | None:
    """Return where kio has the message in that version, as module:attribute, without importing it; None if it has none."""
    from kio.schema.index import schema_name_map
    from kio.static.constants import EntityType

    name = re.sub("(Request|Response)$", "", cls.__name__)
    if name.endswith("Header"):
        return None
    entities: dict[Any, str] | None = (
        dict[str, Any](schema_name_map)
        .get(re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower(), {})
        .get(version)
    )
    if not entities:
        return None
    kinds = {"Request": EntityType.request, "Response": EntityType.response}
    return entities.get(kinds.get(cls.__name__.removeprefix(name), EntityType.data))


def kio(cls: type[Message], version: int) -> Rewrite | None:
    """kio's codec; None where it does not know the message in that version."""
    from kio.serial import entity_reader, entity_writer

    place = place_in_kio(cls, version)
    if place is None:
        return None
    module, _, attribute = place.partition(":")
    entity = getattr(importlib.import_module(module), attribute)
    read, write = entity_reader(entity), entity_writer(entity)

    def rewrite(data: bytes) -> bytes:
        value, size = read(data, 0)
        assert size == len(data)
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return rewrite


def kafka_python(cls: type[Message], version: int) -> Rewrite | None:
    """kafka-python's codec; None where it does not know the message in that version."""
    peer = _kafka_python_classes().get(cls.__name__)
    if peer is None or version > peer.valid_versions[1]:
        return None
    prefix = version.to_bytes(2, "big") if cls.__name__.startswith("ConsumerProtocol") else b""

    def rewrite(data: bytes) -> bytes:
        value = peer.decode(prefix + data, version=version)
        value._header = None  # what it decodes, it can encode only with a header set
        return bytes(value.encode(version=version)).removeprefix(prefix)

    return rewrite


_CLASSES: dict[str, Any] = {}


def _kafka_python_classes() -> dict[str, Any]:
    if not _CLASSES:
        for module in ("admin", "consumer", "metadata", "producer", "sasl"):
            importlib.import_module(f"kafka.protocol.{module}")
        from kafka.protocol.api_data import ApiData
        from kafka.protocol.api_message import ApiMessage

        for found in (*_below(ApiMessage), *_below(ApiData)):
            _CLASSES.setdefault(found.__name__, found)
    return _CLASSES


def _below(cls: Any) -> Iterator[Any]:
    for found in cls.__subclasses__():
        yield found
        yield from _below(found)
