"""Values by a schema: JSON texts become Avro, Protobuf, or JSON that a JSON Schema has checked.

A file's name says its format: `.avsc` is Avro, `.json` JSON Schema, `.desc` Protobuf, made with `protoc --include_imports
--descriptor_set_out=FILE.desc`; `FILE.desc#air.Flight` names the message if there are several. With a registry, values begin with a
zero byte and the schema's id, as Confluent's serializers write them. The libraries are imported for their format only.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ottla.cli.produce.records import BadInput
from ottla.errors import KafkaError, SettingError

Encode = Callable[[bytes], bytes]
FORMATS = {".avsc": "AVRO", ".json": "JSON", ".desc": "PROTOBUF"}
PACKAGES = {"fastavro": "fastavro", "jsonschema": "jsonschema", "google.protobuf": "protobuf"}
TIMEOUT_S = 10
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
SHOWN = 200
"""The number of characters of a library's or a server's message that are shown."""


class ValueSchema(NamedTuple):
    """A schema. `prefix` begins each value; `text` of Protobuf is a set of descriptors, `message` names one of its messages."""

    format_name: str
    text: bytes
    where: str
    message: str = ""
    prefix: bytes = b""


def encoder(options: argparse.Namespace) -> Encode | None:
    """Return the encoder of values, which raises `BadInput`; None without a schema. Raises `SettingError` and `KafkaError`."""
    if options.schema is not None:
        schema = _of_file(options.schema)
    elif options.schema_registry is not None:
        schema = _of_registry(options.schema_registry, f"{options.topic}-value")
    else:
        return None
    makers = {"AVRO": _avro, "JSON": _json_schema, "PROTOBUF": _protobuf}
    encode = makers[schema.format_name](schema)
    return lambda value: schema.prefix + encode(value)


def _of_file(name: str) -> ValueSchema:
    path, _, message = name.partition("#")
    format_name = FORMATS.get(Path(path).suffix)
    if format_name is None:
        raise SettingError(f"--schema {name}: name a file that ends in .avsc (Avro), .json (JSON Schema) or .desc (Protobuf).")
    try:
        return ValueSchema(format_name, Path(path).read_bytes(), path, message)
    except OSError as error:
        raise SettingError(f"--schema: cannot read {path}: {error.strerror}; name a readable file.") from None


def _of_registry(url: str, subject: str) -> ValueSchema:
    """Return the newest schema of a subject. Raises `KafkaError`."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"--schema-registry {url!r} is not a URL: give one such as http://localhost:8081.")
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    headers = {"Accept": MEDIA_TYPE}
    if parts.username is not None:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
    found = _request(where, path, headers, subject)
    format_name = found.get("schemaType") or "AVRO"
    if format_name == "PROTOBUF":
        found = _request(where, f"{path}?format=serialized", headers, subject)
    if found.get("references"):
        raise KafkaError(f"The schema of {subject} refers to others: name a file with all of them by --schema.")
    try:
        prefix = b"\0" + found["id"].to_bytes(4, "big") + (b"\0" if format_name == "PROTOBUF" else b"")
        text = found["schema"].encode()
        text = _one_file(base64.b64decode(text, validate=True)) if format_name == "PROTOBUF" else text
    except (KeyError, AttributeError, ValueError, OverflowError):
        raise KafkaError(f"The answer of {where} is not a registry's schema: check --schema-registry.") from None
    if format_name not in FORMATS.values():
        raise KafkaError(
            f"The schema of {subject} has the format {str(format_name)[:20]}: Avro, JSON Schema and Protobuf are known."
        )
    return ValueSchema(format_name, text, f"subject {subject}", "", prefix)


def _request(where: str, path: str, headers: dict[str, str], subject: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(where + path, headers=headers), timeout=TIMEOUT_S) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                raise KafkaError(f"The registry at {where} has no subject {subject}: register a schema, or use --schema.") from None
            raise KafkaError(f"The registry at {where} answered {error.code} to {path}: check --schema-registry.") from None
    except (OSError, ValueError) as error:
        why = str(getattr(error, "reason", error))[:SHOWN]
        raise KafkaError(f"The registry at {where} does not answer ({why}): check --schema-registry.") from None
    if not isinstance(found, dict):
        raise KafkaError(f"The answer of {where} is not a registry's schema: check --schema-registry.")
    return found


def _one_file(descriptor: bytes) -> bytes:
    """Return a set of descriptors with the only descriptor."""
    descriptors = _library("google.protobuf.descriptor_pb2")
    found = descriptors.FileDescriptorSet()
    found.file.add().ParseFromString(descriptor)
    return bytes(found.SerializeToString())


def _library(name: str) -> Any:
    """Import a library's module. Raises `KafkaError` with the command that installs it."""
    try:
        return import_module(name)
    except ImportError:
        package = next(known for module, known in PACKAGES.items() if name.startswith(module))
        raise KafkaError(f"Values by this schema need the package {package}: install it with `pip install {package}`.") from None


def _wrong(schema: ValueSchema, error: Exception) -> SettingError:
    return SettingError(f"The schema of {schema.where} cannot be used: {_first_line(error)}; correct it.")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:SHOWN].rstrip(".;")


def _parsed(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the value is not JSON ({error}).") from None


def _avro(schema: ValueSchema) -> Encode:
    fastavro = _library("fastavro")
    try:
        parsed = fastavro.parse_schema(json.loads(schema.text))
    except Exception as error:  # fastavro raises errors of its own, KeyError, TypeError and others for schemas that are wrong
        raise _wrong(schema, error) from None

    def encode(value: bytes) -> bytes:
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, parsed, _parsed(value), strict=True)
        except BadInput:
            raise
        except Exception as error:  # as above, for values
            raise BadInput(f"the value does not fit the schema: {_first_line(error)}.") from None
        return out.getvalue()

    return encode


def _json_schema(schema: ValueSchema) -> Encode:
    jsonschema = _library("jsonschema")
    try:
        parsed = json.loads(schema.text)
        kind = jsonschema.validators.validator_for(parsed)
        kind.check_schema(parsed)
    except (ValueError, TypeError, jsonschema.exceptions.SchemaError) as error:
        raise _wrong(schema, error) from None
    validator = kind(parsed)

    def encode(value: bytes) -> bytes:
        error = next(validator.iter_errors(_parsed(value)), None)
        if error is not None:
            raise BadInput(f"the value does not fit the schema: {error.message[:SHOWN]} at {error.json_path}.")
        return value

    return encode


def _protobuf(schema: ValueSchema) -> Encode:
    descriptors = _library("google.protobuf.descriptor_pb2")
    pools, factories = _library("google.protobuf.descriptor_pool"), _library("google.protobuf.message_factory")
    json_format = _library("google.protobuf.json_format")
    try:
        files = descriptors.FileDescriptorSet.FromString(schema.text)
        pool = pools.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        last = files.file[-1]
        names = [".".join(filter(None, (last.package, message.name))) for message in last.message_type]
        if not schema.message and not schema.prefix and len(names) > 1:
            raise SettingError(f"{schema.where} has several messages: name one, as in {schema.where}#{names[0]}.")
        message_class = factories.GetMessageClass(pool.FindMessageTypeByName(schema.message or names[0]))
    except SettingError:
        raise
    except Exception as error:  # a DecodeError, a KeyError for an unknown name, a TypeError for an import that is missing
        raise _wrong(schema, error) from None

    def encode(value: bytes) -> bytes:
        try:
            return bytes(json_format.Parse(value, message_class()).SerializeToString())
        except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(f"the value does not fit the schema: {_first_line(error)}.") from None

    return encode
