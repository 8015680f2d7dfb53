"""What decoding takes beyond the bytes that it was given."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest

from ottla.wire import decode, encode
from ottla.wire.api.fetch import FetchResponse

RECORDS_BYTES = 100_000_000
MOST_MB = 2

IN_A_PROCESS = """
import resource, sys
from ottla.wire import decode
from ottla.wire.api.fetch import FetchResponse

decode(FetchResponse, 12, bytes.fromhex(sys.argv[1]))  # makes the reader
data = bytearray(sys.stdin.buffer.read())
view = memoryview(data)
before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
message = decode(FetchResponse, 12, view)
grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
records = [part.records for topic in message.responses for part in topic.partitions]
print(grown_kb, sum(map(len, records)), all(one.obj is data for one in records))
"""


def response(partitions: int) -> bytes:
    of = FetchResponse
    records = bytes(RECORDS_BYTES // partitions)
    parts = [of.PartitionData(partition_index=index, high_watermark=1, records=records) for index in range(partitions)]
    return encode(of(responses=[of.FetchableTopicResponse(topic="t", partitions=parts)]), 12)


@pytest.mark.parametrize("partitions", [1, 100, 1000])
def test_a_fetch_response_of_100_mb_is_decoded_in_less_than_2_mb(partitions: int) -> None:
    data = response(partitions)
    small = encode(FetchResponse(), 12)
    for view in (data, memoryview(data), memoryview(bytearray(data))):
        decode(FetchResponse, 12, small)
        tracemalloc.start()
        message = decode(FetchResponse, 12, view)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(len(part.records or b"") for part in message.responses[0].partitions) == RECORDS_BYTES
        assert peak < MOST_MB * 1e6


def test_nor_does_the_process_grow() -> None:
    """As the system sees it: what no allocator of Python's would tell is counted too."""
    small = encode(FetchResponse(), 12).hex()
    done = subprocess.run([sys.executable, "-c", IN_A_PROCESS, small], input=response(10), capture_output=True, check=True)
    grown_kb, seen, shared = done.stdout.split()
    assert int(grown_kb) < MOST_MB * 1000
    assert (int(seen), shared) == (RECORDS_BYTES, b"True")
