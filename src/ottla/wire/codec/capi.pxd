# What the kernels share in C. First what they take from CPython beyond what Cython declares: where a function fails, Cython raises
# what it set; references are counted by hand, and a function that makes something gives its one reference away.

from cpython.object cimport PyObject, PyTypeObject

ctypedef PyObject* Ref
ctypedef Ref* Slot
ctypedef const unsigned char* Bytes
ctypedef unsigned char* Memory

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    object new_object "PyType_GenericAlloc" (PyTypeObject*, Py_ssize_t)
    Ref PyBool_FromLong(long) except NULL
    Ref PyBytes_FromStringAndSize(const char*, Py_ssize_t) except NULL
    Ref PyFloat_FromDouble(double) except NULL
    double PyFloat_Unpack8(const char*, int) except? -1.0
    int PyFloat_Pack8(double, char*, int) except -1
    Ref PyList_New(Py_ssize_t) except NULL
    long long PyLong_AsLongLong(object) except? -1
    Ref PyLong_FromLong(long) except NULL
    Ref PyLong_FromLongLong(long long) except NULL
    Ref PyMemoryView_FromObject(Ref) except NULL
    Py_buffer* PyMemoryView_GET_BUFFER(Ref)
    Ref PyObject_GetItem(Ref, object) except NULL
    Ref PyType_GenericAlloc(PyTypeObject*, Py_ssize_t) except NULL
    Ref PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*) except NULL
    void Py_INCREF(Ref)
    void Py_SET_SIZE(Ref, Py_ssize_t)
    void Py_XDECREF(Ref)
    bint PyObject_TypeCheck(object, PyTypeObject*)
    bint PyUnicode_IS_COMPACT_ASCII(object)
    void* PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)

    ctypedef struct PyListObject:
        Slot ob_item

cdef extern from "structmember.h":
    int T_OBJECT_EX

    ctypedef struct PyMemberDef:
        int type
        int flags
        Py_ssize_t offset

    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

# What stands in a field. The order matters: fixed widths come first, then structs, then what begins with a length.
cdef enum Kind:
    INT32, INT16, INT64, INT8, BOOL, UUID, UINT16, UINT32, FLOAT64
    STRUCT, STRUCT_OR_NULL
    TEXT, BYTES, RECORDS
    NUMBERS, TEXTS, STRUCTS

# How the default of a field that was not sent comes to be: the same value for all, a new list, a new struct.
cdef enum Default:
    SHARED, NEW_LIST, NEW_STRUCT

# One field as it travels; `tag` is -1 where it comes in order. `size` is that of a fixed value, in an array the fewest bytes of an
# item: all of a number, the length of a string. `width` is that of a length or count, 1 for a varint. `inner` is the plan of a struct,
# kept by the plan of the step.
cdef struct Step:
    Kind kind
    Kind item
    int width
    bint nullable
    long long tag
    Py_ssize_t offset
    Py_ssize_t size
    Ref inner

# When a field that does not travel, or in a tag only if it must, is set: never mind; when it is true; also when it is null; when it
# is not null; when it is neither null nor equal to its default; when it is not equal to that.
cdef enum Test:
    NEVER, TRUE, TRUE_OR_NULL, NOT_NULL, UNEQUAL_OR_UNSENT, UNEQUAL

# One field that does not come in order. Reading, it is at first `value`: that is shared, or the plan of a struct of defaults. Writing,
# `test` compares it with `like`.
cdef struct Blank:
    Default kind
    Test test
    Py_ssize_t offset
    Ref value
    Ref like

# What a message may take before memory is asked for: most take less.
cdef enum:
    FIRST_BYTES = 1024
