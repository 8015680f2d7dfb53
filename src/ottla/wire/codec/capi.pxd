# The declarations of C that the kernels share. First, functions of CPython that Cython does not declare: if one fails, Cython
# raises the exception that it set. References are counted by hand; a function that makes an object returns an owned reference.

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

# The kinds of fields. The order matters: fixed widths come first, then structs, then kinds that begin with a length or count.
cdef enum Kind:
    INT32, INT16, INT64, INT8, BOOL, UUID, UINT16, UINT32, FLOAT64
    STRUCT, STRUCT_OR_NULL
    TEXT, BYTES, RECORDS
    NUMBERS, TEXTS, STRUCTS

# The kinds of defaults of a field that was not sent: the same value for all objects, a new list, a new struct.
cdef enum Default:
    SHARED, NEW_LIST, NEW_STRUCT

# One field in the order of the bytes; `tag` is -1 for an untagged one. `size` is the bytes of a fixed value, or the fewest bytes of
# an item in an array: for a string those of its length. `width` is the bytes of a length or count, 1 for a varint. `inner` is a
# borrowed reference to the plan of a struct, which the plan of the step owns.
cdef struct Step:
    Kind kind
    Kind item
    int width
    bint nullable
    long long tag
    Py_ssize_t offset
    Py_ssize_t size
    Ref inner

# The tests of whether a field that is tagged or absent in the version is set: never; if true; if true or null; if not null; if
# neither null nor equal to its default; if not equal to its default.
cdef enum Test:
    NEVER, TRUE, TRUE_OR_NULL, NOT_NULL, UNEQUAL_OR_UNSENT, UNEQUAL

# One field that is tagged or absent in the version. Reading begins with its default `value`: a shared value, or the plan of a
# struct of defaults. Writing tests it with `test`, against `like`.
cdef struct Blank:
    Default kind
    Test test
    Py_ssize_t offset
    Ref value
    Ref like

# The bytes that a message may take before memory is allocated: most take less.
cdef enum:
    FIRST_BYTES = 1024
