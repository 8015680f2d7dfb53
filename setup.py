"""Compile the columns kernel where there is a C compiler; without one it runs uncompiled."""

from __future__ import annotations

from setuptools import Extension, setup

KERNELS = ("kernel", "kernel_build", "kernel_arrow", "kernel_legacy")
DIRECTIVES = {"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True}


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernels = [
        Extension(f"ottla.records.{name}", [f"src/ottla/records/{name}.py"], extra_compile_args=["-O3"], optional=True)
        for name in KERNELS
    ]
    return list(cythonize(kernels, compiler_directives=DIRECTIVES, quiet=True))  # type: ignore[no-untyped-call]  # Cython has no types for it


setup(ext_modules=extensions())
