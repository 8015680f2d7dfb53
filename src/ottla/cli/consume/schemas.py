"""Schemas of Avro and Protobuf: from a file, from a schema registry (Confluent's protocol), or from a directory of schemas.

Values of a registry begin with a zero byte and the four bytes of their schema's id. In a directory, schema 7 of any subject is
`SUBJECT/7.avsc`, `7.json` or `7.desc`, as the pipelines with Spark have them.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from ottla.cli.consume.format_libraries import Undecodable, library
from ottla.errors import SettingError

MAGIC = b"\0"
FRAME_BYTES = 5
TIMEOUT_S = 10
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
AVRO, PROTOBUF, JSON = "avro", "protobuf", "json"
_SUFFIXES = {".avsc": AVRO, ".desc": PROTOBUF, ".pb": PROTOBUF, ".binpb": PROTOBUF, ".json": JSON}
Decode = Callable[[bytes], object]


class SchemaSource:
    """The schemas of values. Values with the frame of a registry name their schema; other values have the schema of the file."""

    def __init__(self, file: str | None, registry: str | None) -> None:
        """Read the file. Raises `SettingError`."""
        self._registry = registry.rstrip("/") if registry is not None else None
        self._decoders: dict[int, Decode] = {}
        self._of_file: tuple[str, Decode] | None = None if file is None else _decoder_of_file(file)

    def require(self, format_name: str) -> None:
        """Raise `SettingError` if the schema of the file is of another format."""
        if self._of_file is not None and self._of_file[0] != format_name:
            raise SettingError(f"The file of --schema is of {self._of_file[0]}, not of {format_name}: name another one.")

    def decode(self, data: bytes, topic: str) -> object:
        """Return the content of a value. Raises `Undecodable`, and `SettingError` if the registry does not answer."""
        if self._registry is not None and data[:1] == MAGIC and len(data) >= FRAME_BYTES:
            schema_id = int.from_bytes(data[1:FRAME_BYTES], "big")
            if schema_id not in self._decoders:
                self._decoders[schema_id] = self._decoder_of_id(schema_id, self._registry)
            return self._decoders[schema_id](data[FRAME_BYTES:])
        if self._of_file is not None:
            return self._of_file[1](data)
        return data  # a value without a frame is none of the registry's

    def _decoder_of_id(self, schema_id: int, registry: str) -> Decode:
        if not registry.startswith(("http://", "https://")):
            found = next((path for path in Path(registry).glob(f"*/{schema_id}.*") if path.suffix in _SUFFIXES), None)
            if found is None:
                raise Undecodable(f"the registry {registry} has no schema {schema_id}")
            return _decoder_of_file(str(found), schema_id=schema_id)[1]
        schema = _get(registry, f"/schemas/ids/{schema_id}")
        kind = schema.get("schemaType") or "AVRO"
        if kind == "JSON":
            return _json_decoder
        if kind == "PROTOBUF":
            files = _descriptors(registry, _get(registry, f"/schemas/ids/{schema_id}?format=serialized"), {})
            return _protobuf_decoder(files, None, framed=True)
        named: dict[str, Any] = {}
        _add_references(registry, schema, named)
        return _avro_decoder(str(schema["schema"]), f"schema {schema_id}", named)


def _get(registry: str, path: str) -> dict[str, Any]:
    """Return the answer of a registry. Raises `Undecodable` for an unknown schema, and `SettingError` without an answer."""
    parts = urllib.parse.urlsplit(registry)
    host = parts.netloc.rpartition("@")[2]
    headers = {"Accept": MEDIA_TYPE}
    if parts.username is not None:
        user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    url = urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=TIMEOUT_S) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                raise Undecodable(f"the registry at {url} has no {path.partition('?')[0]}") from None
            raise SettingError(f"The schema registry at {url} answered {error.code} to {path}: check --schema-registry.") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SettingError(f"The schema registry at {url} does not answer ({error}): check --schema-registry.") from None
    if not isinstance(found, dict) or "schema" not in found:
        raise SettingError(f"{url} is not a schema registry: check --schema-registry.")
    return found


def _reference(registry: str, reference: dict[str, Any], query: str = "") -> dict[str, Any]:
    subject = urllib.parse.quote(str(reference["subject"]), safe="")
    return _get(registry, f"/subjects/{subject}/versions/{reference['version']}{query}")


def _add_references(registry: str, schema: dict[str, Any], named: dict[str, Any]) -> None:
    """Add the types that a schema of Avro names, and those that they name, to `named`."""
    for reference in schema.get("references") or ():
        if reference["name"] not in named:
            other = _reference(registry, reference)
            _add_references(registry, other, named)
            library("fastavro", "Avro").parse_schema(json.loads(other["schema"]), named_schemas=named)


def _descriptors(registry: str, schema: dict[str, Any], files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the descriptors of the files that a schema imports, then its own, by name. Raises `SettingError`."""
    for reference in schema.get("references") or ():
        if reference["name"] not in files:
            files[reference["name"]] = b""  # so that a circular import is requested once
            other = _descriptors(registry, _reference(registry, reference, "?format=serialized"), files)
            files[reference["name"]] = other.pop("")
    try:
        files[""] = base64.b64decode(str(schema["schema"]), validate=True)
    except ValueError:
        raise SettingError(
            "The schema registry gives schemas of Protobuf as text alone: name a file of descriptors with --schema FILE#MESSAGE."
        ) from None
    return files


def _decoder_of_file(name: str, *, schema_id: int | None = None) -> tuple[str, Decode]:
    """Return the format and the decoder of a schema's file, of which `FILE#MESSAGE` names a message. Raises `SettingError`."""
    path, _, message = name.partition("#")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"Cannot read the schema {path}: {error.strerror}; name a readable file.") from None
    format_name = _SUFFIXES.get(Path(path).suffix, AVRO)
    if format_name == JSON and schema_id is not None:
        return JSON, _json_decoder
    if format_name != PROTOBUF:
        return AVRO, _avro_decoder(data.decode(errors="replace"), path, {})
    descriptors = library("google.protobuf.descriptor_pb2", "Protobuf")
    try:
        files = {file.name: file.SerializeToString() for file in descriptors.FileDescriptorSet.FromString(data).file}
    except Exception as error:  # protobuf's own exception has no public base
        raise SettingError(f"{path} is no set of descriptors ({error}): make it with protoc --include_imports -o {path}.") from None
    return PROTOBUF, _protobuf_decoder(files, message or None, framed=schema_id is not None)


def _json_decoder(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError as error:
        raise Undecodable(f"it is no JSON ({error})") from None


def _avro_decoder(text: str, name: str, named: dict[str, Any]) -> Decode:
    fastavro = library("fastavro", "Avro")
    try:
        schema = fastavro.parse_schema(json.loads(text), named_schemas=named)
    except Exception as error:  # a schema of users: fastavro raises many kinds
        raise SettingError(f"{name} is no schema of Avro ({error}): correct it, or name another one.") from None

    def decode(data: bytes) -> object:
        stream = BytesIO(data)
        try:
            found: object = fastavro.schemaless_reader(stream, schema, None)
        except Exception as error:  # damaged bytes: fastavro raises many kinds
            raise Undecodable(f"it does not fit {name} of Avro ({type(error).__name__}: {error})") from None
        if stream.tell() != len(data):
            raise Undecodable(f"{len(data) - stream.tell()} bytes remain after a value of {name} of Avro")
        return found

    return decode


def _protobuf_decoder(files: dict[str, bytes], message: str | None, *, framed: bool) -> Decode:
    """Return the decoder of a message, by default the first one of the last file. Framed values name the message by its place."""
    pool_module = library("google.protobuf.descriptor_pool", "Protobuf")
    factory = library("google.protobuf.message_factory", "Protobuf")
    json_format = library("google.protobuf.json_format", "Protobuf")
    descriptors = library("google.protobuf.descriptor_pb2", "Protobuf")
    for known in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"):
        library(f"google.protobuf.{known}_pb2", "Protobuf")
    pool = pool_module.DescriptorPool()
    last = None
    try:
        for data in files.values():
            file = descriptors.FileDescriptorProto.FromString(data)
            _add_well_known(pool, pool_module.Default(), descriptors, file)
            pool.AddSerializedFile(data)
            last = pool.FindFileByName(file.name)
        if last is None:
            raise SettingError("The schema of Protobuf has no file: make it with protoc --include_imports.")
        first = pool.FindMessageTypeByName(message) if message else next(iter(last.message_types_by_name.values()))
    except (KeyError, TypeError, StopIteration) as error:
        raise SettingError(
            f"The schema of Protobuf lacks {message or 'messages'} ({error}): name one as --schema FILE#MESSAGE."
        ) from None
    in_order = list(last.message_types_by_name.values())

    def decode(data: bytes) -> object:
        chosen, body = _framed_message(in_order, data) if framed else (first, data)
        try:
            parsed = factory.GetMessageClass(chosen).FromString(body)
            found: object = json_format.MessageToDict(parsed, preserving_proto_field_name=True, descriptor_pool=pool)
        except Exception as error:  # protobuf's own exception has no public base
            raise Undecodable(f"it is no {chosen.full_name} of Protobuf ({error})") from None
        return found

    return decode


def _add_well_known(pool: Any, known: Any, descriptors: Any, file: Any) -> None:
    """Add the descriptors of Protobuf's well-known types that a file imports: sets and registries can lack them."""
    for name in file.dependency:
        if name.startswith("google/protobuf/"):
            try:
                pool.FindFileByName(name)
            except KeyError:
                added = descriptors.FileDescriptorProto()
                known.FindFileByName(name).CopyToProto(added)
                _add_well_known(pool, known, descriptors, added)
                pool.AddSerializedFile(added.SerializeToString())


def _framed_message(messages: list[Any], data: bytes) -> tuple[Any, bytes]:
    """Return the message that the first numbers of a framed value choose, and the rest. One zero stands for the first message."""
    count, at = _zigzag(data, 0)
    path = [0] if count == 0 else []
    for _ in range(min(count, len(data))):
        index, at = _zigzag(data, at)
        path.append(index)
    found: Any = None
    try:
        for index in path:
            found = (messages if found is None else list(found.nested_types))[index]
    except IndexError:
        raise Undecodable(f"it names message {path}, which its schema of Protobuf lacks") from None
    return found, data[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise Undecodable("it ends within the numbers that name its message of Protobuf")
