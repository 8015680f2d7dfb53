"""The compiled writer of messages. The module cannot be imported unless it is compiled.

Bytes are collected in one piece of memory, which becomes a part before each records value and at the end. Values are read from the
slots of objects. The writer holds a reference to each value in use, because the value's methods can run any code. Even the message
can change meanwhile.

The module uses plans and values. `explain` finds the exact fault of a value that cannot be encoded. Python types are in
`kernel_write.pyi`.
"""

from __future__ import annotations

if __file__.endswith(".py"):
    raise ImportError("ottla.wire.codec.kernel_write is of use only where it is compiled", name=__name__)

import cython

from ottla.wire.codec.primitives import LONGEST_STRING, Stop, write_tags

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
    from cython.cimports.cpython.mem import PyMem_Free, PyMem_Malloc, PyMem_Realloc
    from cython.cimports.libc.string import memcpy
    from cython.cimports.ottla.wire.codec.capi import (
        BOOL,
        BYTES,
        FIRST_BYTES,
        FLOAT64,
        INT8,
        INT16,
        INT32,
        INT64,
        NEVER,
        NOT_NULL,
        NUMBERS,
        RECORDS,
        STRUCT_OR_NULL,
        STRUCTS,
        TEXT,
        TRUE,
        TRUE_OR_NULL,
        UINT16,
        UINT32,
        UNEQUAL_OR_UNSENT,
        UUID,
        Blank,
        Kind,
        Memory,
        PyFloat_Pack8,
        PyLong_AsLongLong,
        PyObject_TypeCheck,
        PyUnicode_DATA,
        PyUnicode_GET_LENGTH,
        PyUnicode_IS_COMPACT_ASCII,
        Ref,
        Slot,
        Step,
    )
    from cython.cimports.ottla.wire.codec.kernel import CompiledPlan

_LONGEST = cython.declare(cython.Py_ssize_t, LONGEST_STRING)

Sink = cython.struct(start=Memory, at=Memory, end=Memory, first=Memory, parts=Ref, cuts=Ref, tags=cython.int)
"""The bytes written since the last part. `first` is memory that need not be freed. `tags` is the nesting depth in tagged fields."""
Into = cython.typedef(cython.pointer[Sink])


@cython.final
@cython.cclass
class Writer:
    """A writer of one plan's messages."""

    _plan: CompiledPlan

    def __cinit__(self, plan: CompiledPlan):
        if plan is None:
            raise TypeError("a writer wants a plan")
        self._plan = plan

    def write(self, msg, parts: list, cuts: list):
        """Append the encoded pieces to `parts`, and the indices of records values to `cuts`.

        Raises `Stop` or an exception of Python for a value that cannot be encoded.
        """
        first = cython.declare(cython.uchar[FIRST_BYTES])
        start: Memory = first
        end: Memory = start + FIRST_BYTES
        sink: Sink = Sink(start=start, at=start, end=end, first=start, parts=_ref(parts), cuts=_ref(cuts), tags=0)
        try:
            _put(cython.address(sink), self._plan, msg)
            _part(cython.address(sink))
        finally:
            if sink.start != sink.first:
                PyMem_Free(sink.start)

    def some(self, msg, parts: list, cuts: list, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Write like `write`, but only the fields from index `start` up to `stop`. After the last field also write the tags."""
        i: cython.Py_ssize_t
        first = cython.declare(cython.uchar[FIRST_BYTES])
        begun: Memory = first
        sink: Sink = Sink(start=begun, at=begun, end=begun + FIRST_BYTES, first=begun, parts=_ref(parts), cuts=_ref(cuts), tags=0)
        plan = self._plan
        if start < 0 or stop > plan.steps_count:
            raise Stop
        try:
            _check(plan, msg)
            for i in range(start, stop):
                step = cython.address(plan.steps[i])
                _field(cython.address(sink), step, _value(msg, step.offset))
            if plan.flexible and stop == plan.steps_count:
                _tags(cython.address(sink), plan, msg)
            _part(cython.address(sink))
        finally:
            if sink.start != sink.first:
                PyMem_Free(sink.start)

    def items(self, some: list, parts: list, cuts: list):
        """Write consecutive structs like `write`, without their count."""
        first = cython.declare(cython.uchar[FIRST_BYTES])
        begun: Memory = first
        sink: Sink = Sink(start=begun, at=begun, end=begun + FIRST_BYTES, first=begun, parts=_ref(parts), cuts=_ref(cuts), tags=0)
        try:
            for item in some:
                _put(cython.address(sink), self._plan, item)
            _part(cython.address(sink))
        finally:
            if sink.start != sink.first:
                PyMem_Free(sink.start)


# ----------------------------------------------------------------------- memory


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _ref(thing) -> Ref:
    """Return a borrowed reference to an object that the caller holds."""
    return cython.cast(Ref, thing)


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _want(sink: Into, size: cython.Py_ssize_t) -> cython.int:
    """Ensure room for `size` more bytes."""
    return 0 if sink.end - sink.at >= size else _grow(sink, size)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _grow(sink: Into, size: cython.Py_ssize_t) -> cython.int:
    used: cython.Py_ssize_t = sink.at - sink.start
    room: cython.Py_ssize_t = 2 * (sink.end - sink.start) + size
    grown: Memory
    if sink.start == sink.first:
        grown = cython.cast(Memory, PyMem_Malloc(room))
        if grown != cython.NULL:
            memcpy(grown, sink.first, used)
    else:
        grown = cython.cast(Memory, PyMem_Realloc(sink.start, room))
    if grown == cython.NULL:
        raise MemoryError
    sink.start = grown
    sink.at = grown + used
    sink.end = grown + room
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _copy(sink: Into, data: cython.p_void, size: cython.Py_ssize_t) -> cython.int:
    _want(sink, size)
    memcpy(sink.at, data, size)
    sink.at += size
    return 0


@cython.cfunc
def _since(sink: Into, mark: cython.Py_ssize_t):
    """Remove the bytes written since `mark` and return them."""
    data = PyBytes_FromStringAndSize(cython.cast(cython.p_char, sink.start + mark), sink.at - sink.start - mark)
    sink.at = sink.start + mark
    return data


@cython.cfunc
@cython.exceptval(-1, check=False)
def _part(sink: Into) -> cython.int:
    """Append the collected bytes as a part, if there are any."""
    if sink.at > sink.start:
        cython.cast(list, sink.parts).append(_since(sink, 0))
    return 0


# ---------------------------------------------------------------------- structs


@cython.cfunc
@cython.inline
def _value(made, offset: cython.Py_ssize_t):
    """Return the value of an object's slot."""
    slot = cython.cast(Slot, cython.cast(cython.p_char, cython.cast(Ref, made)) + offset)
    if slot[0] == cython.NULL:
        raise AttributeError("a field was deleted")
    return cython.cast(object, slot[0])


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put(sink: Into, plan: CompiledPlan, made) -> cython.int:
    i: cython.Py_ssize_t
    _check(plan, made)
    for i in range(plan.steps_count):
        step = cython.address(plan.steps[i])
        _field(sink, step, _value(made, step.offset))
    return _tags(sink, plan, made) if plan.flexible else 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _check(plan: CompiledPlan, made) -> cython.int:
    """Raise if the object has another class, or if a field is set that the version does not have."""
    i: cython.Py_ssize_t
    if not PyObject_TypeCheck(made, plan.type):
        raise TypeError("a struct is of another class")
    for i in range(plan.tags_count, plan.blanks_count):
        if plan.blanks[i].test != NEVER and _is_set(cython.address(plan.blanks[i]), _value(made, plan.blanks[i].offset)):
            raise Stop
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_set(blank: cython.pointer[Blank], value) -> cython.int:
    """Return whether a field differs from its default. Mostly it is the same object, which is checked quickly."""
    if cython.cast(Ref, value) == blank.like:
        return False
    if blank.test == TRUE:
        return bool(value)
    if blank.test == TRUE_OR_NULL:
        return value is None or bool(value)
    if blank.test == NOT_NULL:
        return value is not None
    if blank.test == UNEQUAL_OR_UNSENT and value is None:
        return False
    return bool(value != cython.cast(object, blank.like))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _tags(sink: Into, plan: CompiledPlan, made) -> cython.int:
    """Write the tag section: the known tags that are set, and the unknown tags."""
    i: cython.Py_ssize_t
    unknown = _value(made, plan.unknown_tags)
    known: list = []
    for i in range(plan.tags_count):
        value = _value(made, plan.tags[i].offset)
        if _is_set(cython.address(plan.blanks[i]), value):
            known.append((plan.tags[i].tag, _tag_body(sink, cython.address(plan.tags[i]), value)))
    if not known and not unknown:
        return _put_int(sink, 0, 1)
    pieces: list = []
    write_tags(known, unknown, pieces.append)
    section: bytes = b"".join(pieces)
    return _copy(sink, PyBytes_AS_STRING(section), PyBytes_GET_SIZE(section))


@cython.cfunc
def _tag_body(sink: Into, step: cython.pointer[Step], value):
    """Encode a tagged field's value. Tagged fields cannot contain records, because each records value is a separate part."""
    mark: cython.Py_ssize_t = sink.at - sink.start
    sink.tags += 1
    _field(sink, step, value)
    sink.tags -= 1
    return _since(sink, mark)


# ----------------------------------------------------------------------- fields


@cython.cfunc
@cython.exceptval(-1, check=False)
def _field(sink: Into, step: cython.pointer[Step], value) -> cython.int:
    if step.kind <= FLOAT64:
        return _number(sink, step.kind, value)
    if step.kind <= STRUCT_OR_NULL:
        return _struct(sink, step, value)
    if value is None:
        if not step.nullable:
            raise TypeError("is null, which it must not be")
        return _length(sink, step.width, -1)
    if step.kind == TEXT:
        return _text(sink, step.width, value)
    if step.kind == BYTES:
        return _bytes(sink, step.width, value)
    if step.kind == RECORDS:
        return _records(sink, step.width, value)
    return _array(sink, step, value if type(value) is list else _listed(value))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _number(sink: Into, kind: Kind, value) -> cython.int:
    """Write a value of fixed width."""
    if kind == INT32:
        return _put_int(sink, _integer(value, -0x80000000, 0x7FFFFFFF), 4)
    if kind == INT16:
        return _put_int(sink, _integer(value, -0x8000, 0x7FFF), 2)
    if kind == INT64:
        return _put_int(sink, PyLong_AsLongLong(value), 8)
    if kind == INT8:
        return _put_int(sink, _integer(value, -0x80, 0x7F), 1)
    if kind == BOOL:
        return _put_int(sink, bool(value), 1)
    if kind == UUID:
        return _uuid(sink, value)
    if kind == UINT16:
        return _put_int(sink, _integer(value, 0, 0xFFFF), 2)
    if kind == UINT32:
        return _put_int(sink, _integer(value, 0, 0xFFFFFFFF), 4)
    _want(sink, 8)
    PyFloat_Pack8(value, cython.cast(cython.p_char, sink.at), 0)
    sink.at += 8
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _integer(value, low: cython.longlong, high: cython.longlong) -> cython.longlong:
    number: cython.longlong = PyLong_AsLongLong(value)
    if number < low or number > high:
        raise Stop
    return number


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _put_int(sink: Into, number: cython.longlong, size: cython.int) -> cython.int:
    """Write the lowest `size` bytes of a number, big-endian."""
    i: cython.int
    _want(sink, size)
    for i in range(size):
        sink.at[i] = cython.cast(cython.uchar, number >> 8 * (size - 1 - i))
    sink.at += size
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _uuid(sink: Into, value) -> cython.int:
    if not isinstance(value, bytes | bytearray) or len(value) != 16:
        raise Stop
    data: bytes = bytes(value)
    return _copy(sink, PyBytes_AS_STRING(data), 16)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _struct(sink: Into, step: cython.pointer[Step], value) -> cython.int:
    """Write a struct. A nullable struct begins with a byte that says whether it is null; in a tagged field it is a varint."""
    if step.kind == STRUCT_OR_NULL:
        if value is None:
            return _put_int(sink, 0 if step.tag >= 0 else -1, 1)
        _put_int(sink, 1, 1)
    return _put(sink, cython.cast(CompiledPlan, step.inner), value)


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _length(sink: Into, width: cython.int, size: cython.Py_ssize_t) -> cython.int:
    """Write a length or count, -1 for null."""
    if width > 1:
        if size > (0x7FFF if width == 2 else 0x7FFFFFFF):
            raise Stop
        return _put_int(sink, size, width)
    rest: cython.size_t = size + 1
    _want(sink, 10)
    while rest > 0x7F:
        sink.at[0] = cython.cast(cython.uchar, rest & 0x7F | 0x80)
        sink.at += 1
        rest >>= 7
    sink.at[0] = cython.cast(cython.uchar, rest)
    sink.at += 1
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _text(sink: Into, width: cython.int, value) -> cython.int:
    if not isinstance(value, str):
        raise TypeError("must be a str")
    if PyUnicode_IS_COMPACT_ASCII(value):
        return _letters(sink, width, PyUnicode_DATA(value), PyUnicode_GET_LENGTH(value))
    encoded: bytes = cython.cast(str, value).encode()
    return _letters(sink, width, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _letters(sink: Into, width: cython.int, data: cython.p_void, size: cython.Py_ssize_t) -> cython.int:
    if size > _LONGEST:
        raise Stop
    _length(sink, width, size)
    return _copy(sink, data, size)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _bytes(sink: Into, width: cython.int, value) -> cython.int:
    data: bytes = value if isinstance(value, bytes) else _bytes_of(value)
    _length(sink, width, PyBytes_GET_SIZE(data))
    return _copy(sink, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


@cython.cfunc
def _bytes_of(value) -> bytes:
    """Copy a buffer of another type to bytes."""
    view = memoryview(value)
    if not view.c_contiguous:
        raise TypeError("the bytes do not lie in a row")
    return view.tobytes()


@cython.cfunc
@cython.exceptval(-1, check=False)
def _records(sink: Into, width: cython.int, value) -> cython.int:
    """Write the length of records. The value itself becomes a separate part, whatever its type."""
    size: cython.Py_ssize_t = len(value)
    _length(sink, width, size)
    if size == 0:
        return 0
    if sink.tags:
        raise Stop
    _part(sink)
    parts: list = cython.cast(list, sink.parts)
    cython.cast(list, sink.cuts).append(len(parts))
    parts.append(value)
    return 0


# ----------------------------------------------------------------------- arrays


@cython.cfunc
def _listed(value) -> list:
    """Return a list of the items of another sized iterable."""
    len(value)
    return list(value)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _array(sink: Into, step: cython.pointer[Step], items: list) -> cython.int:
    """Write a count and the items, whose number must not change meanwhile."""
    i: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(items)
    _length(sink, step.width, count)
    for i in range(count):
        if i >= len(items):
            raise Stop
        item = items[i]
        if step.kind == NUMBERS:
            _number(sink, step.item, item)
        elif step.kind == STRUCTS:
            _put(sink, cython.cast(CompiledPlan, step.inner), item)
        else:
            _text(sink, cython.cast(cython.int, step.size), item)
    return 0
