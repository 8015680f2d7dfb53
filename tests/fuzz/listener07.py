"""Frames at a listener of Kafka 0.6 or 0.7: each is answered, passed over or ends its connection, and the broker goes on."""

from __future__ import annotations

import random
from collections.abc import Callable

from ottla.broker.serving.request import Close
from ottla.kafka07.records.messages import message_set
from ottla.kafka07.wire import (
    FetchRequest07,
    MultiFetchRequest07,
    MultiProduceRequest07,
    OffsetsRequest07,
    ProduceRequest07,
    Request,
    encode_request,
)
from ottla.records.compression import codecs
from tests.support.machine07 import Machine07


def frames(rng: random.Random) -> tuple[str, list[bytes], Callable[[bytes], None]]:
    """What they are, seeds, and the check of one."""
    release = rng.choice(["0.6", "0.7"])
    machine = Machine07(release, num_partitions=2, message_max_bytes=1000)

    def check(frame: bytes) -> None:
        answer = machine.send07(frame)
        assert answer is None or isinstance(answer, bytes | Close), "there is nothing else to be answered"
        assert not machine.broker.changes.mistakes, "the broker met a mistake"

    return f"frames at a listener of {release}", list(map(encode_request, _requests(rng))), check


def _requests(rng: random.Random) -> list[Request]:
    payloads = [rng.randbytes(rng.randrange(20)) for _ in range(rng.randrange(1, 4))]
    plain = [message_set(payloads, magic=magic) for magic in (0, 1)]
    sets = [*plain, b"".join(plain), *(message_set(payloads, codec=codec) for codec in (codecs.GZIP, codecs.SNAPPY))]
    produces = [ProduceRequest07("t", rng.randrange(-1, 2), each) for each in sets]
    fetches = [FetchRequest07("t", rng.randrange(2), rng.randrange(100), rng.randrange(1000)) for _ in range(3)]
    offsets = [OffsetsRequest07("t", 0, time, 10) for time in (-1, -2, 1000)]
    return [*produces, *fetches, *offsets, MultiFetchRequest07(fetches), MultiProduceRequest07(produces)]
