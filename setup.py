"""Compile the kernels where there is a C compiler.

Without one the kernels of `ottla.records` and `ottla.net` run as the Python that they are, and for the others there is
`ottla.wire.codec.plain`.
"""

from __future__ import annotations

from setuptools import Extension, setup

KERNELS = (
    "net.kernel_links",
    "net.kernel_meter",
    "net.kernel_schedule",
    "net.kernel_sync",
    "net.kernel_write",
    "records.kernel",
    "records.kernel_07",
    "records.kernel_build",
    "records.kernel_checksum",
    "records.kernel_arrow",
    "records.kernel_compact",
    "records.kernel_legacy",
    "records.kernel_lines",
    "records.kernel_record",
    "records.kernel_send",
    "records.kernel_sound",
    "wire.codec.kernel",
    "wire.codec.kernel_read",
    "wire.codec.kernel_write",
)
DECLARATIONS = [
    "src/ottla/net/link_calls.pxd",
    "src/ottla/net/slice_calls.pxd",
    "src/ottla/records/kernel_common.pxd",
    "src/ottla/wire/codec/capi.pxd",
    "src/ottla/wire/codec/kernel.pxd",
]
DIRECTIVES = {"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True}


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernels = [
        Extension(f"ottla.{name}", [f"src/ottla/{name.replace('.', '/')}.py"], extra_compile_args=["-O3"]) for name in KERNELS
    ]
    options = {"compiler_directives": DIRECTIVES, "build_dir": "build/cython", "quiet": True}
    made = list(cythonize(kernels, **options))  # type: ignore[no-untyped-call]  # Cython has no types for it
    for extension in made:
        extension.optional = True  # cythonize makes new ones, which forget that they were
        extension.depends = DECLARATIONS  # whatever depends on it, only so does a source distribution take it along
    return made


setup(ext_modules=extensions())
