"""Blocking clients of schema registries: Confluent's protocol over HTTP, or a directory with a file for each schema.

Values of a registry begin with a zero byte and the four bytes of their schema's id. In a directory, schema 7 of subject
flights-value is `flights-value/7.avsc` (or `.json`, or `.desc`); ids are unique in the directory. The text of a Protobuf schema is
a set of descriptors in base64.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import os
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ottla.spark.errors import OptionError
from ottla.spark.formats.protobuf_schema import files_of, joined

TIMEOUT_S = 10
MOST_SAID = 300
"""The number of bytes of a refusal that are shown."""
PROTOBUF = "protobuf"
MOST_REFERENCES = 1000
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
SUFFIXES = {"avro": ".avsc", "json": ".json", PROTOBUF: ".desc"}
TYPES = {"avro": "AVRO", "json": "JSON", PROTOBUF: "PROTOBUF"}


class Registered(NamedTuple):
    """A schema of a registry."""

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
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self._url = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
        if parts.username is not None:
            user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def by_id(self, schema_id: int, format_name: str) -> str | None:
        found = self._ask(f"/schemas/ids/{schema_id}{_query(format_name)}")
        return None if found is None else self._text(found, format_name)

    def latest(self, subject: str, format_name: str) -> Registered | None:
        found = self._version(subject, "latest", format_name)
        return None if found is None else Registered(self._id(found), self._text(found, format_name), _format_of(found))

    def _version(self, subject: str, version: object, format_name: str) -> dict[str, Any] | None:
        return self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}{_query(format_name)}")

    def _text(self, found: dict[str, Any], format_name: str) -> str:
        if not isinstance(found.get("schema"), str):
            raise self._no_registry()
        if format_name != PROTOBUF:
            return str(found["schema"])
        files: dict[str, bytes] = {}
        self._gather(found, files, "")
        return base64.b64encode(joined(files.values())).decode()

    def _gather(self, found: dict[str, Any], files: dict[str, bytes], name: str) -> None:
        """Add the descriptors of a schema's imports to `files`, then its own. Raises `OptionError`."""
        for each in found.get("references") or ():
            if each["name"] not in files and len(files) < MOST_REFERENCES:
                files[each["name"]] = b""  # so that a circular import is requested once
                if (other := self._version(each["subject"], each["version"], PROTOBUF)) is not None:
                    self._gather(other, files, each["name"])
        files.pop(name, None)
        try:
            files[name] = base64.b64decode(str(found["schema"]), validate=True)
        except ValueError:
            raise OptionError(
                f"The schema registry at {self._url} gives schemas of Protobuf as text alone: name a file of descriptors with "
                "valueSchema, and leave schemaRegistry out."
            ) from None

    def register(self, subject: str, format_name: str, text: str) -> int:
        if format_name == PROTOBUF:
            text = _one_file(text)
        body = json.dumps({"schema": text, "schemaType": TYPES[format_name]}).encode()
        found = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions", body)
        if found is None:
            raise OptionError(
                f"The schema registry at {self._url} takes no schema for subject {subject}: check option schemaRegistry."
            )
        return self._id(found)

    def _id(self, found: dict[str, Any]) -> int:
        schema_id = found.get("id")
        if type(schema_id) is not int or not 0 <= schema_id < 1 << 32:
            raise self._no_registry()
        return schema_id

    def _no_registry(self) -> OptionError:
        return OptionError(f"What answers at {self._url} is not a schema registry: check option schemaRegistry.")

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any] | None:
        request = urllib.request.Request(self._url + path, body, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            said = _refusal(error)
            if error.code == 404 and '"error_code"' in said:  # only a registry answers with this
                return None
            raise OptionError(f"The schema registry at {self._url} answered {error.code} to {path}: {said}") from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise OptionError(
                f"The schema registry at {self._url} does not answer ({error}): check option schemaRegistry."
            ) from None
        if not isinstance(found, dict):
            raise self._no_registry()
        return found


def _refusal(error: urllib.error.HTTPError) -> str:
    """Return the beginning of a server's answer, or less if the connection breaks."""
    with error:
        try:
            return error.read(MOST_SAID).decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return ""


def _query(format_name: str) -> str:
    """Return the query string of a request. It requests a Protobuf schema in the form of a descriptor."""
    return "?format=serialized" if format_name == PROTOBUF else ""


def _format_of(found: dict[str, Any]) -> str:
    """Return the format of a schema. A schema without a type is Avro."""
    formats = {type_name: name for name, type_name in TYPES.items()}
    return formats.get(str(found.get("schemaType") or TYPES["avro"]), "")


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
