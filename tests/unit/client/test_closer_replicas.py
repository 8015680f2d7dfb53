"""A replica that is closer than the leader is read for as long as the leader names it."""

from __future__ import annotations

import pytest

from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchResponse
from tests.unit.client.test_fetcher import A, answer, asked, batch, reading, values


def preferring(node_id: int) -> FetchResponse:
    response = answer({A: b""})
    response.responses[0].partitions[0].preferred_read_replica = node_id
    return response


def test_a_closer_replica_that_the_leader_names_is_read_for_a_while() -> None:
    made = reading(A)
    made.preference_ms = 1_000
    (fetch,) = made.fetches(0)
    made.on_answer(fetch, preferring(2), 0)
    (fetch,) = made.fetches(0)
    assert (fetch.node_id, asked(fetch.request)) == (2, {A: 0})
    made.on_answer(fetch, answer({A: batch(0, [b"x"])}), 0)
    assert values(made.next_chunk()) == [b"x"]
    (fetch,) = made.fetches(999)
    assert fetch.node_id == 2
    made.on_answer(fetch, answer({A: b""}), 999)
    (fetch,) = made.fetches(1_000)
    assert fetch.node_id == 1


@pytest.mark.parametrize("fault", [codes.OFFSET_OUT_OF_RANGE, codes.NOT_LEADER_OR_FOLLOWER, None])
def test_after_a_fault_of_a_closer_replica_the_leader_decides(fault: int | None) -> None:
    """A follower that lags behind does not have the newest offsets yet: that is no reason to reset the position."""
    made = reading(A)
    (fetch,) = made.fetches(0)
    made.on_answer(fetch, preferring(2), 0)
    (fetch,) = made.fetches(0)
    if fault is None:
        made.broken(fetch, 0)
    else:
        made.on_answer(fetch, answer({A: fault}), 0)
    (fetch,) = made.fetches(200)
    assert (fetch.node_id, asked(fetch.request)) == (1, {A: 0})


def test_a_closer_replica_without_an_address_is_not_read() -> None:
    made = reading(A)
    (fetch,) = made.fetches(0)
    made.on_answer(fetch, preferring(9), 0)
    (fetch,) = made.fetches(0)
    assert fetch.node_id == 1


def test_a_leader_that_a_broker_names_is_read_at_once() -> None:
    made = reading(A)
    (fetch,) = made.fetches(0)
    refused = answer({A: codes.NOT_LEADER_OR_FOLLOWER})
    refused.responses[0].partitions[0].current_leader = FetchResponse.LeaderIdAndEpoch(leader_id=7, leader_epoch=9)
    refused.node_endpoints = [FetchResponse.NodeEndpoint(node_id=7, host="h", port=7)]
    made.on_answer(fetch, refused, 0)
    (fetch,) = made.fetches(0)
    assert (fetch.node_id, asked(fetch.request), made.wants_metadata) == (7, {A: 0}, set())
