"""The compiled reader of messages, which makes decoding fast. The module cannot be imported unless it is compiled.

Messages have slots. The reader writes each value directly into its slot, without a constructor. The container of a new object owns
it at once, so that a fault needs no cleanup. Each length and count is compared with the remaining bytes before anything is read or
allocated.

The module uses bytes and plans. `explain` finds the exact fault of malformed bytes. Python types are in `kernel_read.pyi`.
"""

from __future__ import annotations

if __file__.endswith(".py"):
    raise ImportError("ottla.wire.codec.kernel_read is of use only where it is compiled", name=__name__)

import cython

from ottla.wire.codec.primitives import LONGEST_STRING, Stop, TooMany

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
    from cython.cimports.ottla.wire.codec.capi import (
        BOOL,
        BYTES,
        FLOAT64,
        INT8,
        INT16,
        INT32,
        INT64,
        NEW_LIST,
        NUMBERS,
        PY_SSIZE_T_MAX,
        SHARED,
        STRUCT_OR_NULL,
        STRUCTS,
        TEXT,
        UINT16,
        UINT32,
        UUID,
        Bytes,
        Kind,
        Py_INCREF,
        Py_SET_SIZE,
        Py_XDECREF,
        PyBool_FromLong,
        PyBytes_FromStringAndSize,
        PyFloat_FromDouble,
        PyFloat_Unpack8,
        PyList_New,
        PyListObject,
        PyLong_FromLong,
        PyLong_FromLongLong,
        PyMemoryView_FromObject,
        PyMemoryView_GET_BUFFER,
        PyObject_GetItem,
        PyType_GenericAlloc,
        PyUnicode_DecodeUTF8,
        Ref,
        Slot,
        Step,
        new_object,
    )
    from cython.cimports.ottla.wire.codec.kernel import CompiledPlan

_LONGEST = cython.declare(cython.Py_ssize_t, LONGEST_STRING)

_ANY = cython.declare(cython.Py_ssize_t, PY_SSIZE_T_MAX)

Source = cython.struct(start=Bytes, at=Bytes, end=Bytes, buf=Ref, view=Ref, left=cython.Py_ssize_t)
"""The bytes being read. `view` is created for the first records field. `left` is the number of items that arrays can still have."""
Src = cython.typedef(cython.pointer[Source])


@cython.final
@cython.cclass
class Reader:
    """A reader of one plan's messages."""

    _plan: CompiledPlan

    def __cinit__(self, plan: CompiledPlan):
        if plan is None:
            raise TypeError("a reader wants a plan")
        self._plan = plan

    def read(self, buf, position: cython.Py_ssize_t):
        """Read the message that begins at `position` and ends at the end of `buf`. Its records are views of `buf`.

        Raises `Stop` or UnicodeDecodeError for malformed bytes.
        """
        return _read(self._plan, buf, position)

    def begin(self, buf, position: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Read only the first `stop` fields of a struct at `position`; return it and the position after those fields."""
        view = _in_a_row(buf)
        src: Source = _source(view, position, _ANY)
        made = new_object(self._plan.type, 0)
        at = cython.cast(cython.p_char, cython.cast(Ref, made))
        try:
            if self._plan.blanks_count:
                _fill_blanks(self._plan, at)
            _fill_steps(cython.address(src), self._plan, at, 0, stop)
        finally:
            Py_XDECREF(src.view)
        return made, src.at - src.start

    def finish(self, made, buf, position: cython.Py_ssize_t, start: cython.Py_ssize_t, most: cython.Py_ssize_t) -> int:
        """Read the fields from index `start` on into a struct from `begin`, then its tags; return the position after it.

        Raises `TooMany` if arrays have more than `most` items together.
        """
        if type(made) is not cython.cast(object, cython.cast(Ref, self._plan.type)):
            raise TypeError("this is no struct of the plan")
        view = _in_a_row(buf)
        src: Source = _source(view, position, most)
        at = cython.cast(cython.p_char, cython.cast(Ref, made))
        try:
            _fill_steps(cython.address(src), self._plan, at, start, self._plan.steps_count)
            if self._plan.flexible:
                _tags(cython.address(src), self._plan, at)
        finally:
            Py_XDECREF(src.view)
        return src.at - src.start

    def items(self, buf, position: cython.Py_ssize_t, count: cython.Py_ssize_t, most: cython.Py_ssize_t):
        """Read consecutive structs from `position` on; return them and the position after the last.

        Read `count` structs, or fewer if their arrays would together have more than `most` items. Raises `TooMany` if the first
        struct alone has more.
        """
        view = _in_a_row(buf)
        src: Source = _source(view, position, most)
        made: list = []
        before: Bytes = src.at
        try:
            while len(made) < count:
                before = src.at
                one = new_object(self._plan.type, 0)
                _fill(cython.address(src), self._plan, cython.cast(cython.p_char, cython.cast(Ref, one)))
                made.append(one)
        except TooMany:
            if not made:
                raise
            src.at = before
        finally:
            Py_XDECREF(src.view)
        return made, src.at - src.start


@cython.cfunc
def _in_a_row(buf):
    """Return a new memoryview of contiguous bytes, which no other code can release."""
    view = memoryview(buf)
    held = PyMemoryView_GET_BUFFER(cython.cast(Ref, view))
    if held.ndim != 1 or held.strides[0] != 1 or held.format[0] != b"B":
        return memoryview(view.tobytes())
    return view


@cython.cfunc
def _source(view, position: cython.Py_ssize_t, most: cython.Py_ssize_t) -> Source:
    """Return the source for the bytes of a view from `position` on; the caller must keep the view."""
    held = PyMemoryView_GET_BUFFER(cython.cast(Ref, view))
    if position < 0 or position > held.len:
        raise Stop
    start = cython.cast(Bytes, held.buf)
    return Source(start=start, at=start + position, end=start + held.len, buf=cython.cast(Ref, view), view=cython.NULL, left=most)


# --------------------------------------------------------------------- messages


@cython.cfunc
@cython.inline
def _read(plan: CompiledPlan, buf, position: cython.Py_ssize_t):
    if type(buf) is bytes:
        return _message(plan, buf, PyBytes_AS_STRING(buf), PyBytes_GET_SIZE(buf), position)
    return _message_of_view(plan, memoryview(buf), position)


@cython.cfunc
def _message_of_view(plan: CompiledPlan, view, position: cython.Py_ssize_t):
    """Read a message from a new view, which no other code can release. A view that is not of contiguous bytes is copied."""
    held = PyMemoryView_GET_BUFFER(cython.cast(Ref, view))
    if held.ndim != 1 or held.strides[0] != 1 or held.format[0] != b"B":
        return _read(plan, view.tobytes(), position)
    return _message(plan, view, cython.cast(cython.p_char, held.buf), held.len, position)


@cython.cfunc
def _message(plan: CompiledPlan, buf, data: cython.p_char, size: cython.Py_ssize_t, position: cython.Py_ssize_t):
    """Read a message from the `size` bytes at `data`, which `buf` owns."""
    if position < 0 or position > size:
        raise Stop
    start = cython.cast(Bytes, data)
    src: Source = Source(start=start, at=start + position, end=start + size, buf=cython.cast(Ref, buf), view=cython.NULL, left=_ANY)
    made = new_object(plan.type, 0)
    try:
        _fill(cython.address(src), plan, cython.cast(cython.p_char, cython.cast(Ref, made)))
    finally:
        Py_XDECREF(src.view)
    if src.at != src.end:
        raise Stop
    return made


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _fill(src: Src, plan: CompiledPlan, made: cython.p_char) -> cython.int:
    """Set all fields of a new object."""
    if plan.blanks_count:
        _fill_blanks(plan, made)
    _fill_steps(src, plan, made, 0, plan.steps_count)
    if plan.flexible:
        if src.at < src.end and src.at[0] == 0:
            src.at += 1
        else:
            _tags(src, plan, made)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _fill_steps(src: Src, plan: CompiledPlan, made: cython.p_char, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
    """Set the untagged fields of an object from index `start` up to `stop`."""
    i: cython.Py_ssize_t
    if start < 0 or stop > plan.steps_count:
        raise Stop
    for i in range(start, stop):
        step = cython.address(plan.steps[i])
        _field(src, step, _emptied(made, step.offset) if start else cython.cast(Slot, made + step.offset))
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _fill_blanks(plan: CompiledPlan, made: cython.p_char) -> cython.int:
    """Set the defaults of all fields of an object that are tagged or absent in the version."""
    i: cython.Py_ssize_t
    for i in range(plan.blanks_count):
        blank = cython.address(plan.blanks[i])
        slot = cython.cast(Slot, made + blank.offset)
        if blank.kind == SHARED:
            Py_INCREF(blank.value)
            slot[0] = blank.value
        elif blank.kind == NEW_LIST:
            slot[0] = PyList_New(0)
        else:
            inner = cython.cast(CompiledPlan, blank.value)
            slot[0] = PyType_GenericAlloc(inner.type, 0)
            _fill_blanks(inner, cython.cast(cython.p_char, slot[0]))
    return 0


# ----------------------------------------------------------------------- fields


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _field(src: Src, step: cython.pointer[Step], slot: Slot) -> cython.int:
    """Read a field into an empty slot."""
    if step.kind <= FLOAT64:
        if src.end - src.at < step.size:
            raise Stop
        slot[0] = _number(src.at, step.kind)
        src.at += step.size
        return 0
    if step.kind <= STRUCT_OR_NULL:
        return _struct(src, step, slot)
    return _sized(src, step, slot)


@cython.cfunc
@cython.inline
def _number(at: Bytes, kind: Kind) -> Ref:
    """Return the value of fixed width that begins at `at`."""
    if kind == INT32:
        return PyLong_FromLong(cython.cast(cython.int, _uint32(at)))
    if kind == INT16:
        return PyLong_FromLong(cython.cast(cython.short, _uint16(at)))
    if kind == INT64:
        return PyLong_FromLongLong(
            cython.cast(cython.longlong, (cython.cast(cython.ulonglong, _uint32(at)) << 32) | _uint32(at + 4))
        )
    if kind == INT8:
        return PyLong_FromLong(cython.cast(cython.schar, at[0]))
    if kind == BOOL:
        return PyBool_FromLong(at[0])
    if kind == UUID:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, at), 16)
    if kind == UINT16:
        return PyLong_FromLong(_uint16(at))
    if kind == UINT32:
        return PyLong_FromLongLong(_uint32(at))
    return PyFloat_FromDouble(PyFloat_Unpack8(cython.cast(cython.p_char, at), 0))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint16(at: Bytes) -> cython.uint:
    return (cython.cast(cython.uint, at[0]) << 8) | at[1]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint32(at: Bytes) -> cython.uint:
    return (_uint16(at) << 16) | _uint16(at + 2)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _struct(src: Src, step: cython.pointer[Step], slot: Slot) -> cython.int:
    """Read a struct. A nullable struct begins with a byte that says whether it is null; in a tagged field it is a varint."""
    inner = cython.cast(CompiledPlan, step.inner)
    if step.kind == STRUCT_OR_NULL and _is_null(src, step):
        slot[0] = _null()
        return 0
    slot[0] = PyType_GenericAlloc(inner.type, 0)
    return _fill(src, inner, cython.cast(cython.p_char, slot[0]))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_null(src: Src, step: cython.pointer[Step]) -> cython.int:
    if step.tag >= 0:
        return _varint(src) == 0
    if src.at >= src.end:
        raise Stop
    src.at += 1
    return cython.cast(cython.schar, (src.at - 1)[0]) < 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _null() -> Ref:
    null = cython.cast(Ref, None)
    Py_INCREF(null)
    return null


@cython.cfunc
@cython.exceptval(-1, check=False)
def _sized(src: Src, step: cython.pointer[Step], slot: Slot) -> cython.int:
    """Read a field that begins with a length or count."""
    size: cython.Py_ssize_t = _length(src, step.width)
    if size < 0:
        if not step.nullable:
            raise Stop
        slot[0] = _null()
        return 0
    if step.kind >= NUMBERS:
        return _array(src, step, slot, size)
    if size > src.end - src.at:
        raise Stop
    if step.kind == TEXT:
        slot[0] = _text(src, size)
    elif step.kind == BYTES:
        slot[0] = PyBytes_FromStringAndSize(cython.cast(cython.p_char, src.at), size)
    else:
        slot[0] = _records(src, size)
    src.at += size
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-2, check=False)
def _length(src: Src, width: cython.int) -> cython.Py_ssize_t:
    """Read a length or count; -1 for null."""
    size: cython.Py_ssize_t
    if width == 1:
        return _varint(src) - 1
    if src.end - src.at < width:
        raise Stop
    size = cython.cast(cython.short, _uint16(src.at)) if width == 2 else cython.cast(cython.int, _uint32(src.at))
    src.at += width
    return size if size >= 0 else -1


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _varint(src: Src) -> cython.longlong:
    if src.at < src.end and src.at[0] < 0x80:
        src.at += 1
        return (src.at - 1)[0]
    return _long_varint(src)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _long_varint(src: Src) -> cython.longlong:
    value: cython.longlong = 0
    shift: cython.int = 0
    byte: cython.uchar
    while shift < 35 and src.at < src.end:
        byte = src.at[0]
        src.at += 1
        value |= cython.cast(cython.longlong, byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    raise Stop


@cython.cfunc
@cython.inline
def _text(src: Src, size: cython.Py_ssize_t) -> Ref:
    if size > _LONGEST:
        raise Stop
    return PyUnicode_DecodeUTF8(cython.cast(cython.p_char, src.at), size, cython.NULL)


@cython.cfunc
def _records(src: Src, size: cython.Py_ssize_t) -> Ref:
    """Return a view of the next `size` bytes."""
    start: cython.Py_ssize_t = src.at - src.start
    if src.view == cython.NULL:
        src.view = PyMemoryView_FromObject(src.buf)
    return PyObject_GetItem(src.view, slice(start, start + size))


# ----------------------------------------------------------------------- arrays


@cython.cfunc
@cython.exceptval(-1, check=False)
def _array(
    src: Src,
    step: cython.pointer[Step],
    slot: Slot,
    count: cython.Py_ssize_t,
) -> cython.int:
    """Read the items of an array, after checking that the remaining bytes are enough for `count` items.

    The list is allocated for all items, but its size counts only the items that are set. So the garbage collector never sees an
    empty place.
    """
    i: cython.Py_ssize_t
    if count > (src.end - src.at) // step.size:
        raise Stop
    if count > src.left:
        raise TooMany
    src.left -= count
    slot[0] = PyList_New(count)
    items: Slot = cython.cast(cython.pointer[PyListObject], slot[0]).ob_item
    Py_SET_SIZE(slot[0], 0)
    for i in range(count):
        if step.kind == NUMBERS:
            items[i] = _number(src.at, step.item)
            src.at += step.size
        elif step.kind == STRUCTS:
            items[i] = PyType_GenericAlloc(cython.cast(CompiledPlan, step.inner).type, 0)
        else:
            items[i] = _item_text(src, step.size)
        Py_SET_SIZE(slot[0], i + 1)
        if step.kind == STRUCTS:
            _fill(src, cython.cast(CompiledPlan, step.inner), cython.cast(cython.p_char, items[i]))
    return 0


@cython.cfunc
def _item_text(src: Src, width: cython.int) -> Ref:
    size: cython.Py_ssize_t = _length(src, width)
    if size < 0 or size > src.end - src.at:
        raise Stop
    text = _text(src, size)
    src.at += size
    return text


# ------------------------------------------------------------------------- tags


@cython.cfunc
@cython.exceptval(-1, check=False)
def _tags(src: Src, plan: CompiledPlan, made: cython.p_char) -> cython.int:
    """Read a tag section: the tagged fields of the plan, and unknown tagged fields, which are kept as bytes."""
    unknown: list = []
    stop: Bytes
    count: cython.longlong = _varint(src)
    if count > src.left:
        raise TooMany
    src.left -= count
    while count > 0:
        count -= 1
        tag: cython.longlong = _varint(src)
        size: cython.longlong = _varint(src)
        if size > src.end - src.at:
            raise Stop
        stop = src.at + size
        step = _tagged(plan, tag)
        if step == cython.NULL:
            unknown.append((tag, src.at[:size]))
            src.at = stop
        else:
            _field(src, step, _emptied(made, step.offset))
        if src.at != stop:
            raise Stop
    if unknown:
        tags = tuple(unknown)
        Py_INCREF(cython.cast(Ref, tags))
        _emptied(made, plan.unknown_tags)[0] = cython.cast(Ref, tags)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _tagged(plan: CompiledPlan, tag: cython.longlong) -> cython.pointer[Step]:
    """Return the step of a tag; NULL for a tag that the plan does not have."""
    i: cython.Py_ssize_t
    for i in range(plan.tags_count):
        if plan.tags[i].tag == tag:
            return cython.address(plan.tags[i])
    return cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def _emptied(made: cython.p_char, offset: cython.Py_ssize_t) -> Slot:
    """Remove the default from a slot, and return the slot."""
    slot: Slot = cython.cast(Slot, made + offset)
    old = slot[0]
    slot[0] = cython.NULL
    Py_XDECREF(old)
    return slot
