"""Where the kernels are not compiled, plain Python reads and writes, and nobody meets Cython."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import ottla.wire.codec

KERNELS = sorted(Path(ottla.wire.codec.__path__[0]).glob("kernel*.py"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_the_source_of_a_kernel_refuses_to_be_imported(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"ottla.wire.codec.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=f"ottla.wire.codec.{path.stem} is of use only where it is compiled"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("missing", [path.stem for path in KERNELS])
def test_messages_travel_without_a_kernel(missing: str) -> None:
    code = (
        f"import sys; sys.modules['ottla.wire.codec.{missing}'] = None\n"
        "from ottla.wire import decode, encode; from ottla.wire.codec import messages\n"
        "from ottla.wire.api.heartbeat import HeartbeatRequest\n"
        "msg = HeartbeatRequest(group_id='g', generation_id=3)\n"
        "print(messages.COMPILED, decode(HeartbeatRequest, 4, encode(msg, 4)) == msg, 'cython' in sys.modules)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert said == "False True False\n"
