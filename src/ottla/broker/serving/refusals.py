"""Error responses for any request, with one error code in each of its error fields. Depends only on declarations of messages.

A response with a top-level error code contains the error there. In any other response, each item of the request (topic, partition,
group, resource) has an item with the error and the same or a similar name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.broker.releases.release import replace_newer_errors
from ottla.broker.serving.request import Request
from ottla.wire.apis import Api
from ottla.wire.schema import Field, Message, Struct

ERROR, MESSAGE = "error_code", "error_message"
ERRORS: Final = frozenset({ERROR, "partition_error_code"})
ALIASES: Final = {"partition_index": ("partition", "index"), "user": ("name",), "topic_name": ("name",)}
"""Field of a response -> other names that the corresponding field of the request can have."""
LONGEST_MESSAGE: Final = 1000
"""Upper limit of an error message, in characters."""
UNKNOWN_OFFSETS: Final = frozenset({"base_offset", "committed_offset", "high_watermark", "low_watermark"})
NO_OFFSET: Final = -1
NO_ACKS: Final = 0

Asked = Struct | str | int
"""A request, or one of the items that it lists."""


def refusal(api: Api, version: int, body: Message, error_code: int, sentence: str, *, of_items: bool = False) -> Message | None:
    """Return the response with an error to a decoded request; None if the response has no field for an error.

    With `of_items`, the error is set in the response's items, if possible, instead of at the top level.
    """
    answer = api.response()
    return answer if _set_error(answer, body, version, {ERROR: error_code, MESSAGE: sentence}, of_items=of_items) else None


def is_answered(body: Message) -> bool:
    """Return whether a request gets a response. A response to Produce with acks=0 would be taken for the next response."""
    return getattr(body, "acks", None) != NO_ACKS


def join(response: Message, refused: Message) -> Message:
    """Add the items of `refused`, which have errors, to the lists of `response`, and return `response`."""
    for field in response.WIRE.fields:
        if field.array and field.kind == "struct":
            getattr(response, field.name).extend(getattr(refused, field.name) or ())
    return response


def shorten(answer: Struct, version: int) -> None:
    """Shorten the error messages of a response, because they can repeat names of 32 767 bytes, the limit of a string."""
    for name, is_below in _messages(type(answer), version):
        value = getattr(answer, name)
        if is_below:
            for below in value if isinstance(value, list) else () if value is None else (value,):
                shorten(below, version)
        elif value is not None and len(value) > LONGEST_MESSAGE:
            setattr(answer, name, value[:LONGEST_MESSAGE] + "…")


def _messages(kind: type[Struct], version: int) -> tuple[tuple[str, bool], ...]:
    found = _KNOWN.get((kind, version))
    if found is None:
        found = _KNOWN[kind, version] = _found_messages(kind, version)
    return found


_KNOWN: dict[tuple[type[Struct], int], tuple[tuple[str, bool], ...]] = {}


def _found_messages(kind: type[Struct], version: int) -> tuple[tuple[str, bool], ...]:
    """Return (field, False) for a struct's error messages, and (field, True) for its fields whose structs have error messages."""
    found = []
    for field in kind.WIRE.fields:
        if version not in field.present:
            continue
        if field.kind == "struct":
            if _messages(field.struct, version):
                found.append((field.name, True))
        elif field.name.endswith(MESSAGE):
            found.append((field.name, False))
    return tuple(found)


def translate_response(request: Request[Message], response: Message) -> Message:
    """Return a response with the refused items added, error codes of the listener's release, and shortened error messages."""
    if request.denied is not None:
        response = join(response, request.denied)
    if not request.release.is_today:
        replace_newer_errors(response, request.release)
    shorten(response, request.version)
    return response


def _set_error(answer: Struct, asked: Asked, version: int, error: dict[str, int | str], *, of_items: bool = False) -> bool:
    """Set an error in `answer` or in its items, and return whether there is a field for the error."""
    fields = {field.name: field for field in answer.WIRE.fields if version in field.present}
    if of_items and any(field.array and field.kind == "struct" and _has_error(field.struct, version) for field in fields.values()):
        fields = {name: field for name, field in fields.items() if name not in ERRORS and name != MESSAGE}
    named = _copy_names(answer, list(fields.values()), asked)
    for name in fields:
        if name in UNKNOWN_OFFSETS:
            setattr(answer, name, NO_OFFSET)
        elif name in ERRORS or name == MESSAGE:
            setattr(answer, name, error[MESSAGE if name == MESSAGE else ERROR])
    if not ERRORS.isdisjoint(fields):
        return named or isinstance(answer, Message) or _is_nameless(fields)
    for field in fields.values():
        if field.array and field.kind == "struct" and _has_error(field.struct, version):
            things = _named_alike(field.struct, _first_list(asked, version), version)
            items = [field.struct() for _ in things]
            setattr(answer, field.name, items)
            said = [_set_error(item, thing, version, error) for item, thing in zip(items, things, strict=True)]
            return any(said)
    return False


def _named_alike(kind: type[Struct], things: Sequence[Asked], version: int) -> Sequence[Asked]:
    """Return the request's items that have the names of the response's items.

    They can be one level lower: AlterReplicaLogDirs names topics by directory, and its response names topics.
    """
    names = [field.name for field in kind.WIRE.fields if not field.array and field.name not in (*ERRORS, MESSAGE)]
    wanted = {alias for name in names for alias in (name, *ALIASES.get(name, ()))}
    if not wanted or all(not isinstance(thing, Struct) or _names(thing) & wanted for thing in things):
        return things
    lower = [below for thing in things for below in _first_list(thing, version)]
    return lower if all(isinstance(below, Struct) and _names(below) & wanted for below in lower) else things


def _names(thing: Struct) -> set[str]:
    return {field.name for field in thing.WIRE.fields if not field.array}


def _is_nameless(fields: Mapping[str, Field]) -> bool:
    """Return whether an item of a response has only an error, and thus belongs to the request's item at its position."""
    return all(field.array or name in ERRORS or name == MESSAGE for name, field in fields.items())


def _copy_names(answer: Struct, fields: list[Field], asked: Asked) -> bool:
    """Copy names from the request's item `asked` to the response's item `answer`, and return whether there are names."""
    if not isinstance(asked, Struct):
        fits = [
            field.name for field in fields if not field.array and field.name not in ERRORS and type(field.default) is type(asked)
        ]
        setattr(answer, fits[0], asked)
        return True
    theirs = [field.name for field in asked.WIRE.fields if not field.array]
    taken = False
    for field in fields:
        for name in (field.name, *ALIASES.get(field.name, ())):
            if name in theirs and name not in (ERROR, MESSAGE):
                setattr(answer, field.name, getattr(asked, name))
                taken = True
    return taken or (not isinstance(answer, Message) and _copy_named_lists(answer, fields, asked))


def _copy_named_lists(answer: Struct, fields: list[Field], asked: Struct) -> bool:
    """Copy the lists that name an item without a name of its own, as the entity of a quota. Return whether there are some."""
    theirs = {field.name for field in asked.WIRE.fields if field.array and field.kind == "struct"}
    taken = False
    for field in fields:
        if field.array and field.kind == "struct" and field.name in theirs:
            copies = [(field.struct(), each) for each in getattr(asked, field.name) or ()]
            named = [copy for copy, each in copies if _copy_names(copy, list(copy.WIRE.fields), each)]
            if named:
                setattr(answer, field.name, named)
                taken = True
    return taken


def _has_error(cls: type[Struct], version: int) -> bool:
    """Return whether a struct, or a struct in its lists, has an error code."""
    fields = [field for field in cls.WIRE.fields if version in field.present]
    lists = [field.struct for field in fields if field.array and field.kind == "struct"]
    return any(field.name in ERRORS for field in fields) or any(_has_error(listed, version) for listed in lists)


def _first_list(asked: Asked, version: int) -> list[Asked]:
    """Return the items of the first nonempty list of a request."""
    fields = asked.WIRE.fields if isinstance(asked, Struct) else ()
    lists = (getattr(asked, field.name) for field in fields if field.array and version in field.present)
    return next((found for found in lists if found), [])
