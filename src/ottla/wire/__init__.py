"""Codecs between bytes and typed values: every message of Kafka's protocol, declared once for all its versions.

It covers the protocol's bytes, not the contents of records, sockets or files. It imports the standard library only.

    from ottla.wire import decode, encode
    from ottla.wire.api.heartbeat import HeartbeatRequest

    data = encode(HeartbeatRequest(group_id="g", generation_id=3), 4)
    heartbeat = decode(HeartbeatRequest, 4, data)

Messages are in `ottla.wire.api.<name>` (requests and responses, found by API key in `apis`) and `ottla.wire.data.<name>` (stored or
nested values). `schema` is the language that declares them; `codec` reads and writes them; `framing` adds headers and sizes;
`errors` explains the error codes; `inspection` shows the position of each value.

A message has the fields of all versions: after `decode`, a field that its version lacks has its default. A uuid is 16 bytes. A
struct in a tagged field that was not sent is None. Records are memoryviews of the input after `decode`, and any object with
`len()` for `encode_parts`.
"""

from __future__ import annotations

from ottla.wire.codec.messages import Part, decode, encode, encode_parts
from ottla.wire.faults import Malformed, Unencodable

__all__ = ["Malformed", "Part", "Unencodable", "decode", "encode", "encode_parts"]
