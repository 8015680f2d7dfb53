"""The decoder and the encoder of Protobuf values, by Google's library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.errors import SettingError
from ottla.schemas.frames import path_bytes, read_path
from ottla.schemas.libraries import UnfitValue, first_line, library
from ottla.schemas.schema import ValueSchema


def protobuf_decoder(schema: ValueSchema) -> Callable[[bytes], object]:
    """Return a function that decodes Protobuf values. It raises `UnfitValue`. Raises `SettingError` for an unusable schema.

    A frame names the value's message in the schema's last file. A value without a frame has the schema's `message`, by default the
    first message of the file.
    """
    pool, in_order = _messages(schema)
    factory = library("google.protobuf.message_factory", "Protobuf")
    json_format = library("google.protobuf.json_format", "Protobuf")
    named = _find_message(schema, pool, in_order)

    def decode(data: bytes) -> object:
        chosen, body = (named, data) if schema.schema_id is None else _split_path(in_order, data)
        try:
            parsed = factory.GetMessageClass(chosen).FromString(body)
            found: object = json_format.MessageToDict(parsed, preserving_proto_field_name=True, descriptor_pool=pool)
        except Exception as error:  # protobuf's own exception has no public base
            raise UnfitValue(f"it is no {chosen.full_name} of Protobuf ({error})") from None
        return found

    return decode


def protobuf_encoder(schema: ValueSchema) -> Callable[[bytes], bytes]:
    """Return a function that encodes JSON texts as Protobuf. It raises `UnfitValue`. Raises `SettingError` for an unusable schema.

    A file with several messages is unusable unless the schema names one of them.
    """
    return _writer(schema, library("google.protobuf.json_format", "Protobuf").Parse)


def protobuf_writer(schema: ValueSchema) -> Callable[[object], bytes]:
    """Return a function that encodes dicts, or messages of Google's library, as Protobuf. It raises `UnfitValue`.

    Raises `SettingError` for an unusable schema, as `protobuf_encoder` does.
    """
    write = _writer(schema, library("google.protobuf.json_format", "Protobuf").ParseDict)
    message_type = library("google.protobuf.message", "Protobuf").Message
    json_format = library("google.protobuf.json_format", "Protobuf")
    fits = json_format.MessageToDict

    def write_value(value: object) -> bytes:
        return write(fits(value, preserving_proto_field_name=True) if isinstance(value, message_type) else value)

    return write_value


def message_name(schema: ValueSchema) -> str:
    """Return the full name of the message that a schema names, or of its first message. Raises `SettingError`."""
    pool, in_order = _messages(schema)
    return str(_find_message(schema, pool, in_order).full_name)


def _writer(schema: ValueSchema, parse: Any) -> Callable[[Any], bytes]:
    """Return a function that fills a message by `parse`, and encodes it, after its path if the schema has an id."""
    pool, in_order = _messages(schema)
    json_format = library("google.protobuf.json_format", "Protobuf")
    if not schema.message and schema.schema_id is None and len(in_order) > 1:
        raise SettingError(f"{schema.where} has several messages: name one, as in {schema.where}#{in_order[0].full_name}.")
    named = _find_message(schema, pool, in_order)
    made = library("google.protobuf.message_factory", "Protobuf").GetMessageClass(named)
    path = b"" if schema.schema_id is None else path_bytes(_path_of(named, in_order))

    def encode(value: Any) -> bytes:
        try:
            return path + bytes(parse(value, made(), descriptor_pool=pool).SerializeToString())
        except (json_format.ParseError, UnicodeDecodeError, RecursionError, TypeError, AttributeError) as error:
            raise UnfitValue(f"it does not fit the schema: {first_line(error)}") from None

    return encode


def _path_of(message: Any, in_order: Sequence[Any]) -> tuple[int, ...]:
    """Return the indexes by which a registry's frame names a message."""
    outer = message.containing_type
    siblings = in_order if outer is None else outer.nested_types
    index = next(number for number, each in enumerate(siblings) if each.full_name == message.full_name)
    return (index,) if outer is None else (*_path_of(outer, in_order), index)


def _messages(schema: ValueSchema) -> tuple[Any, Sequence[Any]]:
    """Return a pool with all files of the schema, and the messages of the last file. Raises `SettingError`."""
    pools = library("google.protobuf.descriptor_pool", "Protobuf")
    descriptors = library("google.protobuf.descriptor_pb2", "Protobuf")
    for known in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"):
        library(f"google.protobuf.{known}_pb2", "Protobuf")
    pool = pools.DescriptorPool()
    messages: Sequence[Any] = ()
    try:
        for place, data in enumerate(schema.texts):
            file = descriptors.FileDescriptorProto.FromString(data)
            if place < len(schema.names):  # a registry does not know by which name another schema imports a file
                file.name = schema.names[place]
            _add_well_known(pool, pools.Default(), descriptors, file)
            pool.AddSerializedFile(file.SerializeToString())
            messages = list(pool.FindFileByName(file.name).message_types_by_name.values())
    except Exception as error:  # a DecodeError without a public base, a TypeError for an import that is missing
        raise SettingError(
            f"{schema.where} is no schema of Protobuf ({first_line(error)}): make it with protoc --include_imports."
        ) from None
    return pool, messages


def _add_well_known(pool: Any, known: Any, descriptors: Any, file: Any) -> None:
    """Add the well-known types of Protobuf that a file imports, because descriptor sets and registries can lack them."""
    for name in file.dependency:
        if name.startswith("google/protobuf/"):
            try:
                pool.FindFileByName(name)
            except KeyError:
                added = descriptors.FileDescriptorProto()
                known.FindFileByName(name).CopyToProto(added)
                _add_well_known(pool, known, descriptors, added)
                pool.AddSerializedFile(added.SerializeToString())


def _find_message(schema: ValueSchema, pool: Any, in_order: Sequence[Any]) -> Any:
    """Return the message that the schema names, or the first one if it names none. Raises `SettingError`."""
    try:
        return pool.FindMessageTypeByName(schema.message) if schema.message else in_order[0]
    except (KeyError, IndexError):
        wanted = schema.message or "messages"
        raise SettingError(f"The schema of Protobuf lacks {wanted}: name one as --schema FILE#MESSAGE.") from None


def _split_path(messages: Sequence[Any], data: bytes) -> tuple[Any, bytes]:
    """Return the message that the path at the beginning of a value names, and the value without the path. Raises `UnfitValue`."""
    try:
        path, at = read_path(data)
    except ValueError as error:
        raise UnfitValue(str(error)) from None
    found: Any = None
    try:
        for index in path:
            found = (messages if found is None else list(found.nested_types))[index]
    except IndexError:
        raise UnfitValue(f"it names message {list(path)}, which its schema of Protobuf lacks") from None
    return found, data[at:]
