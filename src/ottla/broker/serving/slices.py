"""Requests that name many things, served a block at a time: read, asked, answered and written, with others served in between.

A handler sees each block as a request of its own, and what it answers becomes one response. Knows how arrays are declared, and no
API by name.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from typing import Any, Final, TypeVar

from ottla.broker.failures import Mistake
from ottla.broker.serving.purgatory import DelayedOperation, DelayedReply, Purgatory, Reply
from ottla.broker.serving.refusals import ERROR, told
from ottla.broker.serving.request import Close, Encoded, Ready, Request, Whole
from ottla.ports import Buffer, Done, Steps
from ottla.wire.codec.blocks import MOST_THINGS, MOST_WITHIN, BlockReader, BlockWriter, Path, level_of
from ottla.wire.errors import NONE
from ottla.wire.schema import Message, Struct

B = TypeVar("B", bound=Message)

MOST_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""Clients take no larger response either."""
NEVER: Final = sys.maxsize
SORTED_AT_ONCE: Final = 500
"""Names that are put in order between two pauses."""


@dataclass(frozen=True, slots=True)
class Slices:
    """What many things are named by: pairs of paths in the request and in the response, the first that its version has counts.

    A block has `things` of them; requests of at most `whole_bytes` bytes can't name enough to be worth dividing. `unique` has the
    fields by which no two of them may be the same. A handler that is `asked_whole` takes the blocks itself, from `request.whole`.
    A request of any size that has no more than `at_once` items in all its arrays is read and served at once.
    """

    paths: tuple[tuple[Path, Path], ...]
    things: int = 200
    whole_bytes: int = 2048
    unique: Path = ()
    asked_whole: bool = False
    at_once: int = 0

    def paths_of(self, message: type[Message], version: int) -> tuple[Path, Path] | None:
        """The paths of a version; None where it has none."""
        here = {one.name for one in message.WIRE.fields if version in one.present}
        return next((pair for pair in self.paths if pair[0][0] in here), None)


Serve = Callable[[Request[Message]], Reply]
"""How a block is served: as any request is."""

Refuse = Callable[[Request[Message], Mistake], Ready]
"""How a block is refused that met a mistake."""


BY_PARTITION: Final = Slices(((("topics", "partitions"), ("topics", "partitions")),))
"""Most APIs name partitions by their topics, and so does what they answer."""


def reader_of(slices: Slices, request: Request[Message], frame: Buffer, position: int, path: Path) -> BlockReader:
    """What reads a request's blocks."""
    level = level_of(request.api.request, request.version, path)
    assert level is not None, "its paths are those of the version"
    return BlockReader(request.api.request, request.version, level, frame, position, slices.things)


def open_slowly(whole: Whole, slices: Slices) -> Steps[None]:
    """Look at all of a request. Raises `Malformed`."""
    seen: Counter[object] = Counter()
    for block in whole.reader.open(MOST_WITHIN if slices.unique or slices.at_once else MOST_THINGS):
        if slices.unique:
            seen.update(_names(block, slices.unique))
        yield None
    whole.repeated = frozenset(name for name, times in seen.items() if times > 1)


def _names(block: list[Any], unique: Path) -> Iterator[tuple[object, ...]]:
    for thing in block:
        yield (thing,) if isinstance(thing, str) else tuple(getattr(thing, name) for name in unique)


def serve_in_blocks(
    purgatory: Purgatory, request: Request[Message], whole: Whole, answered: Path, serve: Serve, refuse: Refuse
) -> Steps[Reply]:
    """Serve one block after the other; the reply of one that has to wait is waited for. A mistake costs its block alone.

    An error of the whole request replaces what was answered before it, and ends the request. One of the thing to which a block
    belongs, such as a group, replaces what was answered of that thing.
    """
    writer = BlockWriter(request.version, answered)
    last: Struct | None = None
    for block in whole.reader.blocks():
        part = replace(request, body=whole.reader.part(block), whole=whole)
        reply = yield from purgatory.spared(_served(purgatory, part, serve))
        if isinstance(reply, Mistake):
            reply = refuse(part, reply)
        if not isinstance(reply, Message):
            return reply
        reply = whole.tell(part, reply)
        if _error_of(reply, request.version):
            return reply
        last = _agreed(writer, last, reply, answered)
        writer.add(reply)
        if writer.size > MOST_RESPONSE_BYTES:
            return too_large(request)
        yield None
    return Encoded(writer.parts())


def _error_of(answer: Struct, version: int) -> int:
    """Return the error code of a message, or of a thing in it; 0 where there is no field for one."""
    has_one = any(field.name == ERROR and version in field.present for field in answer.WIRE.fields)
    return int(getattr(answer, ERROR)) if has_one else NONE


def _agreed(writer: BlockWriter, last: Struct | None, reply: Message, answered: Path) -> Struct | None:
    """Let two blocks about one thing say the same error of it, if one of them has any. Return the last thing of the reply."""
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
    """Return whether two things differ in nothing but their errors and what is in them."""
    return all(
        getattr(one, field.name) == getattr(other, field.name)
        for field in one.WIRE.fields
        if not field.array and field.name != ERROR
    )


def _served(purgatory: Purgatory, part: Request[Message], serve: Serve) -> Steps[Ready]:
    return (yield from awaited(purgatory, serve(part)))


def admitted(request: Request[B]) -> Iterator[tuple[Request[B], Ready | None]]:
    """Yield a request, or the blocks of it, each with what is to be answered instead of serving it."""
    whole = request.whole
    if whole is None:
        yield request, None
        return
    for block in whole.reader.blocks():
        part = replace(request, body=whole.reader.part(block), whole=whole)
        yield part, whole.admit(part)


class PieceWriter:
    """A response that is written from pieces, each of which holds some of it, as its release says it."""

    def __init__(self, request: Request[Message], path: Path, empty: Message) -> None:
        """`empty` is the response without any item."""
        self._request = replace(request, denied=None)
        self._writer = BlockWriter(request.version, path)
        self._writer.add(told(self._request, empty))

    def put(self, pieces: Iterable[Message]) -> Steps[None]:
        """Write these pieces, with a pause after each. What comes after them tells of another thing, however alike."""
        for piece in pieces:
            self._writer.add(told(self._request, piece))
            yield None
        self._writer.end_item()

    @property
    def is_too_large(self) -> bool:
        return self._writer.size > MOST_RESPONSE_BYTES

    def reply(self) -> Close | Encoded:
        """Return the response, when there is no more of it."""
        return too_large(self._request) if self.is_too_large else Encoded(self._writer.parts())


def sorted_slowly(blocks: Iterable[list[str]]) -> Steps[list[str]]:
    """All these names in their order, each once."""
    runs: list[list[str]] = []
    for block in blocks:
        for start in range(0, len(block), SORTED_AT_ONCE):
            runs.append(sorted(block[start : start + SORTED_AT_ONCE]))
            yield None
    names: list[str] = []
    for number, name in enumerate(merge(*runs), 1):
        if not names or names[-1] != name:
            names.append(name)
        if not number % SORTED_AT_ONCE:
            yield None
    return names


def too_large(request: Request[Message]) -> Close:
    return Close(f"its {request.api.name} response would have more than {MOST_RESPONSE_BYTES} bytes: ask for less at a time")


def awaited(purgatory: Purgatory, reply: Reply) -> Steps[Ready]:
    """What a reply becomes, as steps that can be taken at any time from now on."""
    found: list[Ready] = []
    delayed: DelayedReply | None = None
    if isinstance(reply, Generator):
        reply = purgatory.run(reply)
    if isinstance(reply, DelayedOperation):
        delayed = purgatory.watch(reply, found.append)
    elif isinstance(reply, DelayedReply):
        delayed = reply
        delayed.encode_with(found.append)
    else:
        found.append(reply)
    return _found(delayed, found)


def _found(delayed: DelayedReply | None, found: list[Ready]) -> Steps[Ready]:
    if delayed is not None and not delayed.done:
        yield partial(_tell_when_ready, delayed)
    return found[0]


def _tell_when_ready(delayed: DelayedReply, done: Done) -> None:
    def ready() -> None:
        if delayed.done:  # or else its connection may only begin other requests
            done(None)

    delayed.ready = ready
