"""Codecs between bytes and typed values: every message of Kafka's protocol, declared once for all its versions.

It handles the protocol's bytes, but not the contents of records, and no sockets or files. It imports only the standard library.

    from ottla.wire import decode, encode
    from ottla.wire.api.heartbeat import HeartbeatRequest

    data = encode(HeartbeatRequest(group_id="g", generation_id=3), 4)
    heartbeat = decode(HeartbeatRequest, 4, data)

Requests and responses are in `ottla.wire.api.<name>`; `apis` finds them by API key. Stored and nested values are in
`ottla.wire.data.<name>`. `schema` is the language of the declarations, and `codec` reads and writes messages. `framing` adds
headers and sizes. `errors` explains the error codes. `inspection` shows the position of each value.

A message has the fields of all versions. After `decode`, a field that the version does not have is set to its default. A uuid is
16 bytes. A struct in a tagged field that was not sent is None. Records are memoryviews of the input after `decode`, and any object
with `len()` for `encode_parts`.
"""

from __future__ import annotations

from ottla.wire.codec.messages import Part, decode, encode, encode_parts
from ottla.wire.faults import Malformed, Unencodable

__all__ = ["Malformed", "Part", "Unencodable", "decode", "encode", "encode_parts"]
