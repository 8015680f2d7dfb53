"""A schema of Protobuf in the registry: a text, or a file descriptor in base64. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from ottla.schema_registry.formats import Parsed
from ottla.schema_registry.protobuf.comparison import ProtobufComparison, index
from ottla.schema_registry.protobuf.files import KNOWN, find_packaged
from ottla.schema_registry.protobuf.parser import FileParser
from ottla.schema_registry.protobuf.printer import Printer
from ottla.schema_registry.refusals import InvalidSchema
from ottla.schemas.libraries import first_line, library

SERIALIZED = "serialized"
ROOT = "default.proto"
MOST_FILES = 1000


class ProtobufText:
    """A parsed schema. `files` has the descriptors of the schema and of all that it imports, itself at the end."""

    def __init__(self, file: Any, files: Mapping[str, Any]) -> None:
        self.file, self.files = file, files
        self.text = Printer(file).text()

    def normalize(self) -> str:
        return Printer(self.file, is_sorted=True).text()

    def format_as(self, name: str) -> str:
        return base64.b64encode(self.file.SerializeToString()).decode() if name == SERIALIZED else self.text

    def unreadable(self, written: Parsed, *, reader: str, writer: str) -> list[str]:
        if not isinstance(written, ProtobufText):
            raise TypeError("two schemas of Protobuf are compared")
        comparison = ProtobufComparison(index(written.files.values()), index(self.files.values()))
        return [
            f"{{errorType:'{each.kind}', description:'The {reader} schema cannot read data of the {writer} schema at path "
            f"'{each.path}'', additionalInfo:'{each.path}'}}"
            for each in comparison.find_breaking(written.file, self.file)
        ]


class _Pool:
    """The descriptors of a schema, of its references and of all files that these import."""

    def __init__(self, references: Mapping[str, str]) -> None:
        self._pool = library("google.protobuf.descriptor_pool", "Protobuf").DescriptorPool()
        self._kind = library("google.protobuf.descriptor_pb2", "Protobuf").FileDescriptorProto
        self._references = references
        self._added: set[str] = set()
        self.files: dict[str, Any] = {}

    def build(self, file: Any, path: tuple[str, ...] = ()) -> Any:
        """Return a file's descriptor with full names. Raises `InvalidSchema`."""
        for name in file.dependency:
            if name in (*path, file.name):
                raise InvalidSchema(f"its imports are a circle: {name} imports itself")
            if name not in self._added:
                self._added.add(name)
                self._import(name, (*path, file.name))
        try:
            made = self._pool.Add(file) or self._pool.FindFileByName(file.name)
        except (TypeError, ValueError, KeyError) as error:
            raise InvalidSchema(first_line(error).removeprefix("Couldn't build proto file into descriptor pool: ")) from None
        resolved = self._kind()
        made.CopyToProto(resolved)
        resolved.name = file.name
        self.files[file.name] = resolved
        return resolved

    def _import(self, name: str, path: tuple[str, ...]) -> None:
        text = self._references.get(name, KNOWN.get(name))
        if len(self._added) > MOST_FILES:
            raise InvalidSchema(f"it imports more than {MOST_FILES} files")
        if text is not None:
            self.build(read_file(text, name), path)
            return
        found = find_packaged(name)
        if found is None:
            raise InvalidSchema(f"it imports {name}: add a reference of this name")
        file = self._kind()
        found.CopyToProto(file)
        file.name = name
        self.build(file, path)


def read_file(text: str, name: str) -> Any:
    """Return the descriptor of a text, or of a descriptor in base64. Names are as they are written. Raises `InvalidSchema`."""
    file = _decode(text)
    if file is None:
        return FileParser(text, name).parse()
    file.name = name
    return file


def _decode(text: str) -> Any:
    """Return the file descriptor that a text has in base64, or None."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        file = library("google.protobuf.descriptor_pb2", "Protobuf").FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, library("google.protobuf.message", "Protobuf").DecodeError):
        return None
    file.ClearField("source_code_info")
    return file


def parse(text: str, references: Mapping[str, str], is_new: bool) -> ProtobufText:
    """Parse a schema. Raises `InvalidSchema`."""
    name = ROOT
    while name in references:
        name = f"_{name}"
    pool = _Pool(references)
    return ProtobufText(pool.build(read_file(text, name)), pool.files)
