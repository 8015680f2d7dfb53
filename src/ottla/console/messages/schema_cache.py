"""The schemas of a registry that a session has loaded. Requests to the registry run on another thread, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.console.messages.contents import NO_SCHEMAS, LoadedSchema, Schemas
from ottla.errors import KafkaError
from ottla.inspection.filters import UNDECODED, Decode
from ottla.schemas.frames import FRAME_BYTES, framed_id
from ottla.schemas.libraries import UnfitValue
from ottla.schemas.places import schema_place
from ottla.schemas.values import decoder_of

DEADLINE_S: Final = 3.0
MISSED_FOR_S: Final = 15.0
"""The time, in s, for which a schema that could not be loaded is not requested again."""
MOST_SCHEMAS: Final = 10_000


class SchemaCache:
    """The schemas of a registry by id. Without a registry, `place` is empty and no value is decoded."""

    def __init__(self, place: str) -> None:
        self._place = schema_place(place, "--schema-registry") if place else None
        self._loaded: dict[int, LoadedSchema] = {}
        self._retry_s: dict[int, float] = {}

    @property
    def schemas(self) -> Schemas:
        """Return the schemas that are loaded, and the reasons for those that cannot be."""
        return self._loaded if self._place is not None else NO_SCHEMAS

    @property
    def filter_decoder(self) -> Decode | None:
        """Return the decoder of a filter; None without a registry."""
        return None if self._place is None else self._decode

    def is_used_by(self, filter_text: str) -> bool:
        """Return whether records must be loaded before a filter is evaluated."""
        return bool(filter_text) and self._place is not None

    async def load(self, values: Iterable[bytes | None]) -> None:
        """Load the schemas of framed values that are not loaded yet. A failure is kept as the reason."""
        if self._place is None:
            return
        now_s = time.monotonic()
        wanted = {schema_id for data in values if data is not None and (schema_id := framed_id(data)) is not None}
        for schema_id in sorted(wanted):
            known = self._loaded.get(schema_id)
            if known is None or (known.decode is None and now_s > self._retry_s.get(schema_id, 0)):
                await self._load(schema_id)

    async def _load(self, schema_id: int) -> None:
        if len(self._loaded) >= MOST_SCHEMAS:
            self._loaded.clear()
        try:
            async with asyncio.timeout(DEADLINE_S):
                self._loaded[schema_id] = await asyncio.to_thread(self._request, schema_id)
        except TimeoutError:
            self._loaded[schema_id] = LoadedSchema("", None, f"the schema registry has not answered within {DEADLINE_S:g} s")
        except (KafkaError, UnfitValue) as error:
            self._loaded[schema_id] = LoadedSchema("", None, str(error).rstrip("."))
        if self._loaded[schema_id].decode is None:
            self._retry_s[schema_id] = time.monotonic() + MISSED_FOR_S

    def _request(self, schema_id: int) -> LoadedSchema:
        assert self._place is not None
        schema = self._place.by_id(schema_id)
        if schema is None:
            return LoadedSchema("", None, "the registry does not have it")
        return LoadedSchema(schema.format_name, decoder_of(schema))

    def _decode(self, data: bytes, topic: str) -> object:
        """Decode a framed value by a schema that is loaded, for a filter. Other bytes stay undecoded."""
        schema_id = framed_id(data)
        known = None if schema_id is None else self._loaded.get(schema_id)
        return UNDECODED if known is None or known.decode is None else known.decode(data[FRAME_BYTES:])


def reasons(schemas: Mapping[int, LoadedSchema]) -> list[str]:
    """Return the reasons for which schemas cannot be used, without repetitions."""
    return sorted({each.reason for each in schemas.values() if each.reason})
