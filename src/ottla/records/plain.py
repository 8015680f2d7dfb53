"""Stands in for the `cython` module where Cython is not installed, so that the kernel's source runs as it is.

Knows the few names that `kernel` uses at run time. Types are never evaluated: they stand in annotations only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

Function = TypeVar("Function")


class _Lock:
    """`nogil` stands both before functions and in `with`; there is no lock to release here."""

    def __call__(self, function: Function) -> Function:
        return function

    def __enter__(self) -> None:
        return None

    def __exit__(self, *failure: object) -> None:
        return None


def _as_it_is(function: Function) -> Function:
    return function


def exceptval(*, check: bool) -> Callable[[Function], Function]:
    del check
    return _as_it_is


def freelist(size: int) -> Callable[[Function], Function]:
    del size
    return _as_it_is


def declare(kind: object, *, visibility: str = "") -> None:
    del kind, visibility


compiled: Final = False
nogil: Final = _Lock()
cfunc: Final = _as_it_is
cclass: Final = _as_it_is
no_gc: Final = _as_it_is
longlong: Final = int
int: Final = int
inline: Final = _as_it_is
