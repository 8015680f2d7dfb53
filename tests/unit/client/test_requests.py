"""What requests say of whoever sends them: a consumer, whatever the version."""

from __future__ import annotations

import pytest

from ottla.client.connection.versions import FETCH, LIST_OFFSETS, SPOKEN
from ottla.client.consumer.fetch_requests import FetchLimits, FetchPosition, fetch_request
from ottla.client.consumer.list_offsets import list_offsets_request
from ottla.client.types import LATEST_TIMESTAMP, TopicPartition
from ottla.wire.framing import FrameHeader, decode_request, encode_request
from ottla.wire.schema import Message

WHERE = TopicPartition("t", 0)
FETCHES = fetch_request({WHERE: FetchPosition(7, -1)}, FetchLimits())
LOOKS_UP = list_offsets_request({WHERE: LATEST_TIMESTAMP}, read_committed=False, timeout_ms=1_000)


@pytest.mark.parametrize(("api_key", "body"), [(FETCH, FETCHES), (LIST_OFFSETS, LOOKS_UP)], ids=["Fetch", "ListOffsets"])
def test_requests_for_records_and_their_offsets_come_from_no_replica(api_key: int, body: Message) -> None:
    """A broker takes any other id for a follower's, and shows it what consumers must not see."""
    lowest, highest = SPOKEN[api_key]
    for version in range(lowest, highest + 1):
        parts = encode_request(FrameHeader(api_key, version, 1, "test"), body)
        _, sent = decode_request(b"".join(bytes(part) for part in parts)[4:])
        assert sent.replica_id == -1, version  # type: ignore[attr-defined]  # both have it
