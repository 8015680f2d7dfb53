"""The choice of a consumer's cursor class. A consumer without deserializers and interceptors gets the plain, fastest one."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.deserializing_cursor import DeserializingCursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.consumer.intercepting_cursor import InterceptingCursor
from ottla.client.interceptors import ConsumerInterceptors
from ottla.client.serializers import RecordDeserializer
from ottla.client.settings.clients import ConsumerSettings, ShareConsumerSettings


def cursor_opener(
    settings: ConsumerSettings | ShareConsumerSettings, interceptors: ConsumerInterceptors
) -> Callable[[Chunk], Cursor]:
    """Return the function that opens the chunks of a consumer with these settings."""
    if not (settings.deserializes or settings.interceptors):
        return Cursor
    deserializer = RecordDeserializer(settings.key_deserializer, settings.value_deserializer)
    if settings.interceptors:
        return lambda chunk: InterceptingCursor(chunk, deserializer, interceptors)
    return lambda chunk: DeserializingCursor(chunk, deserializer)
