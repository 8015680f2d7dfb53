"""Types of Avro. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(eq=False, slots=True)
class AvroType:
    """A type. Only the attributes of its kind are set. A record can contain itself."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    branches: tuple[AvroType, ...] = ()
    inner: AvroType | None = None
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0

    @property
    def short_name(self) -> str:
        """Return the name without its namespace."""
        return self.name.rpartition(".")[2]
