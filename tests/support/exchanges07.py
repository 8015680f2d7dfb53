"""A conversation with a broker of Kafka 0.7, byte for byte: each kind of request and what 0.7.2 answers, and what it closes upon.

Layouts are those of the "Wire Format" and "Writing a Driver for Kafka" pages, behaviour is that of a 0.7.2 broker with one
partition for each topic. Every field stands by itself: size, type, topic's length, topic, partition and so on. Each exchange builds
on those before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.kafka07 import wire as kafka07

UNANSWERED: Final = ""


class Exchange(NamedTuple):
    """A request as hex, its size included, and the whole answer; "" where there is none."""

    what: str
    request: str
    answer: str

    @property
    def asked(self) -> kafka07.Request:
        return kafka07.decode_request(bytes.fromhex(self.request)[4:])


class Refused(NamedTuple):
    """A request as hex, its size included, upon which the broker closes the connection without a word."""

    what: str
    request: str


EXCHANGES: Final = (
    Exchange(
        "PRODUCE: a message of magic 0 and one of magic 1",
        "0000002d 0000 0004 646f6773 00000000 0000001d 0000000a 00 3610a686 68656c6c6f 0000000b 01 00 3610a686 68656c6c6f",
        UNANSWERED,
    ),
    Exchange(
        "OFFSETS, the latest",
        "00000018 0004 0004 646f6773 00000000 ffffffffffffffff 00000005",
        "00000016 0000 00000002 000000000000001d 0000000000000000",
    ),
    Exchange(
        "OFFSETS, the earliest",
        "00000018 0004 0004 646f6773 00000000 fffffffffffffffe 00000005",
        "0000000e 0000 00000001 0000000000000000",
    ),
    Exchange(
        "OFFSETS, the latest alone",
        "00000018 0004 0004 646f6773 00000000 ffffffffffffffff 00000001",
        "0000000e 0000 00000001 000000000000001d",
    ),
    Exchange(
        "OFFSETS, none asked for",
        "00000018 0004 0004 646f6773 00000000 ffffffffffffffff 00000000",
        "00000006 0000 00000000",
    ),
    Exchange(
        "OFFSETS before a time in the year 2100",
        "00000018 0004 0004 646f6773 00000000 000003bb2cc3d800 00000005",
        "00000016 0000 00000002 000000000000001d 0000000000000000",
    ),
    Exchange(
        "OFFSETS before 1970 began",
        "00000018 0004 0004 646f6773 00000000 0000000000000000 00000005",
        "00000006 0000 00000000",
    ),
    Exchange(
        "OFFSETS of a topic that nobody has, the latest",
        "00000018 0004 0004 6e6f6e65 00000000 ffffffffffffffff 00000005",
        "0000000e 0000 00000001 0000000000000000",
    ),
    Exchange(
        "OFFSETS of a topic that nobody has, before a time",
        "00000018 0004 0004 6e6f6e65 00000000 000003bb2cc3d800 00000005",
        "00000006 0000 00000000",
    ),
    Exchange(
        "FETCH from the start",
        "00000018 0001 0004 646f6773 00000000 0000000000000000 00100000",
        "0000001f 0000 0000000a 00 3610a686 68656c6c6f 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Exchange(
        "FETCH the second message",
        "00000018 0001 0004 646f6773 00000000 000000000000000e 00100000",
        "00000011 0000 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Exchange(
        "FETCH at the end",
        "00000018 0001 0004 646f6773 00000000 000000000000001d 00100000",
        "00000002 0000",
    ),
    Exchange(
        "FETCH behind the end",
        "00000018 0001 0004 646f6773 00000000 000000000000001e 00100000",
        "00000002 0001",
    ),
    Exchange(
        "FETCH before the start",
        "00000018 0001 0004 646f6773 00000000 ffffffffffffffff 00100000",
        "00000002 0001",
    ),
    Exchange(
        "FETCH at the highest offset, as 0.6 did to be told that it is out of range",
        "00000018 0001 0004 646f6773 00000000 7fffffffffffffff 00100000",
        "00000002 0001",
    ),
    Exchange(
        "FETCH fewer bytes than a size has",
        "00000018 0001 0004 646f6773 00000000 0000000000000000 00000003",
        "00000005 0000 000000",
    ),
    Exchange(
        "FETCH up to within the second message",
        "00000018 0001 0004 646f6773 00000000 0000000000000000 00000014",
        "00000016 0000 0000000a 00 3610a686 68656c6c6f 0000000b0100",
    ),
    Exchange(
        "FETCH nothing",
        "00000018 0001 0004 646f6773 00000000 0000000000000000 00000000",
        "00000002 0000",
    ),
    Exchange(
        "FETCH from within a message",
        "00000018 0001 0004 646f6773 00000000 0000000000000002 00100000",
        "0000001d 0000 000a003610a68668656c6c6f0000000b01003610a68668656c6c6f",
    ),
    Exchange(
        "FETCH of a topic that nobody has",
        "00000018 0001 0004 6e6f6e65 00000000 0000000000003039 00100000",
        "00000002 0000",
    ),
    Exchange(
        "FETCH of a partition that the topic does not have",
        "00000018 0001 0004 646f6773 00000001 0000000000000000 00100000",
        "00000002 0003",
    ),
    Exchange(
        "FETCH of any partition",
        "00000018 0001 0004 646f6773 ffffffff 0000000000000000 00100000",
        "00000002 0003",
    ),
    Exchange(
        "FETCH of a topic without a name",
        "00000014 0001 0000 00000000 0000000000000000 00100000",
        "00000002 ffff",
    ),
    Exchange(
        "FETCH of a topic whose name has a slash",
        "00000018 0001 0004 646f2f73 00000000 0000000000000000 00100000",
        "00000002 ffff",
    ),
    Exchange(
        "MULTIFETCH, each with its own outcome",
        "00000072 0002 0005 0004 646f6773 00000000 0000000000000000 00100000 0004 646f6773 00000000 "
        "000000000000001d 00100000 0004 646f6773 00000000 000000000000001e 00100000 0004 6e6f6e65 00000000 "
        "0000000000000007 00100000 0004 646f6773 00000009 0000000000000000 00100000",
        "0000003d 0000 0000001f 0000 0000000a 00 3610a686 68656c6c6f 0000000b 01 00 3610a686 68656c6c6f 00000002 "
        "0000 00000002 0001 00000002 0000 00000002 0003",
    ),
    Exchange(
        "MULTIFETCH of nothing",
        "00000004 0002 0000",
        "00000002 0000",
    ),
    Exchange(
        "MULTIPRODUCE to two topics",
        "0000004c 0003 0002 0004 646f6773 00000000 0000000f 0000000b 01 00 3a771143 776f726c64 0004 63617473 "
        "00000000 0000001d 0000000a 00 3a771143 776f726c64 0000000b 01 00 3610a686 68656c6c6f",
        UNANSWERED,
    ),
    Exchange(
        "FETCH what came to the first",
        "00000018 0001 0004 646f6773 00000000 000000000000001d 00100000",
        "00000011 0000 0000000b 01 00 3a771143 776f726c64",
    ),
    Exchange(
        "FETCH what came to the second",
        "00000018 0001 0004 63617473 00000000 0000000000000000 00100000",
        "0000001f 0000 0000000a 00 3a771143 776f726c64 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Exchange(
        "MULTIPRODUCE of nothing",
        "00000004 0003 0000",
        UNANSWERED,
    ),
    Exchange(
        "PRODUCE two messages in gzip",
        "00000045 0000 0004 776f6c66 00000000 00000035 00000031 01 01 08ea43b0 "
        "1f8b0800000000000203636060e06464a8ca69fb989f97ca00e6089eea4a2b29cf07005706a9481a000000",
        UNANSWERED,
    ),
    Exchange(
        "FETCH them as they were sent",
        "00000018 0001 0004 776f6c66 00000000 0000000000000000 00100000",
        "00000037 0000 00000031 01 01 08ea43b0 "
        "1f8b0800000000000203636060e06464a8ca69fb989f97ca00e6089eea4a2b29cf07005706a9481a000000",
    ),
    Exchange(
        "PRODUCE them in a raw block of snappy and in a stream of snappy, and a plain one",
        "0000007e 0000 0004 776f6c66 00000000 0000006e 00000022 01 02 0da59a74 "
        "1a640000000901007a6c86f16f6e6500000009010011ca8a6674776f 00000036 01 02 2843cb4f "
        "82534e415050590000000001000000010000001c1a640000000901007a6c86f16f6e6500000009010011ca8a6674776f "
        "0000000a 00 3610a686 68656c6c6f",
        UNANSWERED,
    ),
    Exchange(
        "FETCH all three",
        "00000018 0001 0004 776f6c66 00000000 0000000000000035 00100000",
        "00000070 0000 00000022 01 02 0da59a74 1a640000000901007a6c86f16f6e6500000009010011ca8a6674776f 00000036 "
        "01 02 2843cb4f "
        "82534e415050590000000001000000010000001c1a640000000901007a6c86f16f6e6500000009010011ca8a6674776f "
        "0000000a 00 3610a686 68656c6c6f",
    ),
    Exchange(
        "PRODUCE sets within a set",
        "0000006b 0000 0004 776f6c66 00000000 0000005b 00000057 01 01 b39454c7 "
        "1f8b0800000000000203636060306464e478e5bc41be9b83010498989313121ea4a4ac3895f97bc6fce9a7189e71cc7be5a5 "
        "ad799e9d219c6da587145811030783b3b8daefe2cc0a0095c51aa441000000",
        UNANSWERED,
    ),
    Exchange(
        "FETCH them",
        "00000018 0001 0004 776f6c66 00000000 00000000000000a3 00100000",
        "0000005d 0000 00000057 01 01 b39454c7 "
        "1f8b0800000000000203636060306464e478e5bc41be9b83010498989313121ea4a4ac3895f97bc6fce9a7189e71cc7be5a5 "
        "ad799e9d219c6da587145811030783b3b8daefe2cc0a0095c51aa441000000",
    ),
    Exchange(
        "FETCH from within them",
        "00000018 0001 0004 776f6c66 00000000 00000000000000ac 00000014",
        "00000016 0000 c71f8b0800000000000203636060306464e478e5",
    ),
    Exchange(
        "PRODUCE a message, and one that is cut off",
        "00000026 0000 0004 776f6c66 00000000 00000016 0000000b 01 00 3610a686 68656c6c6f 0000000b010036",
        UNANSWERED,
    ),
    Exchange(
        "FETCH the whole one",
        "00000018 0001 0004 776f6c66 00000000 00000000000000fe 00100000",
        "00000011 0000 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Exchange(
        "PRODUCE nothing, which makes the topic",
        "00000010 0000 0004 6d696365 00000000 00000000",
        UNANSWERED,
    ),
    Exchange(
        "OFFSETS of the empty topic",
        "00000018 0004 0004 6d696365 00000000 ffffffffffffffff 00000005",
        "0000000e 0000 00000001 0000000000000000",
    ),
    Exchange(
        "PRODUCE to any partition",
        "0000001f 0000 0004 6d696365 ffffffff 0000000f 0000000b 01 00 3610a686 68656c6c6f",
        UNANSWERED,
    ),
    Exchange(
        "FETCH it from the only one",
        "00000018 0001 0004 6d696365 00000000 0000000000000000 00100000",
        "00000011 0000 0000000b 01 00 3610a686 68656c6c6f",
    ),
)

REFUSED: Final = (
    Refused(
        "a message with a wrong checksum",
        "0000001e 0000 0003 626164 00000000 0000000f 0000000b01003610a68668656c6c4f",
    ),
    Refused(
        "a message of magic 2",
        "0000001e 0000 0003 626164 00000000 0000000f 0000000b 02 00 3610a686 68656c6c6f",
    ),
    Refused(
        "a message in a codec that came later",
        "0000001e 0000 0003 626164 00000000 0000000f 0000000b 01 03 3610a686 68656c6c6f",
    ),
    Refused(
        "a set whose first message is cut off",
        "0000001d 0000 0003 626164 00000000 0000000e 0000000b01003610a68668656c6c",
    ),
    Refused(
        "a message of a negative size",
        "0000001e 0000 0003 626164 00000000 0000000f ffffffff 0000000000000000000000",
    ),
    Refused(
        "a message of the highest size",
        "0000001e 0000 0003 626164 00000000 0000000f 7fffffff 0000000000000000000000",
    ),
    Refused(
        "a gzip that is none",
        "00000020 0000 0003 626164 00000000 00000011 0000000d 01 01 652bf9a3 6e6f20677a6970",
    ),
    Refused(
        "a wrong checksum within a compressed set",
        "0000003c 0000 0003 626164 00000000 0000002d 00000029 01 01 39830502 "
        "1f8b0800000000000203636060e06664301358d696919a93e30f00989091610f000000",
    ),
    Refused(
        "a partition that the topic does not have",
        "0000001f 0000 0004 646f6773 00000007 0000000f 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Refused(
        "a topic without a name",
        "0000001b 0000 0000 00000000 0000000f 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Refused(
        "a topic whose name has a slash",
        "0000001f 0000 0004 646f2f73 00000000 0000000f 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Refused(
        "a second entry that is bad",
        "0000003d 0003 0002 0004 676f6f64 00000000 0000000f 0000000b 01 00 3610a686 68656c6c6f 0003 626164 "
        "00000000 0000000f 0000000b01003610a68668656c6c4f",
    ),
    Refused(
        "a request of type 5",
        "0000000c 0005 0004 646f6773 00000000",
    ),
    Refused(
        "a request of type -1",
        "0000000c ffff 0004 646f6773 00000000",
    ),
    Refused(
        "a frame of size 0",
        "00000000",
    ),
    Refused(
        "a frame of a negative size",
        "ffffffff",
    ),
    Refused(
        "a frame of the highest size",
        "7fffffff",
    ),
    Refused(
        "a FETCH that ends early",
        "00000014 0001 0004 646f6773 00000000 0000000000000000",
    ),
    Refused(
        "a PRODUCE whose set is larger than its frame",
        "0000001f 0000 0004 646f6773 00000000 00000064 0000000b 01 00 3610a686 68656c6c6f",
    ),
    Refused(
        "a FETCH of a negative size",
        "00000018 0001 0004 646f6773 00000000 0000000000000000 ffffffff",
    ),
    Refused(
        "a MULTIFETCH of a negative count",
        "00000004 0002 ffff",
    ),
    Refused(
        "an OFFSETS that asks for a negative number",
        "00000018 0004 0004 646f6773 00000000 ffffffffffffffff ffffffff",
    ),
    Refused(
        "an OFFSETS of a partition that the topic does not have",
        "00000018 0004 0004 646f6773 00000007 ffffffffffffffff 00000001",
    ),
    Refused(
        "an OFFSETS of a topic without a name",
        "00000014 0004 0000 00000000 ffffffffffffffff 00000001",
    ),
)
"""Upon a broker that knows the topic "dogs", with one partition. Of the first entry of the MULTIPRODUCE something is stored."""
