"""The schema language: a message is declared once, for all its versions, as a typed class.

    class HeartbeatRequest(Message, key=12, valid="0-4", flexible="4+"):
        group_id: str = since()
        group_instance_id: str | None = since("3+", default=None)

An annotation gives a field's type, `since()` the versions that have the field. An instance has no version, because the version is
an argument of `encode` and `decode`. This module contains only declarations, and reads and writes no bytes.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias, cast, dataclass_transform

# Fields have lower-case names, and `_Declaring` refuses a field with the name of an alias, so that no field shadows an alias.
i8: TypeAlias = int
i16: TypeAlias = int
i32: TypeAlias = int
i64: TypeAlias = int
u16: TypeAlias = int
u32: TypeAlias = int
f64: TypeAlias = float
Uuid: TypeAlias = bytes
"""16 bytes, big-endian."""
PlainStr: TypeAlias = str
"""A string whose length takes two bytes even in flexible versions, such as the client id of a request header."""
Records: TypeAlias = Any
"""Encoded record batches: a memoryview of the input after `decode`, and any object with `len()` for `encode_parts`."""

_KINDS: Final = {
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u16": "H",
    "u32": "I",
    "f64": "d",
    "bool": "?",
    "Uuid": "16s",
    "str": "str",
    "PlainStr": "plain",
    "bytes": "bytes",
    "Records": "records",
}
_ZERO: Final[dict[str, Any]] = {"?": False, "d": 0.0, "16s": bytes(16), "str": "", "plain": "", "bytes": b"", "records": None}
_MISSING: Final = object()
_VARIABLE: Final = frozenset({"str", "plain", "bytes", "records", "struct"})

END: Final = 1 << 15
"""The exclusive upper bound of versions, which are int16."""
NEVER: Final = range(0)


def versions(spec: str) -> range:
    """Parse a range of versions, such as `"3+"`, `"8-10"`, `"4"` or `"none"`."""
    if spec == "none":
        return NEVER
    if spec.endswith("+"):
        return range(int(spec[:-1]), END)
    low, _, high = spec.partition("-")
    return range(int(low), int(high or low) + 1)


class Field:
    """The schema of one field, for the codecs.

    `kind` is a format character of the module `struct` for a fixed-width value, else "str", "plain", "bytes", "records" or
    "struct"; `of` is the class of a struct. `present` and `nullable` are ranges of versions. `default` is the value of a field that
    was not set. With `fresh`, for lists and structs, each message gets a new default object.
    """

    __slots__ = ("array", "default", "fresh", "ignorable", "kind", "name", "nullable", "of", "present", "struct_name", "tag")

    def __init__(self, name: str, hint: str, rule: _Since) -> None:
        optional = hint.endswith(" | None")
        base = hint.removesuffix(" | None")
        self.name = name
        self.array = base.startswith("list[")
        if self.array:
            base = base[5:-1]
        self.struct_name = "" if base in _KINDS else base
        self.kind = _KINDS.get(base, "struct")
        self.of: type[Struct] | None = None
        self.present = versions(rule.versions)
        self.tag = rule.tag
        # A struct in a tagged field can be absent. Then None means "not sent", although the protocol has no null for it.
        unsent = self.kind == "struct" and self.tag is not None and not self.array and rule.null is None
        self.nullable = NEVER if unsent or not optional else versions(rule.null or rule.versions)
        self.ignorable = rule.ignorable
        self.fresh = rule.default is _MISSING and (self.array or self.kind == "struct")
        self.default = rule.default
        if rule.default is _MISSING and not self.fresh:
            self.default = b"" if self.kind == "records" and not optional else _ZERO.get(self.kind, 0)

    @property
    def fixed(self) -> bool:
        """Return whether the field always takes the same number of bytes."""
        return not self.array and self.kind not in _VARIABLE

    @property
    def struct(self) -> type[Struct]:
        """Return the class of a struct field."""
        assert self.of is not None, f"{self.name} is not a struct"
        return self.of

    def new_default(self) -> Any:
        """Return the default. A mutable default is a new object."""
        if not self.fresh:
            return self.default
        return [] if self.array else self.struct()


class _Since(NamedTuple):
    """The arguments of `since()`. They are the class attribute only until the class is declared; then the default is."""

    versions: str
    default: Any
    null: str | None
    tag: int | None
    ignorable: bool


def since(
    versions: str = "0+", *, default: Any = _MISSING, null: str | None = None, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare the versions that have a field, and how they encode it.

    Without `default` the default is zero, empty, or a struct of defaults. A field annotated `| None` can be null in all its
    versions, or only in the versions `null`. With `tag` it is a tagged field (KIP-482). Encoding raises an error for a set field
    that the version does not have. A field that is `ignorable` is left out silently instead.
    """
    return _Since(versions, default, null, tag, ignorable)


@dataclasses.dataclass(slots=True, eq=False)
class Wire:
    """The schema of one class. For a message, it includes the API key (or record type) and the valid and flexible versions.

    `records` says whether any field contains records. `codec` stores its `readers` and `writers` here, by version.
    """

    name: str
    fields: tuple[Field, ...]
    key: int
    valid: range
    flexible: range
    records: bool = False
    readers: dict[int, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    writers: dict[int, Callable[..., None]] = dataclasses.field(default_factory=dict)


@dataclass_transform(kw_only_default=True)
class _Declaring(type):
    """The metaclass of structs and messages. It gives each class slots, and makes it a dataclass from the declared fields.

    Most programs use few messages of those that they import. Therefore the part that takes the time, an `__init__` of its own, is
    made when the first object is (`_first_init`), and so are the fields that `dataclasses` reads (`_DataclassFields`).
    """

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int = -1,
        valid: str = "",
        flexible: str = "none",
    ) -> Any:
        if "__slots__" in namespace:  # a base class of declarations
            return super().__new__(mcs, name, bases, namespace)
        hints: dict[str, str] = namespace.setdefault("__annotations__", {})
        fields = tuple(Field(field, hint, namespace.pop(field)) for field, hint in hints.items())
        for f in fields:
            if f.name in _KINDS:
                raise TypeError(
                    f"{namespace['__qualname__']}.{f.name} is named as a type of the schema language: rename one of them"
                )
        hints["unknown_tags"] = "tuple[tuple[int, bytes], ...]"
        namespace["__slots__"] = tuple(hints)
        namespace["WIRE"] = Wire(name, fields, key, versions(valid or "none"), versions(flexible))
        declared: Any = super().__new__(mcs, name, bases, namespace)
        if valid:
            _bind_struct_classes(declared, declared)
        return declared


def _first_init(self: Struct, /, **fields: Any) -> None:
    _complete(type(self))
    type(self).__init__(self, **fields)


def _complete(cls: type[Struct]) -> None:
    """Give a declared class its own `__init__` and the fields of its dataclass, which replace those of `Struct`."""
    namespace: dict[str, Any] = {
        "__annotations__": cls.__annotations__,
        "__doc__": cls.__qualname__,  # otherwise dataclass writes a signature, which takes longer than all other work
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "unknown_tags": (),
    }
    plain = type(cls.__name__, (), namespace | {f.name: _dataclass_default(f) for f in cls.WIRE.fields})
    done: Any = dataclasses.dataclass(kw_only=True, repr=False, eq=False)(plain)
    cls.__dataclass_fields__ = done.__dataclass_fields__
    cls.__init__ = done.__init__  # type: ignore[method-assign]  # of the same class, as it was declared


class _DataclassFields:
    """The attribute `__dataclass_fields__` of a class that is not complete: reading it completes the class."""

    def __get__(self, instance: object, owner: type[Struct]) -> Any:
        if not hasattr(owner, "WIRE"):
            raise AttributeError("__dataclass_fields__")
        _complete(owner)
        return owner.__dataclass_fields__


class Struct(metaclass=_Declaring):
    """A part of a message. Annotations can name a struct of any message as `Message.Struct`.

    `unknown_tags` are tagged fields that the schema does not have, as (tag, bytes) in ascending order.
    """

    __slots__: ClassVar[tuple[str, ...]] = ()
    WIRE: ClassVar[Wire]
    __dataclass_fields__: ClassVar[Any] = _DataclassFields()
    unknown_tags: tuple[tuple[int, bytes], ...] = ()

    if not TYPE_CHECKING:
        __init__ = _first_init

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # a message is mutable, so it cannot be hashed

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in self.WIRE.fields if getattr(self, f.name) != f.new_default())
        tags = [f"unknown_tags={self.unknown_tags!r}"] if self.unknown_tags else []
        return f"{type(self).__qualname__}({', '.join([*shown, *tags])})"


class Message(Struct):
    """A request, a response, a header, or a value that is stored or nested in another message.

    A subclass is declared with its API key (or record type), all versions ever valid, and the versions with tagged fields.
    """

    __slots__ = ()


def _dataclass_default(f: Field) -> Any:
    if not f.fresh:
        return f.default
    return dataclasses.field(default_factory=list if f.array else f.new_default)


def _bind_struct_classes(cls: type[Message], owner: type[Struct]) -> None:
    """Set `of` in every struct field of a message, or of its part `owner`, to the struct's class."""
    for f in owner.WIRE.fields:
        if f.kind == "struct":
            f.of = f.of or _struct_named(f.struct_name, cls, owner)
            _bind_struct_classes(cls, f.of)
        elif f.kind == "records":
            cls.WIRE.records = True


def _struct_named(dotted: str, cls: type[Message], owner: type[Struct]) -> type[Struct]:
    first, _, name = dotted.partition(".")
    found = cls if first == cls.__name__ else getattr(sys.modules[owner.__module__], first)  # a module has `cls` only later
    return cast("type[Struct]", getattr(found, name) if name else found)
