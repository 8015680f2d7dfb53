"""Bytes <-> typed values: every message of Kafka's protocol, declared once for all its versions.

Knows the protocol's bytes and nothing of records' contents, sockets or files; imports the standard library only.

    from ottla.wire import decode, encode
    from ottla.wire.api.heartbeat import HeartbeatRequest

    data = encode(HeartbeatRequest(group_id="g", generation_id=3), 4)
    heartbeat = decode(HeartbeatRequest, 4, data)

Messages live in `ottla.wire.api.<name>` (requests and responses, found by key in `apis`) and `ottla.wire.data.<name>` (stored or
nested values). `schema` is the language they are declared in; `codec` reads and writes them; `framing` puts headers and sizes
around them; `errors` says what the codes mean; `inspection` shows where each value lies.

A message has all fields of all versions: those that do not travel in one are at their default after `decode`. A uuid is 16 bytes.
A struct in a tag that was not sent is None. Records are memoryviews of the input, and whatever has `len()` on the way out
(`encode_parts`).
"""

from __future__ import annotations

from ottla.wire.codec.messages import Part, decode, encode, encode_parts
from ottla.wire.faults import Malformed, Unencodable

__all__ = ["Malformed", "Part", "Unencodable", "decode", "encode", "encode_parts"]
