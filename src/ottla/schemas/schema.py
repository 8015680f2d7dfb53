"""A schema of values, and its files.

The suffix of a file's name gives the format: `.avsc` is Avro, `.json` JSON Schema, and `.desc`, `.pb` or `.binpb` Protobuf, made
with `protoc --include_imports --descriptor_set_out=FILE.desc`. If a file has several messages, `FILE.desc#air.Flight` names one. A
file without a suffix, such as a pipe, is Avro.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ottla.errors import SettingError
from ottla.schemas.frames import files_of_set

MOST_BYTES = 64 * 1024 * 1024
"""The size of the largest schema that is read."""
AVRO, PROTOBUF, JSON = "avro", "protobuf", "json"
SUFFIXES = {"": AVRO, ".avsc": AVRO, ".json": JSON, ".desc": PROTOBUF, ".pb": PROTOBUF, ".binpb": PROTOBUF}


class ValueSchema(NamedTuple):
    """A schema. `texts` has the schemas that it refers to, each after its own references, and the schema itself at the end.

    The texts of Protobuf are file descriptors. `message` is the name of a Protobuf message, or empty. If `schema_id` is not None,
    values begin with a registry's frame. `where` is the source of the schema, for messages. `names` are those by which it refers
    to others.
    """

    format_name: str
    texts: tuple[bytes, ...]
    where: str
    message: str = ""
    schema_id: int | None = None
    names: tuple[str, ...] = ()


def schema_of_file(name: str, option: str = "--schema") -> ValueSchema:
    """Read the schema in a file, whose name a # and a message can follow. Raises `SettingError`, whose text names `option`."""
    path, _, message = name.partition("#")
    if Path(path).suffix not in SUFFIXES:
        raise SettingError(f"{option} {name}: name a file that ends in .avsc (Avro), .json (JSON Schema) or .desc (Protobuf).")
    return read_schema(Path(path), option)._replace(message=message)


def read_schema(path: Path, option: str) -> ValueSchema:
    """Read the schema in a file, whose suffix is one of `SUFFIXES`. Raises `SettingError`, whose text names `option`."""
    format_name = SUFFIXES[path.suffix]
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise SettingError(f"{option}: {path} has more than {MOST_BYTES} bytes, too many for a schema: name another file.")
        return ValueSchema(format_name, tuple(files_of_set(data)) if format_name == PROTOBUF else (data,), str(path))
    except OSError as error:
        raise SettingError(f"{option}: cannot read {path}: {error.strerror}; name a readable file.") from None
    except SettingError:
        raise
    except ValueError as error:
        raise SettingError(f"{path} is no set of descriptors ({error}): make it with protoc --include_imports -o {path}.") from None
