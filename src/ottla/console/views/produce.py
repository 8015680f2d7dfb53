"""A message that is produced by hand: its key, value and headers as text, or as JSON that is checked with a schema."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.client.errors import TimedOut
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import Done, PageRefused
from ottla.console.messages.schema_process import encode_apart
from ottla.console.paths import path_of
from ottla.console.views.topic_details import known_topic
from ottla.net.client.producer.async_producer import AsyncProducer
from ottla.schemas.libraries import UnfitValue
from ottla.schemas.places import schema_place

TEXT, JSON, BASE64, HEX, SCHEMA = "text", "json", "base64", "hex", "schema"
INPUTS: Final = (TEXT, JSON, BASE64, HEX, SCHEMA)
PRODUCE_S: Final = 10.0
CHECK_S: Final = 5.0
"""The time, in s, for which a schema may check a value."""
MESSAGE: Final = "/topics/{topic}/messages/{partition}/{offset}"


@dataclass(frozen=True, slots=True)
class ProduceForm:
    """The form of a message for a topic. `inputs` are the forms of keys and values; `schema` needs a registry."""

    topic: str
    partitions: list[int]
    inputs: list[str]
    subject: str


async def produce_form(cluster: ClusterSession, topic: str) -> ProduceForm:
    """Return the form of a message for a topic."""
    found = await known_topic(cluster, topic)
    inputs = [each for each in INPUTS if each != SCHEMA or cluster.config.schema_registry]
    return ProduceForm(topic, sorted(found.partitions), inputs, f"{topic}-value")


async def produce_message(
    cluster: ClusterSession,
    topic: str,
    value: str = "",
    key: str = "",
    headers: str = "",
    partition: int | None = None,
    tombstone: bool = False,
    has_key: bool = True,
    value_input: str = TEXT,
    key_input: str = TEXT,
    subject: str = "",
) -> Done:
    """Produce one message. An empty key is none. A `tombstone` has no value. `headers` has a line NAME: VALUE for each.

    With the input `schema`, the value is JSON, encoded with the newest schema of `subject` (TOPIC-value).
    """
    key_bytes = await _encoded(cluster, "key", key, key_input, f"{topic}-key") if key and has_key else None
    value_bytes = None if tombstone else await _encoded(cluster, "value", value, value_input, subject or f"{topic}-value")
    if tombstone and key_bytes is None:
        raise PageRefused(400, "A tombstone needs a key: it deletes the messages with this key from a compacted topic.")
    sent_headers = _headers(headers)
    settings = {**cluster.settings, "delivery_timeout_ms": int(PRODUCE_S * 1000), "linger_ms": 0}
    async with AsyncProducer(**settings) as producer:
        delivery = await producer.send(topic, value_bytes, key=key_bytes, partition=partition, headers=sent_headers)
        found = await delivery
    return Done(
        f"The message was written to partition {found.partition} of {topic} at offset {found.offset}.",
        path_of(MESSAGE, {"topic": topic, "partition": found.partition, "offset": found.offset}),
    )


async def _encoded(cluster: ClusterSession, field: str, text: str, form: str, subject: str) -> bytes:
    """Return the bytes of a key or a value. Raises `PageRefused`."""
    if form not in INPUTS:
        raise PageRefused(400, f"{form[:60]!r} is no form of a {field}: choose one of {', '.join(INPUTS)}.")
    if form == SCHEMA:
        return await _with_schema(cluster, field, text, subject)
    try:
        return _ENCODERS[form](text)
    except (ValueError, RecursionError) as error:
        raise PageRefused(400, f"The {field} is not {form} ({str(error)[:200]}): correct it, or choose another form.") from None


def _json(text: str) -> bytes:
    json.loads(text)
    return text.encode()


_ENCODERS: Final[dict[str, Callable[[str], bytes]]] = {
    TEXT: str.encode,
    JSON: _json,
    BASE64: lambda text: base64.b64decode("".join(text.split()), validate=True),
    HEX: lambda text: bytes.fromhex(text.removeprefix("0x")),
}


async def _with_schema(cluster: ClusterSession, field: str, text: str, subject: str) -> bytes:
    """Return JSON as a value with the newest schema of a subject. Raises `PageRefused`, and `KafkaError`."""
    if not cluster.config.schema_registry:
        raise PageRefused(400, "No schema registry is configured: start the console with --schema-registry URL.")

    try:
        async with asyncio.timeout(PRODUCE_S):
            schema = await asyncio.to_thread(lambda: schema_place(cluster.config.schema_registry).latest(subject))
    except TimeoutError:
        raise TimedOut(f"The schema registry has not answered within {PRODUCE_S:g} s: try again.") from None
    if schema is None:
        raise PageRefused(400, f"The schema registry has no subject {subject}: register a schema, or name another subject.")
    try:
        return await encode_apart(schema, text.encode(), CHECK_S)
    except UnfitValue as error:
        raise PageRefused(400, f"The {field} does not fit the newest schema of {subject}: {error}.") from None


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    """Return headers of lines NAME: VALUE. A name without a colon has a null value."""
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if line.strip():
            name, colon, value = line.partition(":")
            found.append((name.strip(), value.strip().encode() if colon else None))
    return found
