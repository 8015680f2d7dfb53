"""Bytes <-> typed values: every message of Kafka's protocol, declared once for all its versions.

Knows the protocol's bytes and nothing of records' contents, sockets or files; imports the standard library only. Kernels that need
nothing else do the work where they are compiled (`plans`, `kernel_read`, `kernel_write`); elsewhere Python is generated for it
(`reading`, `writing`). Both do the same.

    from ottla.wire import decode, encode
    from ottla.wire.api.heartbeat import HeartbeatRequest

    data = encode(HeartbeatRequest(group_id="g", generation_id=3), 4)
    heartbeat = decode(HeartbeatRequest, 4, data)

Messages live in `ottla.wire.api.<name>` (requests and responses, found by key in `apis`) and `ottla.wire.data.<name>` (stored or
nested values); `framing` puts headers and sizes around them, `errors` says what the codes mean, `walk` shows where each value
lies. A message has all fields of all versions: those that do not travel in one are at their default after `decode`. A uuid is
16 bytes; a struct in a tag that was not sent is None; records are memoryviews of the input, and whatever has `len()` on the
way out (`encode_parts`).
"""

from __future__ import annotations

from ottla.wire.codec import Part, decode, encode, encode_parts
from ottla.wire.faults import Malformed, Unencodable

__all__ = ["Malformed", "Part", "Unencodable", "decode", "encode", "encode_parts"]
