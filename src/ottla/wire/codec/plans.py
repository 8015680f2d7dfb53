"""Turns declarations into plans, by which the compiled kernels read and write messages.

Knows declarations, and what the kernels want to be told of them; of bytes it knows nothing.
"""

from __future__ import annotations

from struct import calcsize
from typing import Any, Final, NamedTuple

from ottla.wire.codec.kernel import Plan
from ottla.wire.codec.sizes import head_code, least_size
from ottla.wire.schema import Field, Message, Struct

_KINDS: Final = {"str": "text", "plain": "text"}
"""What the kernel calls a field of variable width, where it is not the name of the schema."""
_UNTAGGED: Final = -1


class Step(NamedTuple):
    """A field as it travels. `kind` is one of `kernel.KINDS`, `item` that of the numbers in an array.

    `tag` is -1 where the field comes in order. `width` is that of its length, 1 for a varint. `least` is the fewest bytes that a
    struct in an array takes.
    """

    name: str
    kind: str
    tag: int
    width: int = 0
    nullable: bool = False
    item: str = ""
    least: int = 0
    inner: Plan | None = None


class Blank(NamedTuple):
    """A field that does not come in order. `kind` and `value` are its default, `test` and `like` tell whether it is set.

    The default is the same value for all objects, a new list, or a new struct (then `value` is its plan): one of `kernel.DEFAULTS`.
    The test is one of `kernel.TESTS`.
    """

    name: str
    kind: str
    value: Any = None
    test: str = "never"
    like: Any = None


def plan_of(cls: type[Message], version: int) -> Plan:
    """How a message travels in a version."""
    return _plan(cls, version, version in cls.WIRE.flexible)


def _plan(cls: type[Struct], version: int, flexible: bool) -> Plan:
    here = [f for f in cls.WIRE.fields if version in f.present]
    tagged = sorted((f for f in here if f.tag is not None and flexible), key=lambda f: f.tag or 0)
    absent = [f for f in cls.WIRE.fields if f not in here]
    steps, tags = ([_step(f, version, flexible) for f in fields] for fields in ([f for f in here if f not in tagged], tagged))
    blanks = [_blank(f, checked=f in tagged or not f.ignorable) for f in tagged + absent]
    return Plan(cls, steps, tags, [*blanks, _NO_UNKNOWN_TAGS], flexible)


def _step(f: Field, version: int, flexible: bool) -> Step:
    tag = f.tag if f.tag is not None and flexible else _UNTAGGED
    nullable = version in f.nullable
    if f.fixed:
        return Step(f.name, f.kind, tag)
    inner = _plan(f.struct, version, flexible) if f.kind == "struct" else None
    if inner and not f.array:
        return Step(f.name, "struct or null" if nullable else "struct", tag, inner=inner)
    width = calcsize(head_code(f, flexible))
    if not f.array:
        return Step(f.name, _KINDS.get(f.kind, f.kind), tag, width, nullable)
    if inner:
        return Step(f.name, "structs", tag, width, nullable, least=least_size(f.struct, version, flexible), inner=inner)
    kind, item = ("texts", "") if f.kind == "str" else ("numbers", f.kind)
    return Step(f.name, kind, tag, width, nullable, item)


_NO_UNKNOWN_TAGS: Final = Blank("unknown_tags", "shared", ())


def _blank(f: Field, *, checked: bool) -> Blank:
    test, like = _test(f) if checked else ("never", None)
    if not f.fresh:
        return Blank(f.name, "shared", f.default, test, like)
    return Blank(f.name, "list" if f.array else "struct", None if f.array else _of_defaults(f.struct), test, like)


def _of_defaults(cls: type[Struct]) -> Plan:
    return Plan(cls, [], [], [*(_blank(f, checked=False) for f in cls.WIRE.fields), _NO_UNKNOWN_TAGS], False)


def _test(f: Field) -> tuple[str, Any]:
    """How to see that a field is set. As `writing.differs` says it in Python; null is not empty, though both are false."""
    if f.kind == "struct" and not f.array:
        return "unequal" if f.fresh else "unequal or unsent" if f.tag is not None else "not null", f.struct()
    if f.default is None:
        return "not null", None
    if f.fresh or f.default is False or f.default in (0, ""):
        return "true or null" if f.nullable else "true", f.default
    return "unequal", f.default
