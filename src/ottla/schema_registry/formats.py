"""The formats of schemas: how their texts are parsed and compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Parsed(Protocol):
    """A parsed schema. `text` is its canonical text, by which the registry recognizes it."""

    text: str

    def normalize(self) -> str:
        """Return the text that all spellings of this schema share."""

    def unreadable(self, written: Parsed, *, reader: str, writer: str) -> list[str]:
        """Return the reasons for which this schema cannot read data of another one of its format.

        `reader` and `writer` name the two schemas in the reasons: "new" and "old".
        """

    def format_as(self, name: str) -> str:
        """Return the text in another format of its kind, such as `serialized` for Protobuf; an unknown one is the text."""


Parse = Callable[[str, Mapping[str, str], bool], Parsed]
"""Parses a text. The second argument has the schemas to which it refers, by name, each after those that it needs itself.

The third one is whether the schema is new: old ones are checked less strictly. Raises `InvalidSchema`.
"""
