"""Requests with large lists: decoded, authorized, served and answered in parts, with other work in between.

A handler gets each part as a separate request, and the responses are combined into one. An API with a list therefore needs one loop
and no pauses. Depends on the declarations of arrays, and on no API.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeVar

from ottla.broker.failures import Mistake
from ottla.broker.serving.purgatory import Begun, Purgatory, Reply
from ottla.broker.serving.refusals import ERROR, translate_response
from ottla.broker.serving.request import Body, Close, Encoded, Ready, Request, Whole
from ottla.ports import Buffer, Steps
from ottla.values import dataclass
from ottla.wire.codec.blocks import MOST_THINGS, MOST_WITHIN, BlockReader, BlockWriter, Path, level_of, pieces
from ottla.wire.codec.messages import M, decode, encode
from ottla.wire.errors import NONE
from ottla.wire.schema import Message, Struct

Item = TypeVar("Item")

MOST_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""Upper limit of a response, in bytes, because clients refuse larger responses."""
NEVER: Final = sys.maxsize
SORTED_AT_ONCE: Final = 500
"""Names sorted between two pauses."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The division of a request with large lists: pairs of paths in request and response. The first pair in the version applies.

    A part has at most `things` items. Requests up to `whole_bytes` bytes are not divided. Requests with at most `at_once` items in
    all arrays are served at once. The fields `unique` must identify an item uniquely. With `together`, one call of the handler
    iterates over `request.parts()`. Otherwise there is a call for each part.
    """

    paths: tuple[tuple[Path, Path], ...]
    things: int = 200
    whole_bytes: int = 2048
    unique: Path = ()
    together: bool = False
    at_once: int = 0

    def paths_of(self, message: type[Message], version: int) -> tuple[Path, Path] | None:
        """Return the paths that apply in a version; None if the version has none of the lists."""
        here = {one.name for one in message.WIRE.fields if version in one.present}
        return next((pair for pair in self.paths if pair[0][0] in here), None)


BY_PARTITION: Final = Parts(((("topics", "partitions"), ("topics", "partitions")),))
"""The division of most APIs, which list partitions by topic in requests and responses."""


class Budget:
    """The work that a generator may do before its next pause: `yield from budget.spend(cost)` pauses whenever `most` is spent."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def spend(self, cost: int = 1) -> Steps[None]:
        """Count completed work of this cost, and pause if the limit since the last pause is reached."""
        self._left -= cost
        if self._left <= 0:
            self._left = self._most
            yield None


def by_weight(items: Iterable[Item], weight_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yield the items in lists. Each list ends with the item with which its total weight is at least `most`.

    The last list can be lighter. Without items, yield one empty list.
    """
    some: list[Item] = []
    weight, is_first = 0, True
    for item in items:
        some.append(item)
        weight += weight_of(item)
        if weight >= most:
            yield some
            some, weight, is_first = [], 0, False
    if some or is_first:
        yield some


def reader_of(parts: Parts, request: Request[Message], frame: Buffer, position: int, path: Path) -> BlockReader:
    """Return a reader that decodes a request in parts, each with some items of the list at `path`."""
    level = level_of(request.api.request, request.version, path)
    assert level is not None, "its paths are those of the version"
    return BlockReader(request.api.request, request.version, level, frame, position, parts.things)


class MessageReader:
    """The reader of a request that has no bytes, because this broker sends it to itself: `pieces` of the message are the blocks."""

    def __init__(self, message: Message, version: int, path: Path, things: int) -> None:
        self._message = message
        self._version = version
        self._path = path
        self._things = things
        self.is_one_block = len(list(islice(self.blocks(), 2))) == 1

    def blocks(self) -> Iterator[Message]:
        """Return an iterator over the blocks, of which there is at least one."""
        return pieces(self._message, self._path, self._things)

    def part(self, block: Message) -> Message:
        """Return a block as its receiver decodes it."""
        return as_decoded(block, self._version)


def as_decoded(message: M, version: int) -> M:
    """Return a message in the form in which its receiver would decode it in this version.

    In the newest version, return the message itself, because that version has all fields.
    """
    return message if version == message.WIRE.valid[-1] else decode(type(message), version, encode(message, version))


def open_slowly(reader: BlockReader, whole: Whole, parts: Parts) -> Steps[None]:
    """Decode the whole request once, to check it and find repeated names. Raises `Malformed`."""
    seen: Counter[object] = Counter()
    for block in reader.open(MOST_WITHIN if parts.unique or parts.at_once else MOST_THINGS):
        if parts.unique:
            seen.update(_names(block, parts.unique))
        yield None
    whole.count = reader.count
    whole.repeated = frozenset(name for name, times in seen.items() if times > 1)


def _names(block: list[Any], unique: Path) -> Iterator[tuple[object, ...]]:
    for thing in block:
        yield (thing,) if isinstance(thing, str) else tuple(getattr(thing, name) for name in unique)


class ResponseWriter:
    """A response written from pieces, each with some items, encoded for the release of its listener.

    The fields around the items come from `head`, or from the first piece. `head` may change until `reply`.
    """

    def __init__(self, request: Request[Message], path: Path, head: Message | None = None, most_bytes: int | None = None) -> None:
        self._request = replace(request, denied=None)
        self._writer = BlockWriter(request.version, path)
        self._instead: Ready | None = None
        self.most_bytes = MOST_RESPONSE_BYTES if most_bytes is None else most_bytes
        if head is not None:
            self.add(head)

    def add(self, piece: Message, part: Request[Message] | None = None) -> None:
        """Write the items of a piece, with the refused items of `part`, the part of the request that the piece answers."""
        self.write(translate_response(self._request if part is None else part, piece))

    def write(self, piece: Message) -> None:
        """Write the items of a piece whose error codes and messages are final."""
        self._writer.add(piece)

    def put(self, pieces: Iterable[Message]) -> Steps[None]:
        """Write pieces of one item, with a pause after each. The next piece begins another item, even if it has equal fields."""
        for piece in pieces:
            self.add(piece)
            yield None
        self._writer.end_item()

    def admit(self, request: Request[Body]) -> Iterator[Request[Body]]:
        """Yield the parts of a request that may be served, until the response is too large. Write the refusals of the others."""
        for part in request.parts():
            if part.refused is None:
                yield part
            refused = part.refused or part.denied
            if isinstance(refused, Message):
                self.add(refused)
                self._writer.end_item()
            elif refused is not None:
                self._instead = refused
            if self._instead is not None or self.is_too_large:
                return

    def drop_open(self) -> None:
        """Remove the last item from the response, because the next piece replaces it."""
        self._writer.drop_open()

    @property
    def is_too_large(self) -> bool:
        return self._writer.size > self.most_bytes

    def reply(self) -> Ready:
        """Return the whole response, or the result that replaces it."""
        if self._instead is not None:
            return self._instead
        return self.too_large() if self.is_too_large else Encoded(self._writer.parts())

    def too_large(self) -> Close:
        """Return the close of a connection whose client requests a response above the limit."""
        name = self._request.api.name
        return Close(f"its {name} response would have more than {MOST_RESPONSE_BYTES} bytes: request less at a time")


def serve_parts(
    purgatory: Purgatory,
    request: Request[Message],
    answered: Path,
    serve: Callable[[Request[Message]], Begun],
    refuse: Callable[[Request[Message], Mistake], Ready],
) -> Steps[Reply]:
    """Serve one part after another, in steps. An unexpected exception in a part fails only this part.

    An error of the whole request replaces earlier responses and ends the request. An error of an enclosing item, such as a group,
    replaces the responses within the item.
    """
    writer = ResponseWriter(request, answered)
    last: Struct | None = None
    for part in request.parts():
        reply: Ready
        if part.refused is None:
            reply = yield from purgatory.spared(_serve(purgatory, part, serve))
        else:
            reply = part.refused
        if isinstance(reply, Mistake):
            reply = refuse(part, reply)
        if not isinstance(reply, Message):
            return reply
        reply = translate_response(part, reply)
        if _error_of(reply, request.version):
            return reply
        last = _merge_error(writer, last, reply, answered)
        writer.write(reply)
        if writer.is_too_large:
            return writer.reply()
        yield None
    return writer.reply()


def _serve(purgatory: Purgatory, part: Request[Message], serve: Callable[[Request[Message]], Begun]) -> Steps[Ready]:
    return (yield from purgatory.wait_for(serve(part)))


def _error_of(answer: Struct, version: int) -> int:
    """Return the error code of a message or item; NONE if it has no such field."""
    has_one = any(field.name == ERROR and version in field.present for field in answer.WIRE.fields)
    return int(getattr(answer, ERROR)) if has_one else NONE


def _merge_error(writer: ResponseWriter, last: Struct | None, reply: Message, answered: Path) -> Struct | None:
    """Keep only the error, if a reply's first item continues the item `last` and either has an error. Return its last item."""
    if len(answered) < 3:
        return None
    things = getattr(reply, answered[0])
    if last is not None and things and _names_the_same(last, things[0]):
        if getattr(last, ERROR, NONE):
            del things[0]
        elif getattr(things[0], ERROR, NONE):
            writer.drop_open()
            setattr(things[0], answered[1], [])
    return things[-1] if things else last


def _names_the_same(one: Struct, other: Struct) -> bool:
    """Return whether all fields of two items are equal, except errors and lists."""
    return all(
        getattr(one, field.name) == getattr(other, field.name)
        for field in one.WIRE.fields
        if not field.array and field.name != ERROR
    )


def sorted_slowly(blocks: Iterable[list[str]]) -> Steps[list[str]]:
    """Return all names sorted and without duplicates."""
    runs: list[list[str]] = []
    for block in blocks:
        for start in range(0, len(block), SORTED_AT_ONCE):
            runs.append(sorted(block[start : start + SORTED_AT_ONCE]))
            yield None
    names: list[str] = []
    budget = Budget(SORTED_AT_ONCE)
    for name in merge(*runs):
        if not names or names[-1] != name:
            names.append(name)
        yield from budget.spend()
    return names
