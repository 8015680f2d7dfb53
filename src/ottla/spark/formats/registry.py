"""Blocking clients of schema registries: Confluent's protocol over HTTP, or a directory with a file for each schema.

Values of a registry begin with a zero byte and the four bytes of their schema's id. In a directory, schema 7 of subject
flights-value is `flights-value/7.avsc` (or `.json`, or `.desc`); ids are unique in the directory. The text of a Protobuf schema is
a set of descriptors in base64.
"""

from __future__ import annotations

import base64
import itertools
import os
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from ottla.errors import KafkaError
from ottla.schemas.registry_client import RegistryClient
from ottla.schemas.schema import AVRO, JSON, PROTOBUF, ValueSchema
from ottla.spark.errors import OptionError
from ottla.spark.formats.protobuf_schema import files_of, join

SUFFIXES = {AVRO: ".avsc", JSON: ".json", PROTOBUF: ".desc"}


class Registered(NamedTuple):
    """A schema that a schema registry has stored, with its id."""

    schema_id: int
    text: str
    format_name: str = ""


class SchemaRegistry(Protocol):
    """A schema registry. Every method raises `OptionError` if the registry does not answer."""

    def by_id(self, schema_id: int, format_name: str) -> str | None:
        """Return the text of a schema; None for an unknown id."""

    def latest(self, subject: str, format_name: str) -> Registered | None:
        """Return the newest schema of a subject; None if it has none."""

    def register(self, subject: str, format_name: str, text: str) -> int:
        """Add a schema to a subject unless the subject has it. Return the schema's id."""


class HttpRegistry:
    """A registry at a URL. The URL can contain a user and a password."""

    def __init__(self, url: str) -> None:
        self._client = RegistryClient(url, "option schemaRegistry", "valueSchema, and leave schemaRegistry out")

    def by_id(self, schema_id: int, format_name: str) -> str | None:
        with _option_errors():
            found = self._client.by_id(schema_id, format_name)
        return None if found is None else _text(found, format_name)

    def latest(self, subject: str, format_name: str) -> Registered | None:
        with _option_errors():
            found = self._client.latest(subject, format_name)
        if found is None or found.schema_id is None:
            return None
        return Registered(found.schema_id, _text(found, format_name), found.format_name if found.format_name in SUFFIXES else "")

    def register(self, subject: str, format_name: str, text: str) -> int:
        if format_name == PROTOBUF:
            text = _one_file(text)
        with _option_errors():
            return self._client.register(subject, format_name, text)


@contextmanager
def _option_errors() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise OptionError(str(error)) from None


def _text(found: ValueSchema, format_name: str) -> str:
    """Return a schema's own text, or of Protobuf a set of all descriptors in base64."""
    if format_name == PROTOBUF:
        return base64.b64encode(join(found.texts)).decode()
    return found.texts[-1].decode()


def _one_file(text: str) -> str:
    """Return the descriptor of the only file in a set, in base64. Raises `OptionError` if the file imports others."""
    *imported, (_, file) = files_of(base64.b64decode(text))
    others = [name for name, _ in imported if not name.startswith("google/protobuf/")]
    if others:
        raise OptionError(
            f"The schema to register imports {', '.join(others)}: register all of them, and leave out valueSchema, so that the "
            "newest schema of the subject is written."
        )
    return base64.b64encode(file).decode()


class DirectoryRegistry:
    """A registry in a directory, whose schemas are files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def by_id(self, schema_id: int, format_name: str) -> str | None:
        found = next(self._directory.glob(f"*/{schema_id}.*"), None)
        return None if found is None else _read(found)

    def latest(self, subject: str, format_name: str) -> Registered | None:
        files = [path for path in (self._directory / subject).glob("*.*") if path.stem.isdecimal()]
        if not files:
            return None
        newest = max(files, key=lambda path: int(path.stem))
        formats = {suffix: name for name, suffix in SUFFIXES.items()}
        return Registered(int(newest.stem), _read(newest), formats.get(newest.suffix, ""))

    def register(self, subject: str, format_name: str, text: str) -> int:
        own = self._directory / subject
        own.mkdir(exist_ok=True)
        for path in own.glob(f"*{SUFFIXES[format_name]}"):
            if _read(path) == text:
                return int(path.stem)
        # Two tasks can register at the same time. The task that creates the file of an id gets the id.
        names = (int(path.stem) for path in self._directory.glob("*/*.*") if path.stem.isdecimal())
        for schema_id in itertools.count(1 + max(names, default=0)):
            if self._put(own / f"{schema_id}{SUFFIXES[format_name]}", text):
                return schema_id
        raise AssertionError("there is always another id")

    def _put(self, path: Path, text: str) -> bool:
        """Create a schema's file atomically. Return False if another schema has its id."""
        draft = path.with_name(f".{uuid.uuid4().hex}")
        draft.write_bytes(base64.b64decode(text) if path.suffix == SUFFIXES[PROTOBUF] else text.encode())
        try:
            os.link(draft, self._directory / f".{path.stem}")  # this file reserves the id in all subjects
            draft.replace(path)
        except FileExistsError:
            draft.unlink()
            return False
        return True


def _read(path: Path) -> str:
    held = path.read_bytes()
    if path.suffix == SUFFIXES[PROTOBUF]:
        return base64.b64encode(held).decode()
    try:
        return held.decode()
    except UnicodeDecodeError:
        raise OptionError(f"{path} is a schema of the registry, and is no UTF-8: write it anew.") from None


def registry_of(place: str) -> SchemaRegistry:
    """Return the registry of option schemaRegistry. Raises `OptionError`."""
    try:
        parts = urllib.parse.urlsplit(place)
        _ = parts.port  # the property raises for an invalid port
    except ValueError as error:
        raise OptionError(f"Option schemaRegistry is not a URL ({error}): give one such as http://127.0.0.1:8081.") from None
    if parts.scheme in ("http", "https"):
        return HttpRegistry(place)
    if not place or not Path(place).is_dir():
        raise OptionError(
            f"Option schemaRegistry must be a URL such as http://127.0.0.1:8081, or a directory; {place!r} is neither."
        )
    return DirectoryRegistry(Path(place))


def subject_of(topic: str, column: str) -> str:
    """Return the subject of a topic's keys or values."""
    return f"{topic}-{column}"
