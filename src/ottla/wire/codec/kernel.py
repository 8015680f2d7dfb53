"""Plans in C, for the kernels. The module cannot be imported unless it is compiled.

Messages have slots. The member descriptor of a slot contains the slot's offset in every object of the class; Python itself finds
slots by this offset.

The module converts plans of `plans` to C structs, which `kernel_read` and `kernel_write` follow. Python types are in `kernel.pyi`,
C types in `kernel.pxd` and `capi.pxd`.
"""

from __future__ import annotations

if __file__.endswith(".py"):
    raise ImportError("ottla.wire.codec.kernel is of use only where it is compiled", name=__name__)

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
    """An example class, for the type of a slot's member descriptor."""

    __slots__ = ("at",)


_SLOT = type(Slotted.at)


@cython.final
@cython.cclass
class CompiledPlan:
    """A `plans.StructPlan` in C. Each of its fields must be a slot of the class."""

    def __cinit__(self, plan):
        cls = plan.cls
        if not isinstance(cls, type):
            raise TypeError(f"{cls!r} is no class")
        self.kept = [cls]
        self.type = cython.cast(cython.pointer[PyTypeObject], cython.cast(Ref, cls))
        self.flexible = plan.flexible
        self.unknown_tags = _offset(cls, "unknown_tags")
        self.steps = cython.cast(cython.pointer[Step], _room(len(plan.steps), cython.sizeof(Step)))
        self.tags = cython.cast(cython.pointer[Step], _room(len(plan.tags), cython.sizeof(Step)))
        self.blanks = cython.cast(cython.pointer[Blank], _room(len(plan.blanks), cython.sizeof(Blank)))
        for told in plan.steps:
            _note(cython.address(self.steps[self.steps_count]), cls, told, self.kept)
            self.steps_count += 1
        for told in plan.tags:
            _note(cython.address(self.tags[self.tags_count]), cls, told, self.kept)
            self.tags_count += 1
        for told in plan.blanks:
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
    """Return zeroed memory for `count` structs of `size` bytes."""
    room: cython.p_void = PyMem_Calloc(count + 1, size)
    if room == cython.NULL:
        raise MemoryError
    return room


@cython.cfunc
@cython.exceptval(-1)
def _offset(cls, name) -> cython.Py_ssize_t:
    """Return the offset of the slot `name` in objects of `cls`. Raises TypeError if `name` is not a slot for arbitrary objects."""
    slot = getattr(cls, name)
    if type(slot) is not _SLOT or not issubclass(cls, slot.__objclass__):
        raise TypeError(f"{cls.__qualname__}.{name} is no slot")
    member = cython.cast(cython.pointer[PyMemberDescrObject], cython.cast(Ref, slot)).d_member
    if member.type != T_OBJECT_EX or member.flags:
        raise TypeError(f"{cls.__qualname__}.{name} is no slot of any object")
    return member.offset


@cython.cfunc
def _note(step: cython.pointer[Step], cls, told, kept: list):
    """Fill in a C step from the `plans.Step` in `told`, and append the plan that it uses to `kept`."""
    inner = None if told.inner is None else CompiledPlan(told.inner)
    step.kind = KINDS[told.kind]
    step.item = KINDS[told.item] if told.item else INT8
    step.width = told.width
    step.nullable = told.nullable
    step.tag = told.tag
    step.size = told.size
    step.offset = _offset(cls, told.name)
    step.inner = cython.cast(Ref, inner)
    kept.append(inner)
    if step.kind in (STRUCT, STRUCT_OR_NULL, STRUCTS) and inner is None:
        raise TypeError(f"{cls.__qualname__}.{told.name} has no plan")
    if (step.kind <= FLOAT64 or step.kind >= NUMBERS) and step.size < 1:
        raise TypeError(f"{cls.__qualname__}.{told.name} takes no byte")


@cython.cfunc
def _note_blank(blank: cython.pointer[Blank], cls, told, kept: list):
    """Fill in a C blank from the `plans.Blank` in `told`, and append its default and its test's operand to `kept`."""
    value = CompiledPlan(told.value) if told.kind == "struct" else told.value
    blank.kind = DEFAULTS[told.kind]
    blank.test = TESTS[told.test]
    blank.offset = _offset(cls, told.name)
    blank.value = cython.cast(Ref, value)
    blank.like = cython.cast(Ref, told.like)
    kept += (value, told.like)
