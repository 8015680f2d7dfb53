"""What the compiled kernels are told of a struct in one version. Where it is not compiled it cannot be imported.

A `Plan` says which fields come in what order, where an object keeps each, and what becomes of those that do not come. Messages are
slotted, and the member descriptor of a slot tells its place in every object of the class: that is how Python itself finds it.

Knows plans and slots. How a plan comes from a declaration it does not know (`plans`), nor how bytes are read (`kernel_read`) and
written (`kernel_write`). Types: `kernel.pyi`; C's: `kernel.pxd` and `capi.pxd`.
"""

from __future__ import annotations

if __file__.endswith(".py"):
    raise ImportError("ottla.wire.codec.kernel is of use only where it is compiled", name=__name__)

from struct import calcsize

import cython

if cython.compiled:
    from cython.cimports.cpython.mem import PyMem_Calloc, PyMem_Free
    from cython.cimports.cpython.object import PyTypeObject
    from cython.cimports.ottla.wire.codec.capi import (
        BOOL,
        BYTES,
        FLOAT64,
        INT8,
        INT16,
        INT32,
        INT64,
        NEVER,
        NEW_LIST,
        NEW_STRUCT,
        NOT_NULL,
        NUMBERS,
        RECORDS,
        SHARED,
        STRUCT,
        STRUCT_OR_NULL,
        STRUCTS,
        T_OBJECT_EX,
        TEXT,
        TEXTS,
        TRUE,
        TRUE_OR_NULL,
        UINT16,
        UINT32,
        UNEQUAL,
        UNEQUAL_OR_UNSENT,
        UUID,
        Blank,
        PyMemberDescrObject,
        Ref,
        Step,
    )

    KINDS = {
        "b": INT8,
        "h": INT16,
        "i": INT32,
        "q": INT64,
        "H": UINT16,
        "I": UINT32,
        "d": FLOAT64,
        "?": BOOL,
        "16s": UUID,
        "struct": STRUCT,
        "struct or null": STRUCT_OR_NULL,
        "text": TEXT,
        "bytes": BYTES,
        "records": RECORDS,
        "numbers": NUMBERS,
        "texts": TEXTS,
        "structs": STRUCTS,
    }
    DEFAULTS = {"shared": SHARED, "list": NEW_LIST, "struct": NEW_STRUCT}
    TESTS = {
        "never": NEVER,
        "true": TRUE,
        "true or null": TRUE_OR_NULL,
        "not null": NOT_NULL,
        "unequal or unsent": UNEQUAL_OR_UNSENT,
        "unequal": UNEQUAL,
    }


class Slotted:
    """Shows what a slot looks like in its class."""

    __slots__ = ("at",)


_SLOT = type(Slotted.at)


@cython.final
@cython.cclass
class Plan:
    """How one struct travels in one version.

    `fields` are the `plans.Step`s that come in order, `tags` those that come as tagged fields, ascending; `blanks` are the
    `plans.Blank`s of the tags and then of all else that does not come in order. Each must be a slot of the class.
    """

    def __cinit__(self, cls: type, fields, tags, blanks, flexible: bool):
        self.kept = [cls]
        self.type = cython.cast(cython.pointer[PyTypeObject], cython.cast(Ref, cls))
        self.flexible = flexible
        self.unknown_tags = _offset(cls, "unknown_tags")
        self.steps = cython.cast(cython.pointer[Step], _room(len(fields), cython.sizeof(Step)))
        self.tags = cython.cast(cython.pointer[Step], _room(len(tags), cython.sizeof(Step)))
        self.blanks = cython.cast(cython.pointer[Blank], _room(len(blanks), cython.sizeof(Blank)))
        for told in fields:
            _note(cython.address(self.steps[self.steps_count]), cls, told, self.kept)
            self.steps_count += 1
        for told in tags:
            _note(cython.address(self.tags[self.tags_count]), cls, told, self.kept)
            self.tags_count += 1
        for told in blanks:
            _note_blank(cython.address(self.blanks[self.blanks_count]), cls, told, self.kept)
            self.blanks_count += 1
        if self.blanks_count < self.tags_count:
            raise TypeError(f"{cls.__qualname__} has a tag without a default")

    def __dealloc__(self):
        PyMem_Free(self.steps)
        PyMem_Free(self.tags)
        PyMem_Free(self.blanks)


@cython.cfunc
def _room(count: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.p_void:
    """Zeroed memory for `count` things of `size`."""
    room: cython.p_void = PyMem_Calloc(count + 1, size)
    if room == cython.NULL:
        raise MemoryError
    return room


@cython.cfunc
@cython.exceptval(-1)
def _offset(cls, name) -> cython.Py_ssize_t:
    """Where in an object of `cls` its slot `name` is. Raises TypeError where it is no slot that may hold anything."""
    slot = getattr(cls, name)
    if type(slot) is not _SLOT or not issubclass(cls, slot.__objclass__):
        raise TypeError(f"{cls.__qualname__}.{name} is no slot")
    member = cython.cast(cython.pointer[PyMemberDescrObject], cython.cast(Ref, slot)).d_member
    if member.type != T_OBJECT_EX or member.flags:
        raise TypeError(f"{cls.__qualname__}.{name} is no slot of any object")
    return member.offset


@cython.cfunc
def _note(step: cython.pointer[Step], cls, told, kept: list):
    """Write down what was told of a field, and keep what the step refers to."""
    inner: Plan = told.inner
    step.kind = KINDS[told.kind]
    step.item = KINDS[told.item] if told.item else INT8
    step.width = told.width
    step.nullable = told.nullable
    step.tag = told.tag
    step.size = _size(step, told)
    step.least = told.least if step.kind == STRUCTS else step.size
    step.offset = _offset(cls, told.name)
    step.inner = cython.cast(Ref, inner)
    kept.append(inner)
    if step.kind in (STRUCT, STRUCT_OR_NULL, STRUCTS) and inner is None:
        raise TypeError(f"{cls.__qualname__}.{told.name} has no plan")
    if step.kind >= NUMBERS and step.least < 1:
        raise TypeError(f"{cls.__qualname__}.{told.name} has items that take no byte")


@cython.cfunc
@cython.exceptval(-1)
def _size(step: cython.pointer[Step], told) -> cython.Py_ssize_t:
    """See `Step` in kernel.pxd; 0 where that says nothing."""
    if step.kind == TEXTS:
        return 1 if step.width == 1 else 2
    if step.kind == NUMBERS:
        return calcsize(">" + told.item)
    return calcsize(">" + told.kind) if step.kind <= FLOAT64 else 0


@cython.cfunc
def _note_blank(blank: cython.pointer[Blank], cls, told, kept: list):
    """Write down what was told of a field that does not come in order, and keep its default."""
    value, like = told.value, told.like
    blank.kind = DEFAULTS[told.kind]
    blank.test = TESTS[told.test]
    blank.offset = _offset(cls, told.name)
    blank.value = cython.cast(Ref, value)
    blank.like = cython.cast(Ref, like)
    kept += (value, like)
    if blank.kind == NEW_STRUCT and not isinstance(value, Plan):
        raise TypeError(f"{cls.__qualname__}.{told.name} has no plan")
