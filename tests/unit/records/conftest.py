"""Every test of the kernel runs twice: on the compiled modules, and on the same source uncompiled."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import settings

from ottla.kafka07.records import produced_messages as arrivals07
from ottla.kafka07.records import renderer as rendered07
from ottla.records import kernel
from ottla.records.batches import arrow, builder, columns, header, lines, rows, verification
from ottla.records.compilation_warning import warn_once
from ottla.records.compression import decompression
from ottla.records.message_sets import conversion, legacy

settings.register_profile("records", deadline=None)  # a first call imports, and machines are shared
settings.load_profile("records")

KERNELS = (
    "kernel",
    "kernel_build",
    "kernel_checksum",
    "kernel_arrow",
    "kernel_compact",
    "kernel_legacy",
    "kernel_lines",
    "kernel_record",
    "kernel_send",
    "kernel_sound",
    "kernel_07",
)
USERS = (arrivals07, arrow, builder, columns, conversion, header, legacy, lines, decompression, rendered07, rows, verification)


def uncompiled(name: str) -> ModuleType:
    """The module from its Python source, whatever was compiled from it."""
    path = Path(importlib.import_module("ottla.records").__path__[0], f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"ottla.records.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    return module


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def kernels(request: pytest.FixtureRequest) -> Iterator[SimpleNamespace]:
    """The kernel's modules of one run, in use everywhere in `ottla.records`."""
    if request.param == "compiled":
        if not kernel.COMPILED:
            pytest.skip("the kernel is not compiled: install a C compiler, then reinstall Ottla")
        yield SimpleNamespace(**{name: importlib.import_module(f"ottla.records.{name}") for name in KERNELS})
        return
    modules = {name: uncompiled(name) for name in KERNELS}
    with pytest.MonkeyPatch.context() as patch:
        for user in USERS:
            for name in modules.keys() & vars(user).keys():
                patch.setattr(user, name, modules[name])
        warn_once.cache_clear()
        yield SimpleNamespace(**modules)
    warn_once.cache_clear()
