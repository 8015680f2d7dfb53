"""The two sources of schemas by id or subject: a registry at a URL, or a directory with files such as `SUBJECT/7.avsc` (id 7)."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ottla.errors import SettingError
from ottla.schemas.schema import SUFFIXES, ValueSchema, schema_of_file


class SchemaPlace(Protocol):
    """The interface of a source of schemas. Methods raise `KafkaError` if a registry does not answer."""

    def by_id(self, schema_id: int) -> ValueSchema | None:
        """Return the schema with this id; None for an unknown id."""

    def latest(self, subject: str) -> ValueSchema | None:
        """Return the newest schema of a subject; None for an unknown subject."""


class SchemaDirectory:
    """A directory with a folder for each subject, in which each schema is a file named by its id.

    Ids are unique in the directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def by_id(self, schema_id: int) -> ValueSchema | None:
        return self._newest(self._directory.glob(f"*/{schema_id}.*"))

    def latest(self, subject: str) -> ValueSchema | None:
        return self._newest((self._directory / subject).glob("*.*"))

    @staticmethod
    def _newest(paths: Iterable[Path]) -> ValueSchema | None:
        files = [path for path in paths if path.stem.isdecimal() and path.suffix in SUFFIXES]
        found = max(files, key=lambda path: int(path.stem), default=None)
        return None if found is None else schema_of_file(str(found))._replace(schema_id=int(found.stem))


def schema_place(text: str) -> SchemaPlace:
    """Return the source of schemas that the option --schema-registry names: a URL or a directory.

    Raises `SettingError` for any other text.
    """
    try:
        parts = urllib.parse.urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        is_url = False
    if is_url:
        from ottla.schemas.registry_client import RegistryClient  # an HTTP client takes long to import

        return RegistryClient(text, "--schema-registry", "--schema FILE#MESSAGE")
    if text and Path(text).is_dir():
        return SchemaDirectory(Path(text))
    raise SettingError(f"--schema-registry {text!r} is not a URL such as http://localhost:8081, nor a directory: give one.")
