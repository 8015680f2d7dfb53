"""The two sources of schemas by id or subject: a registry at a URL, or a directory with files such as `SUBJECT/7.avsc` (id 7)."""

from __future__ import annotations

import base64
import os
import urllib.parse
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ottla.errors import SettingError
from ottla.schemas.schema import AVRO, JSON, PROTOBUF, SUFFIXES, ValueSchema, read_schema

WRITTEN_SUFFIXES = {AVRO: ".avsc", JSON: ".json", PROTOBUF: ".desc"}


class SchemaPlace(Protocol):
    """The interface of a source of schemas. Methods raise `KafkaError` if a registry does not answer.

    `keeps_sets`: schemas of Protobuf are registered as sets of descriptors with all that they import, and not as one file.
    """

    keeps_sets: bool

    def by_id(self, schema_id: int, format_name: str = "") -> ValueSchema | None:
        """Return the schema with this id; None for an unknown id. The format, if it is known, can save a request."""

    def latest(self, subject: str, format_name: str = "") -> ValueSchema | None:
        """Return the newest schema of a subject; None for an unknown subject."""

    def register(self, subject: str, format_name: str, text: str) -> int:
        """Add a schema to a subject unless the subject has it. Return the schema's id. The text of Protobuf is in base64."""


class SchemaDirectory:
    """A directory with a folder for each subject, in which each schema is a file named by its id.

    Ids are unique in the directory.
    """

    keeps_sets = True

    def __init__(self, directory: Path, option: str) -> None:
        self._directory, self._option = directory, option

    def by_id(self, schema_id: int, format_name: str = "") -> ValueSchema | None:
        return self._newest(self._directory.glob(f"*/{schema_id}.*"))

    def latest(self, subject: str, format_name: str = "") -> ValueSchema | None:
        return self._newest((self._directory / subject).glob("*.*"))

    def _newest(self, paths: Iterable[Path]) -> ValueSchema | None:
        files = [path for path in paths if path.stem.isdecimal() and path.suffix in SUFFIXES]
        found = max(files, key=lambda path: int(path.stem), default=None)
        return None if found is None else read_schema(found, self._option)._replace(schema_id=int(found.stem))

    def register(self, subject: str, format_name: str, text: str) -> int:
        own, suffix = self._directory / subject, WRITTEN_SUFFIXES[format_name]
        data = base64.b64decode(text) if format_name == PROTOBUF else text.encode()
        own.mkdir(exist_ok=True)
        for path in own.glob(f"*{suffix}"):
            if path.read_bytes() == data:
                return int(path.stem)
        # Two tasks can register at the same time. The task that creates the file of an id gets the id.
        names = (int(path.stem) for path in self._directory.glob("*/*.*") if path.stem.isdecimal())
        schema_id = 1 + max(names, default=0)
        while not self._put(own / f"{schema_id}{suffix}", data):
            schema_id += 1
        return schema_id

    def _put(self, path: Path, data: bytes) -> bool:
        """Create a schema's file atomically. Return False if another schema has its id."""
        draft = path.with_name(f".{uuid.uuid4().hex}")
        draft.write_bytes(data)
        try:
            os.link(draft, self._directory / f".{path.stem}")  # this file reserves the id in all subjects
            draft.replace(path)
        except FileExistsError:
            draft.unlink()
            return False
        return True


def schema_place(text: str, option: str = "--schema-registry", instead: str = "--schema FILE#MESSAGE") -> SchemaPlace:
    """Return the registry of an option. `instead` names a schema without it, for messages. Raises `SettingError`."""
    try:
        parts = urllib.parse.urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        is_url = False
    if is_url:
        from ottla.schemas.registry_client import RegistryClient  # an HTTP client takes long to import

        return RegistryClient(text, option, instead)
    if text and Path(text).is_dir():
        return SchemaDirectory(Path(text), option)
    shown = text.rpartition("@")[2]  # without a password
    raise SettingError(f"{option} {shown!r} is not a URL such as http://localhost:8081, nor a directory: give one.")
