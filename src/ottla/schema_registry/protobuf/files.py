"""Files that Protobuf's schemas may import without a reference: those of Protobuf itself, and of Confluent's converters. Pure."""

from __future__ import annotations

from importlib import import_module
from typing import Any

KNOWN = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent;',
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
        """,
}
"""The texts of files whose options the registry keeps uninterpreted."""
_PREFIXES = ("google/protobuf/", "google/type/")


def find_packaged(name: str) -> Any:
    """Return the descriptor of a file that an installed package has, or None."""
    if not name.startswith(_PREFIXES) or not name.endswith(".proto") or not name[:-6].replace("/", "").isidentifier():
        return None
    try:
        return import_module(f"{name[:-6].replace('/', '.')}_pb2").DESCRIPTOR
    except ImportError:
        return None
