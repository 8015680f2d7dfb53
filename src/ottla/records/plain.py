"""A substitute for the `cython` module where Cython is not installed, so that the kernels' source runs unchanged.

It has the few names that the kernels use at run time. Types are used only in annotations, which are never evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

Function = TypeVar("Function")


class _Lock:
    """The substitute for `nogil`, which is used both as a decorator and in `with`. It does nothing."""

    def __call__(self, function: Function) -> Function:
        return function

    def __enter__(self) -> None:
        return None

    def __exit__(self, *failure: object) -> None:
        return None


def _as_it_is(function: Function) -> Function:
    return function


def exceptval(value: object = None, *, check: bool = True) -> Callable[[Function], Function]:
    del value, check
    return _as_it_is


def freelist(size: int) -> Callable[[Function], Function]:
    del size
    return _as_it_is


def declare(kind: object, value: object = None, *, visibility: str = "") -> object:
    del kind, visibility
    return value


def cast(kind: object, value: object) -> object:
    del kind
    return value


compiled: Final = False
nogil: Final = _Lock()
cfunc: Final = _as_it_is
cclass: Final = _as_it_is
no_gc: Final = _as_it_is
longlong: Final = int
int: Final = int
uint: Final = int
bint: Final = bool
Py_ssize_t: Final = int
p_uchar: Final = bytearray
inline: Final = _as_it_is
