"""A schema of values, and the files that have one.

A file's name says its format: `.avsc` is Avro, `.json` JSON Schema, `.desc`, `.pb` or `.binpb` Protobuf, made with
`protoc --include_imports --descriptor_set_out=FILE.desc`; `FILE.desc#air.Flight` names the message if there are several. A file
without a suffix, such as a pipe, is Avro.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ottla.errors import SettingError
from ottla.schemas.libraries import library

AVRO, PROTOBUF, JSON = "avro", "protobuf", "json"
SUFFIXES = {"": AVRO, ".avsc": AVRO, ".json": JSON, ".desc": PROTOBUF, ".pb": PROTOBUF, ".binpb": PROTOBUF}


class ValueSchema(NamedTuple):
    """A schema: the texts that it refers to, each after its own references, then its own text; of Protobuf, descriptors of files.

    `message` names a message of Protobuf. Values of a schema with an id begin with the frame of a registry.
    """

    format_name: str
    texts: tuple[bytes, ...]
    where: str
    message: str = ""
    schema_id: int | None = None


def schema_of_file(name: str, option: str = "--schema") -> ValueSchema:
    """Return the schema in a file. Raises `SettingError`."""
    path, _, message = name.partition("#")
    format_name = SUFFIXES.get(Path(path).suffix)
    if format_name is None:
        raise SettingError(f"{option} {name}: name a file that ends in .avsc (Avro), .json (JSON Schema) or .desc (Protobuf).")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"{option}: cannot read {path}: {error.strerror}; name a readable file.") from None
    return ValueSchema(format_name, _files(data, path) if format_name == PROTOBUF else (data,), path, message)


def _files(data: bytes, path: str) -> tuple[bytes, ...]:
    descriptors = library("google.protobuf.descriptor_pb2", "Protobuf")
    try:
        return tuple(file.SerializeToString() for file in descriptors.FileDescriptorSet.FromString(data).file)
    except Exception as error:  # protobuf's own exception has no public base
        raise SettingError(f"{path} is no set of descriptors ({error}): make it with protoc --include_imports -o {path}.") from None
