"""Values as clients of schema registries write them: a zero byte, the schema's id in four bytes, and the encoded value.

All values with the same schema id are decoded together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pyarrow as pa

from ottla.formats.bulk import Decoded, Decoder, Encoder
from ottla.formats.cursors import Cursors, Ints, together
from ottla.schemas.frames import FRAME_BYTES, frame

_UNFRAMED = "it does not begin with a zero byte and the id of its schema, as values of a registry do"


class FramedDecoder:
    """A `Decoder` of values that begin with a schema id. It uses another decoder for each schema.

    `find` returns None for an id that the registry does not have.
    """

    def __init__(self, kind: pa.DataType, find: Callable[[int], Decoder | None]) -> None:
        self._kind = kind
        self._find = find
        self._found: dict[int, Decoder] = {}

    def decode(self, values: pa.Array) -> Decoded:
        cursors = Cursors.over(values.fill_null(b"") if values.null_count else values)
        there = values.is_valid().to_numpy(zero_copy_only=False)
        ids = _ids(cursors)
        wrong = dict.fromkeys(numpy.nonzero(there & (ids < 0))[0].tolist(), _UNFRAMED)
        made = [pa.nulls(1, self._kind)]
        places = numpy.zeros(len(values), dtype=numpy.int64)
        for schema_id in numpy.unique(ids[there & (ids >= 0)]).tolist():
            (rows,) = numpy.nonzero(there & (ids == schema_id))
            decoder = self._decoder(schema_id)
            if decoder is None:
                wrong |= dict.fromkeys(rows.tolist(), f"the registry has no schema {schema_id}, which it names")
                continue
            starts = cursors.at[rows] + FRAME_BYTES
            decoded = decoder.decode(cursors.gather(starts, cursors.end[rows] - starts))
            wrong |= {int(rows[row]): why for row, why in decoded.wrong.items()}
            places[rows] = numpy.arange(len(rows)) + sum(map(len, made))
            made.append(decoded.values)
        return Decoded(pa.concat_arrays(made).take(pa.array(places)), wrong)

    def _decoder(self, schema_id: int) -> Decoder | None:
        found = self._found.get(schema_id)
        if found is None and (found := self._find(schema_id)) is not None:
            self._found[schema_id] = found
        return found


def _ids(cursors: Cursors) -> Ints:
    """Return the schema id of each value, or -1 if it has none."""
    near = numpy.minimum(cursors.at[:, None] + numpy.arange(FRAME_BYTES), len(cursors.data) - 1)
    prefixes = cursors.data[near]
    ids = numpy.ascontiguousarray(prefixes[:, 1:]).view(">u4").reshape(-1).astype(numpy.int64)
    framed = (cursors.end - cursors.at >= FRAME_BYTES) & (prefixes[:, 0] == 0)
    return numpy.where(framed, ids, -1)


class FramedEncoder:
    """An `Encoder` that writes the schema id, and for Protobuf the message's path, before the bytes of another encoder."""

    def __init__(self, schema_id: int, inner: Encoder, place: bytes = b"") -> None:
        self._prefix = frame(schema_id) + place
        self._inner = inner

    def encode(self, column: pa.Array) -> pa.Array:
        return together(self._prefix, self._inner.encode(column))
