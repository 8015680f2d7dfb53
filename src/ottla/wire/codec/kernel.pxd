# The plan of a struct in one version. The first blanks are those of the tags, in the same order.

from cpython.object cimport PyTypeObject
from ottla.wire.codec.capi cimport Blank, Step

cdef class CompiledPlan:
    cdef PyTypeObject* type
    cdef Step* steps
    cdef Step* tags
    cdef Blank* blanks
    cdef Py_ssize_t steps_count
    cdef Py_ssize_t tags_count
    cdef Py_ssize_t blanks_count
    cdef Py_ssize_t unknown_tags
    cdef bint flexible
    cdef list kept
