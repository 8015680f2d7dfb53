"""What is encoded and decoded again is the same, in every version of every message."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.wire import decode, encode, encode_parts
from ottla.wire.inspection.walk import leaves
from ottla.wire.schema import Message, Struct
from tests.unit.wire.values import EVERY, Values

pytestmark = pytest.mark.usefixtures("codecs")

_QUICK = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


def plain(o: Any) -> Any:
    """A value with memoryviews as bytes, and structs that a tag leaves unsent as the default that they stand for."""
    if isinstance(o, Struct):
        shown = {}
        for f in o.WIRE.fields:
            value = getattr(o, f.name)
            unsent = value is None and f.kind == "struct" and f.tag is not None and not f.array and not f.nullable
            shown[f.name] = plain(f.struct() if unsent else value)
        return type(o).__qualname__, shown, o.unknown_tags
    if isinstance(o, list):
        return [plain(item) for item in o]
    return bytes(o) if isinstance(o, memoryview) else o


@pytest.mark.rows(170, seconds=0.1)
@pytest.mark.slow
@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_version_survives_a_round_trip_from_any_buffer(cls: type[Message]) -> None:
    @given(st.data())
    @_QUICK
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(list(cls.WIRE.valid)))
        msg = data.draw(Values(version, unknown_tags=True).of(cls))
        encoded = encode(msg, version)
        back = decode(cls, version, encoded)
        assert plain(back) == plain(msg)
        assert encode(back, version) == encoded
        framed = bytearray(b"before" + encoded)
        assert plain(decode(cls, version, framed, 6)) == plain(msg)
        assert plain(decode(cls, version, memoryview(framed)[6:])) == plain(msg)
        assert b"".join(encode_parts(back, version)) == encoded
        places = [(0, 0), *((leaf.start, leaf.end) for leaf in leaves(cls, version, encoded)), (len(encoded), len(encoded))]
        assert all(before[1] <= after[0] <= after[1] for before, after in pairwise(places))

    check()


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_a_message_of_defaults_travels_in_every_version(cls: type[Message]) -> None:
    for version in cls.WIRE.valid:
        encoded = encode(cls(), version)
        assert encode(decode(cls, version, encoded), version) == encoded
