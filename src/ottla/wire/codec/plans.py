"""Plans: the layout of each struct in one version, computed from its declaration. Kernels and plain Python both follow them.

The module uses declarations, and reads no bytes.
"""

from __future__ import annotations

from struct import calcsize
from typing import Any, Final, NamedTuple

from ottla.wire.codec.sizes import NUMBERS, head_code, least_size
from ottla.wire.schema import Field, Message, Struct

_KINDS: Final = {"str": "text", "plain": "text"}
"""The kinds of variable width that have different names in the schema (keys) and in a plan (values)."""
_UNTAGGED: Final = -1


class Step(NamedTuple):
    """One field of a plan. `kind` is one of `kernel.KINDS`, and `item` is the kind of an array's numbers.

    `tag` is -1 for an untagged field. `size` is the number of bytes of a fixed value. For arrays it is the fewest bytes of an item,
    and for arrays of strings the bytes of a string's length. `width` is the number of bytes of a length or count, 1 for a varint.
    `inner` is the plan of a struct.
    """

    name: str
    kind: str
    tag: int
    size: int = 0
    width: int = 0
    nullable: bool = False
    item: str = ""
    inner: StructPlan | None = None

    @property
    def fixed(self) -> bool:
        """Return whether the field is a single value whose size in bytes is always the same."""
        return self.kind in NUMBERS

    @property
    def struct(self) -> StructPlan:
        """Return the plan of a struct, or of the structs in an array."""
        assert self.inner is not None, f"{self.name} is not a struct"
        return self.inner


class Blank(NamedTuple):
    """A field that is tagged, or that the version does not have.

    `kind` and `value` define the field's default, `test` and `like` whether it is set. `kind` is one of `kernel.DEFAULTS`: one
    value for all objects, a new list, or a new struct (then `value` is the struct's plan). `test` is one of `kernel.TESTS`. A
    field whose value is the object `like` counts as not set.
    """

    name: str
    kind: str
    value: Any = None
    test: str = "never"
    like: Any = None


class StructPlan(NamedTuple):
    """The layout of one struct in one version.

    `title` is the struct's name in tracebacks. `steps` are the untagged fields in the order of their bytes, `tags` the tagged
    fields in the order of their tags. `blanks` are the fields of `tags`, then all fields that the version does not have, then
    `unknown_tags`.
    """

    title: str
    cls: type[Struct]
    steps: tuple[Step, ...]
    tags: tuple[Step, ...]
    blanks: tuple[Blank, ...]
    flexible: bool


def plan_of(cls: type[Message], version: int) -> StructPlan:
    return _plan(cls, version, version in cls.WIRE.flexible)


def _plan(cls: type[Struct], version: int, flexible: bool) -> StructPlan:
    here = [f for f in cls.WIRE.fields if version in f.present]
    tagged = sorted((f for f in here if f.tag is not None and flexible), key=lambda f: f.tag or 0)
    absent = [f for f in cls.WIRE.fields if f not in here]
    steps = tuple(_step(f, version, flexible) for f in here if f not in tagged)
    tags = tuple(_step(f, version, flexible) for f in tagged)
    blanks = (_blank(f, checked=f in tagged or not f.ignorable) for f in tagged + absent)
    return StructPlan(f"{cls.__qualname__} v{version}", cls, steps, tags, (*blanks, _NO_UNKNOWN_TAGS), flexible)


def _step(f: Field, version: int, flexible: bool) -> Step:
    tag = f.tag if f.tag is not None and flexible else _UNTAGGED
    nullable = version in f.nullable
    if f.fixed:
        return Step(f.name, f.kind, tag, calcsize(">" + f.kind))
    inner = _plan(f.struct, version, flexible) if f.kind == "struct" else None
    if inner and not f.array:
        return Step(f.name, "struct or null" if nullable else "struct", tag, inner=inner)
    width = calcsize(head_code(f, flexible))
    if not f.array:
        return Step(f.name, _KINDS.get(f.kind, f.kind), tag, 0, width, nullable)
    if inner:
        return Step(f.name, "structs", tag, least_size(f.struct, version, flexible), width, nullable, inner=inner)
    if f.kind == "str":
        return Step(f.name, "texts", tag, 1 if flexible else 2, width, nullable)
    return Step(f.name, "numbers", tag, calcsize(">" + f.kind), width, nullable, f.kind)


_NO_UNKNOWN_TAGS: Final = Blank("unknown_tags", "shared", ())


def _blank(f: Field, *, checked: bool) -> Blank:
    test, like = _test(f) if checked else ("never", None)
    if not f.fresh:
        return Blank(f.name, "shared", f.default, test, like)
    return Blank(f.name, "list" if f.array else "struct", None if f.array else _of_defaults(f.struct), test, like)


def _of_defaults(cls: type[Struct]) -> StructPlan:
    return StructPlan(
        cls.__qualname__, cls, (), (), (*(_blank(f, checked=False) for f in cls.WIRE.fields), _NO_UNKNOWN_TAGS), False
    )


def _test(f: Field) -> tuple[str, Any]:
    """Return the name of the test that decides whether a field is set, and the operand of the test.

    The test distinguishes null from an empty value.
    """
    if f.kind == "struct" and not f.array:
        if f.fresh or f.tag is not None:
            return "unequal" if f.fresh else "unequal or unsent", f.struct()
        return "not null", None
    if f.default is None:
        return "not null", None
    if f.fresh or f.default is False or f.default in (0, ""):
        return "true or null" if f.nullable else "true", [] if f.array else f.default
    return "unequal", f.default
