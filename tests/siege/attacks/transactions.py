"""Transactional ids without end, long ones, and questions about them that are dear to answer."""

from __future__ import annotations

import time

from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest
from tests.siege.attack import attack
from tests.siege.attacks.groups import READY_S
from tests.siege.site import Site, framed, press


def find_transaction_coordinator(site: Site) -> None:
    """Have the topic of transactions made, and wait until transactional ids are served."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        site.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[site.named("first")]), 4)
        if site.ask(InitProducerIdRequest(transactional_id=site.named("first"), transaction_timeout_ms=60_000), 4).error_code == 0:
            return
        time.sleep(0.2)
    raise RuntimeError("nobody coordinates transactions")


def new_producer(transactional_id: str) -> bytes:
    return framed(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 4)


@attack("8 connections begin to be a transactional producer with a new id with every request", spoils=True)
def transactional_ids(site: Site) -> None:
    find_transaction_coordinator(site)
    press(site, lambda number: new_producer(site.named(number)), lines=8)


@attack("8 connections begin to be a transactional producer with a new id of 30 000 characters with every request", spoils=True)
def long_transactional_ids(site: Site) -> None:
    find_transaction_coordinator(site)
    press(site, lambda number: new_producer(f"{site.named(number)}{'x' * 30_000}"), lines=8)


@attack("8 connections list all transactional ids by a dear pattern; there are 2 000", spoils=True, minor=True)
def transactional_ids_by_pattern(site: Site) -> None:
    find_transaction_coordinator(site)
    for number in range(2_000):
        site.ask(InitProducerIdRequest(transactional_id=site.named("a" * 30 + str(number)), transaction_timeout_ms=60_000), 4)
    press(site, framed(ListTransactionsRequest(transactional_id_pattern="(.*a)+(.*a)+(.*a)+b"), 2), lines=8)
