"""A reader that Apache Kafka slows down by a quota gets everything all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest
from tests.client.test_ranges import reading, values, write
from tests.support.fetching import talk
from tests.support.frames import Raw
from tests.support.peers import start_peer

pytestmark = pytest.mark.interop

ALTER_CLIENT_QUOTAS = 49
RECORDS = 40_000


def limit_readers(address: str, bytes_per_s: int) -> None:
    made = AlterClientQuotasRequest
    entity = made.EntityData(entity_type="client-id", entity_name=None)
    entry = made.EntryData(entity=[entity], ops=[made.OpData(key="consumer_byte_rate", value=float(bytes_per_s), remove=False)])
    with Raw(address) as raw:
        answer = talk(raw)(ALTER_CLIENT_QUOTAS, 1, made(entries=[entry], validate_only=False))
    assert answer.entries[0].error_code == 0


@pytest.mark.full(seconds=10)
def test_an_answer_held_back_by_a_quota_is_waited_for(tmp_path: Path) -> None:
    with start_peer("apache-kafka", tmp_path) as kafka:
        with ottla.Admin(kafka.address) as admin:
            admin.create_topic("t", 1)
        write(kafka, "t", 0, RECORDS // 100, size=100, width=100)
        limit_readers(kafka.address, 410_000)  # over windows of ten seconds, and there are 4.5 megabytes
        assert len(values(reading(kafka, request_timeout_ms=30_000), "t", 0, 0, RECORDS)) == RECORDS
