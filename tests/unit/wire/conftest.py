"""Every test that encodes or decodes runs twice: on the compiled kernels, and on the generated Python that stands in for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.wire.codec import messages
from tests.unit.wire.values import EVERY


def forget_codecs() -> None:
    for cls in EVERY:
        cls.WIRE.readers.clear()
        cls.WIRE.writers.clear()


@pytest.fixture(scope="module", params=["compiled", "generated"])
def codecs(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which codecs all messages have in one run."""
    if request.param == "compiled" and not messages.COMPILED:
        pytest.skip("the kernel is not compiled: install a C compiler, then reinstall Ottla")
    forget_codecs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "COMPILED", request.param == "compiled")
        yield request.param
    forget_codecs()
