"""The encoding of the records of groups in `__consumer_offsets`, declared as one `RecordKind` for each type of record.

It depends on the messages of stored records, and not on the groups that the records change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from ottla.coord.runtime.machine import KeyAndValue
from ottla.values import dataclass
from ottla.wire.data import decode_key, decode_value, encode_key, encode_value
from ottla.wire.schema import Message

VERSION = 0
"""The version of all values, which grow by tagged fields."""

OF_GROUP = ("group_id",)
"""The key of a record of the whole group."""


@dataclass(frozen=True, slots=True)
class RecordKind:
    """The encoding of one type of a group's records in `__consumer_offsets`.

    `key` and `value` are the message classes of a stored record. In memory, `stored` is the class of the record, and `forgotten` of
    its tombstone. `names` are the key's fields. `write(record)` returns the message of the value, and `read(value, *fields)` makes
    the record from the value and the key's fields.
    """

    key: type[Any]
    value: type[Message]
    stored: type[Any]
    forgotten: type[Any]
    write: Callable[[Never], Message]
    read: Callable[..., Any]
    names: tuple[str, ...] = ("group_id", "member_id")

    def decode(self, key: bytes, value: bytes | None) -> Any:
        """Return a stored record. Raises `Malformed`."""
        read = decode_key(self.key, key)
        fields = [getattr(read, name) for name in self.names]
        return self.forgotten(*fields) if value is None else self.read(decode_value(self.value, value)[1], *fields)


class RecordKinds:
    """The encodings of all records of one kind of groups. The first field of each record is the group id.

    `stored` are the types of the records. `decoders` are by the number with which the key begins; they raise `Malformed`.
    """

    __slots__ = ("_kind_of", "decoders", "stored")

    def __init__(self, *kinds: RecordKind) -> None:
        self._kind_of = {record: kind for kind in kinds for record in (kind.stored, kind.forgotten)}
        self.stored = frozenset(self._kind_of)
        self.decoders: dict[int, Callable[[bytes, bytes | None], Any]] = {kind.key.WIRE.key: kind.decode for kind in kinds}

    def encode(self, record: Any) -> KeyAndValue:
        """Return a record's stored key and value. The value of a tombstone is None. Raises `Unencodable`."""
        kind = self._kind_of[type(record)]
        value = None if type(record) is kind.forgotten else encode_value(kind.write(record), VERSION)
        return self.encode_key(record), value

    def encode_key(self, record: Any) -> bytes:
        """Return the key of a record, which begins with the fields of its key. Raises `Unencodable`."""
        kind = self._kind_of[type(record)]
        return encode_key(kind.key(**dict(zip(kind.names, record, strict=False))))
