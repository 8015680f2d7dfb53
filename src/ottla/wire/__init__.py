"""Bytes <-> typed values: every message of Kafka's protocol, declared once for all its versions.

Knows the protocol's bytes and nothing of records' contents, sockets or files; imports the standard library only.
Messages live in `ottla.wire.api.<name>` (requests and responses) and `ottla.wire.data.<name>` (stored or nested values).
"""

from __future__ import annotations

from ottla.wire.codec import Part, decode, encode, encode_parts
from ottla.wire.faults import Malformed, Unencodable

__all__ = ["Malformed", "Part", "Unencodable", "decode", "encode", "encode_parts"]
