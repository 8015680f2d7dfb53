"""Committed offsets read back in great numbers: the two shapes that nearly all stored ones have, without a detour.

Knows the bytes of offset records whose value has version 3, or version 4 with nothing but a topic id as tag (KIP-848), both
without metadata. Whatever looks different is left to `ottla.coord.records.decode_record`, which says what is wrong with it.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from ottla.coord.records import (
    BARE_V3,
    BARE_V4,
    EMPTY_V4,
    NO_TIMESTAMP,
    NO_TOPIC_ID,
    ONE_TAG,
    OffsetCommitted,
    Stored,
    decode_record,
)

KEY_V1: Final = b"\0\1"
_LENGTH: Final = Struct(">h")
_PARTITION: Final = Struct(">i")


class OffsetReader:
    """Reads the records of one partition of `__consumer_offsets`; equal names and ids become one object."""

    __slots__ = ("_ids", "_places", "_timestamp_ms")

    def __init__(self) -> None:
        self._places: dict[bytes, tuple[str, str]] = {}
        self._ids: dict[bytes, bytes] = {NO_TOPIC_ID: NO_TOPIC_ID}
        self._timestamp_ms = NO_TIMESTAMP

    def read(self, key: bytes | None, value: bytes | None) -> Stored | None:
        """As `decode_record`. One function for all that it does, as it is called by the million."""
        if key is None or value is None:
            return decode_record(key or b"", value)
        if len(value) == BARE_V4.size:
            version, offset, leader_epoch, length, timestamp_ms, count, tag, size, topic_id = BARE_V4.unpack(value)
            common = version == 4 and (length,) == EMPTY_V4 and (count, tag, size) == ONE_TAG
            topic_id = self._ids.setdefault(topic_id, topic_id)
        elif len(value) == BARE_V3.size:
            version, offset, leader_epoch, length, timestamp_ms = BARE_V3.unpack(value)
            common, topic_id = version == 3 and not length, NO_TOPIC_ID
        else:
            return decode_record(key, value)
        place = self._places.get(key[:-4]) or self._place(key)
        if place is None or not common:
            return decode_record(key, value)
        if timestamp_ms != self._timestamp_ms:
            self._timestamp_ms = timestamp_ms
        partition = _PARTITION.unpack(key[-4:])[0]
        fields = (*place, partition, offset, leader_epoch, "", self._timestamp_ms, NO_TIMESTAMP, topic_id)
        return tuple.__new__(OffsetCommitted, fields)  # its own constructor takes twice as long

    def _place(self, key: bytes) -> tuple[str, str] | None:
        """Group and topic of an offset's key, or None if it is not a sound one; remembered by all but the partition."""
        try:
            group_end = 4 + _LENGTH.unpack_from(key, 2)[0]
            topic_end = group_end + 2 + _LENGTH.unpack_from(key, group_end)[0]
            if not key.startswith(KEY_V1) or not 4 <= group_end <= topic_end - 2 or topic_end + 4 != len(key):
                return None
            place = key[4:group_end].decode(), key[group_end + 2 : topic_end].decode()
        except (error, UnicodeDecodeError):
            return None
        self._places[key[:-4]] = place
        return place
