"""Inputs that `make fuzz` found once, each with what was wrong."""

from __future__ import annotations

import struct

import pytest

from ottla.records.compression import codecs
from ottla.records.message_sets.legacy import BadMessage, open_message_set, wrapper
from ottla.wire.errors import NONE
from tests.support.arrivals import accept

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.mark.parametrize("inner_offset", [-(1 << 63), -1])
def test_a_negative_offset_within_a_wrapper_is_no_offset_for_a_reader_and_is_given_anew_on_arrival(inner_offset: int) -> None:
    """Its distance from the wrapper's offset did not fit 64 bits, and an OverflowError left the opening."""
    inner = struct.pack(">q", inner_offset) + wrapper(0, 1, 0, 5, b"value")[8:]
    message_set = wrapper(6, 1, codecs.GZIP, 5, codecs.compress(codecs.GZIP, inner))
    with pytest.raises(BadMessage, match="do not fit its own, 6"):
        open_message_set(message_set)
    taken = accept(message_set)
    assert (taken.error_code, [(header.base_offset, header.record_count) for header in taken.headers]) == (NONE, [(0, 1)])
