"""Compile the kernels of `ottla.records` where there is a C compiler; without one they run as the Python that they are."""

from __future__ import annotations

from setuptools import Extension, setup

KERNELS = ("kernel", "kernel_build", "kernel_arrow", "kernel_compact", "kernel_legacy", "kernel_record")
DIRECTIVES = {"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True}


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernels = [Extension(f"ottla.records.{name}", [f"src/ottla/records/{name}.py"], extra_compile_args=["-O3"]) for name in KERNELS]
    options = {"compiler_directives": DIRECTIVES, "build_dir": "build/cython", "quiet": True}
    made = list(cythonize(kernels, **options))  # type: ignore[no-untyped-call]  # Cython has no types for it
    for extension in made:
        extension.optional = True  # cythonize makes new ones, which forget that they were
    return made


setup(ext_modules=extensions())
