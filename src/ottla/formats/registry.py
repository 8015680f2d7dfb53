"""Schema registries for typed columns: a registry over HTTP, or a directory with a file for each schema.

Values of a registry begin with a zero byte and the four bytes of their schema's id. In a directory, schema 7 of subject
flights-value is `flights-value/7.avsc` (or `.json`, or `.desc`); ids are unique in the directory. The text of a Protobuf schema is
a set of descriptors in base64.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ottla.errors import KafkaError
from ottla.formats.errors import OptionError
from ottla.formats.protobuf_schema import files_of
from ottla.schemas.frames import set_of_files
from ottla.schemas.places import SchemaPlace
from ottla.schemas.schema import AVRO, JSON, PROTOBUF, ValueSchema

FORMATS = (AVRO, JSON, PROTOBUF)


class Registered(NamedTuple):
    """A schema that a schema registry has stored, with its id."""

    schema_id: int
    text: str
    format_name: str = ""


class SchemaRegistry:
    """A schema registry. Every method raises `OptionError` if the registry does not answer."""

    def __init__(self, place: SchemaPlace) -> None:
        self._place = place

    def by_id(self, schema_id: int, format_name: str) -> str | None:
        """Return the text of a schema; None for an unknown id."""
        with option_errors():
            found = self._place.by_id(schema_id, format_name)
        return None if found is None else _text(found, format_name)

    def latest(self, subject: str, format_name: str) -> Registered | None:
        """Return the newest schema of a subject; None if it has none."""
        with option_errors():
            found = self._place.latest(subject, format_name)
        if found is None or found.schema_id is None:
            return None
        known = found.format_name if found.format_name in FORMATS else ""
        return Registered(found.schema_id, _text(found, format_name), known)

    def register(self, subject: str, format_name: str, text: str) -> int:
        """Add a schema to a subject unless the subject has it. Return the schema's id."""
        if format_name == PROTOBUF and not self._place.keeps_sets:
            text = _one_file(text)
        with option_errors():
            return self._place.register(subject, format_name, text)


@contextmanager
def option_errors() -> Iterator[None]:
    """Return a context manager that raises errors of a registry as `OptionError`."""
    try:
        yield
    except KafkaError as error:
        raise OptionError(str(error)) from None


def _text(found: ValueSchema, format_name: str) -> str:
    """Return a schema's own text, or of Protobuf a set of all descriptors in base64."""
    if PROTOBUF in (format_name, found.format_name):
        return base64.b64encode(set_of_files(found.texts)).decode()
    try:
        return found.texts[-1].decode()
    except UnicodeDecodeError:
        raise OptionError(f"{found.where} is a schema of the registry, and is no UTF-8: write it anew.") from None


def _one_file(text: str) -> str:
    """Return the descriptor of the only file in a set, in base64. Raises `OptionError` if the file imports others."""
    *imported, (_, file) = files_of(base64.b64decode(text))
    others = [name for name, _ in imported if not name.startswith("google/protobuf/")]
    if others:
        raise OptionError(
            f"The schema to register imports {', '.join(others)}: register all of them, and give no schema, so that the newest one "
            "of the subject is written."
        )
    return base64.b64encode(file).decode()


def subject_of(topic: str, column: str) -> str:
    """Return the subject of a topic's keys or values."""
    return f"{topic}-{column}"
