"""One family guided by coverage: `python -m tests.fuzz.guided FAMILY [options of libFuzzer]`. Needs atheris.

The first byte of an input chooses what the rest is; the kernels run uncompiled, or their branches could not be seen.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import tempfile
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

atheris: Any = importlib.import_module("atheris")  # no stubs: they would be needed on every machine

KERNELS = (
    "kernel_common",
    "kernel",
    "kernel_record",
    "kernel_send",
    "kernel_build",
    "kernel_arrow",
    "kernel_compact",
    "kernel_legacy",
    "kernel_07",
)
CHOICES = 256
"""Seeds of rounds: an input chooses one of them, and so what its bytes are held to be."""


def _uncompiled(name: str) -> None:
    """Put the module's Python source where everyone imports it from, whatever was compiled of it."""
    path = Path(importlib.import_module("ottla.records").__path__[0], f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"ottla.records.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    setattr(importlib.import_module("ottla.records"), name, module)
    spec.loader.exec_module(module)
    _watch(module)


def _watch(module: ModuleType) -> None:
    for thing in list(vars(module).values()):
        if isinstance(thing, FunctionType) and thing.__module__ == module.__name__:
            atheris.instrument_func(thing)


def _watch_readers() -> None:
    """Readers are generated on first use: watch each as it is made."""
    function = importlib.import_module("ottla.wire.codec.plain").Generated
    compiled = function.compiled
    function.compiled = lambda made, title: atheris.instrument_func(compiled(made, title))


def main() -> None:
    name = sys.argv.pop(1)
    for kernel in KERNELS:
        _uncompiled(kernel)
    sys.modules["ottla.wire.codec.kernel"] = cast("ModuleType", None)  # so that Python reads messages
    with atheris.instrument_imports(include=["ottla"]):
        families = importlib.import_module("tests.fuzz.families")
        _watch_readers()
    rounds = [families.FAMILIES[name](random.Random(seed)) for seed in range(CHOICES)]

    def one(data: bytes) -> None:
        rounds[data[0] if data else 0].check(data[1:])

    with tempfile.TemporaryDirectory() as folder:
        for number, made in enumerate(rounds):
            for at, seed in enumerate(made.seeds):
                Path(folder, f"{number}-{at}").write_bytes(bytes((number,)) + seed)
        atheris.Setup([*sys.argv, folder, "-max_len=4096", "-rss_limit_mb=2048", f"-artifact_prefix={folder}/"], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
