"""A schema of values, and its files.

The suffix of a file's name gives the format: `.avsc` is Avro, `.json` JSON Schema, and `.desc`, `.pb` or `.binpb` Protobuf, made
with `protoc --include_imports --descriptor_set_out=FILE.desc`. If a file has several messages, `FILE.desc#air.Flight` names one. A
file without a suffix, such as a pipe, is Avro.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ottla.errors import SettingError
from ottla.schemas.libraries import library

AVRO, PROTOBUF, JSON = "avro", "protobuf", "json"
SUFFIXES = {"": AVRO, ".avsc": AVRO, ".json": JSON, ".desc": PROTOBUF, ".pb": PROTOBUF, ".binpb": PROTOBUF}


class ValueSchema(NamedTuple):
    """A schema. `texts` has the schemas that it refers to, each after its own references, and the schema itself at the end.

    The texts of Protobuf are file descriptors. `message` is the name of a Protobuf message, or empty. If `schema_id` is not None,
    values begin with a registry's frame. `where` is the source of the schema, for messages.
    """

    format_name: str
    texts: tuple[bytes, ...]
    where: str
    message: str = ""
    schema_id: int | None = None


def schema_of_file(name: str, option: str = "--schema") -> ValueSchema:
    """Read the schema in a file. Raises `SettingError`, whose text names `option`."""
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
