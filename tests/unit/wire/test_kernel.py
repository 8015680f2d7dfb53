"""The compiled kernels: what they refuse to be told, and values whose methods do what no value should."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest

from ottla.wire import decode, encode, encode_parts
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.codec import messages
from ottla.wire.codec.primitives import Stop
from ottla.wire.faults import Malformed, Unencodable

if not messages.COMPILED:
    pytest.skip("the kernels are not compiled: install a C compiler, then reinstall Ottla", allow_module_level=True)

from ottla.wire.codec.kernel import CompiledPlan
from ottla.wire.codec.kernel_read import Reader
from ottla.wire.codec.kernel_write import Writer
from ottla.wire.codec.plans import Blank, Step, StructPlan, plan_of

R = FetchResponse


def refused(*plan: Any) -> str:
    with pytest.raises((TypeError, KeyError, AttributeError)) as caught:
        CompiledPlan(StructPlan("a plan", *plan))
    return str(caught.value)


def test_a_plan_knows_slots_only() -> None:
    class Loose:
        unknown_tags = ()

    assert refused(Loose, [], [], [], False) == f"{Loose.__qualname__}.unknown_tags is no slot"
    assert "no attribute 'elsewhere'" in refused(R, [Step("elsewhere", "i", -1)], [], [], False)
    assert refused(R, [Step("WIRE", "i", -1)], [], [], False) == "FetchResponse.WIRE is no slot"


def test_a_plan_is_told_all_that_it_needs() -> None:
    assert refused(R, [Step("error_code", "complex", -1)], [], [], False) == "'complex'"
    assert refused(R, [Step("responses", "struct", -1)], [], [], False) == "FetchResponse.responses has no plan"
    assert "no attribute 'cls'" in refused(R, [], [], [Blank("responses", "struct", 3)], False)
    assert refused(R, [], [Step("error_code", "h", 3, 2)], [], True) == "FetchResponse has a tag without a default"
    inner = plan_of(R, 0)
    wrong = Step("responses", "structs", -1, width=1, inner=inner)
    assert refused(R, [wrong], [], [], False) == "FetchResponse.responses takes no byte"


@pytest.mark.parametrize("make", [Reader, Writer])
def test_there_is_no_reader_or_writer_without_a_plan(make: Any) -> None:
    for plan in (None, "plan"):
        with pytest.raises(TypeError):
            make(plan)


@pytest.mark.parametrize("position", [-1, 3, sys.maxsize])
def test_nothing_is_read_outside_the_buffer(position: int) -> None:
    with pytest.raises(Malformed):
        decode(R, 0, b"\0\0", position)


def partitions(*records: Any) -> R:
    return R(responses=[R.FetchableTopicResponse(partitions=[R.PartitionData(records=piece) for piece in records])])


def test_a_list_that_shrinks_while_it_is_written_is_refused() -> None:
    class Shrinking:
        def __len__(self) -> int:
            msg.responses[0].partitions.clear()
            msg.responses.clear()
            return 5

    msg = partitions(Shrinking(), b"never")
    with pytest.raises(Unencodable):
        encode_parts(msg, 12)


def test_a_value_that_goes_away_while_it_is_written_is_held() -> None:
    class Forgetful:
        def __len__(self) -> int:
            msg.responses = []
            gc.collect()
            return 5

    msg = partitions(Forgetful())
    assert len(encode_parts(msg, 12)) == 3


def test_what_is_read_is_freed_and_so_is_what_was_read_before_a_fault() -> None:
    data = encode(partitions(b"one", b"two"), 12)
    frame = bytearray(data)
    made = decode(R, 12, memoryview(frame))
    with pytest.raises(BufferError):
        frame.append(0)
    del made
    with pytest.raises(Malformed):
        decode(R, 12, memoryview(frame)[:-1])
    gc.collect()
    frame.append(0)


def test_no_reference_is_lost_or_kept() -> None:
    """Over many rounds, good and bad, memory stays as it is: blocks, and references to what is shared."""
    of = MetadataResponse
    topics = [of.MetadataResponseTopic(name="flüge", partitions=[of.MetadataResponsePartition(isr_nodes=[1, 500])])]
    data = encode(of(topics=topics, unknown_tags=((7, b"seven"),)), 9)
    broken = [data[:cut] for cut in range(len(data))]

    def round_trip() -> None:
        encode(decode(of, 9, data), 9)
        reader = of.WIRE.readers[9]
        for some in broken:
            with pytest.raises((Stop, UnicodeDecodeError)):
                reader(some, 0)

    def held() -> tuple[int, int, int]:
        gc.collect()
        return sys.getallocatedblocks(), sys.getrefcount(None), sys.getrefcount(of)

    for _ in range(3):
        round_trip()
    before = held()
    for _ in range(50):
        round_trip()
    assert all(abs(now - then) < 40 for now, then in zip(held(), before, strict=True)), (before, held())


def test_messages_are_known_to_the_garbage_collector() -> None:
    made = decode(R, 12, encode(partitions(b"x"), 12))
    assert gc.is_tracked(made)
    made.responses[0].topic = made  # type: ignore[assignment]  # a circle that no declaration allows

    class Watched:
        pass

    watched = Watched()
    gone = weakref.ref(watched)
    made.error_code = watched  # type: ignore[assignment]  # something that can be watched
    del made, watched
    gc.collect()
    assert gone() is None
