"""Compile the columns kernel where there is a C compiler; without one it runs uncompiled."""

from __future__ import annotations

from setuptools import Extension, setup

KERNEL = "src/ottla/records/kernel.py"


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernel = Extension("ottla.records.kernel", [KERNEL], extra_compile_args=["-O3"], optional=True)
    directives = {"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True}
    return list(cythonize([kernel], compiler_directives=directives, quiet=True))


setup(ext_modules=extensions())
