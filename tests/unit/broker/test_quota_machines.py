"""Quotas as pure machines: whose quota holds, and that over time a client gets what it says, no more and no less."""

from __future__ import annotations

import random
from itertools import product

import pytest

from ottla.broker.quotas.buckets import TokenBucket
from ottla.broker.quotas.client_quotas import LEAST_SHARE, MOST_KNOWN, KindOfQuota, bound_of
from ottla.broker.quotas.replication import ReplicationQuota
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster.quotas import QuotaEntity

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS

IN_ORDER = [
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", ""),
    QuotaEntity("alice"),
    QuotaEntity("", "app"),
    QuotaEntity("", ""),
    QuotaEntity(""),
    QuotaEntity(None, "app"),
    QuotaEntity(None, ""),
]
"""As Kafka's documentation lists them, the first that is set counts."""


@pytest.mark.parametrize(
    "chosen", list(product((False, True), repeat=len(IN_ORDER))), ids=lambda bits: "".join("01"[b] for b in bits)
)
def test_the_most_precise_quota_that_is_set_counts(chosen: tuple[bool, ...]) -> None:
    quotas = {entity: float(number + 1) for number, entity in enumerate(IN_ORDER) if chosen[number]}
    bound = bound_of(quotas, "alice", "app")
    assert (None if bound is None else bound.per_second) == (min(quotas.values()) if quotas else None)


@pytest.mark.parametrize(
    ("entity", "owner"),
    [
        (QuotaEntity("", ""), QuotaEntity("alice", "app")),
        (QuotaEntity("alice", ""), QuotaEntity("alice", "app")),
        (QuotaEntity("", "app"), QuotaEntity("alice", "app")),
        (QuotaEntity(""), QuotaEntity("alice")),
        (QuotaEntity(None, ""), QuotaEntity(None, "app")),
    ],
)
def test_a_default_is_a_quota_of_its_own_for_each_whom_it_is_for(entity: QuotaEntity, owner: QuotaEntity) -> None:
    bound = bound_of({entity: 1.0}, "alice", "app")
    assert bound is not None
    assert bound.owner == owner


def test_who_gives_no_client_id_has_no_quota_of_client_ids() -> None:
    assert bound_of({QuotaEntity(None, ""): 1.0, QuotaEntity("", ""): 1.0}, "alice", "") is None


@pytest.mark.parametrize("seed", range(20))
def test_whoever_rests_as_told_gets_his_quota_within_a_part_in_twenty_in_any_half_minute(seed: int) -> None:
    rng = random.Random(seed)
    rate = 10 ** rng.uniform(2, 9)
    sizes = rng.choice([(0.001, 0.01), (0.01, 0.2), (0.3, 0.5)])  # parts of what a second allows
    bucket, now_ms, log = TokenBucket(rate, rate, 0, rate / LEAST_SHARE), 0, list[tuple[int, float]]()
    while now_ms < 120_000:
        size = rate * rng.uniform(*sizes)
        bucket.use(size, now_ms)
        log.append((now_ms, size))
        now_ms += bucket.debt_ms(now_ms)
    for start_ms in range(0, 90_000, 5_000):
        used = sum(size for at_ms, size in log if start_ms <= at_ms < start_ms + 30_000)
        assert used == pytest.approx(30 * rate, rel=0.05)


def test_in_a_simulated_week_a_client_that_comes_and_goes_never_gets_more_than_its_quota_and_a_window() -> None:
    rng = random.Random(1)
    rate, window_s = 1_000_000.0, 1.0
    bucket, now_ms, used = TokenBucket(rate, rate * window_s, 0), 0, 0.0
    while now_ms < WEEK_MS:
        size = rng.uniform(1, 50_000_000)
        bucket.use(size, now_ms)
        used += size
        rest_ms = bucket.debt_ms(now_ms)
        paid_by_ms = now_ms + rest_ms
        assert used <= rate * (paid_by_ms / 1000 + window_s)
        now_ms = paid_by_ms + rng.choice([0, 0, rng.randrange(HOUR_MS)])
    assert used > 0


def test_a_debt_is_paid_to_the_millisecond() -> None:
    bucket = TokenBucket(1000.0, 1000.0, 0)
    bucket.use(1000, 0)
    assert bucket.debt_ms(0) == 0
    bucket.use(250, 0)
    assert [bucket.debt_ms(now_ms) for now_ms in (0, 100, 249, 250)] == [250, 150, 1, 0]


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket = TokenBucket(1000.0, 1000.0, 5000)
    bucket.use(1500, 5000)
    assert bucket.debt_ms(4000) == 500


def test_all_that_share_a_quota_share_what_is_left_of_it() -> None:
    kind = KindOfQuota()
    kind.load({QuotaEntity("alice"): 10.0}, 1.0)
    one, other = kind.bucket("alice", "app", 0), kind.bucket("alice", "tool", 0)
    assert one is other
    assert one is not None
    assert kind.bucket("bob", "app", 0) is None


def test_a_quota_that_did_not_change_keeps_what_clients_owe() -> None:
    kind = KindOfQuota()
    kind.load({QuotaEntity("alice"): 10.0}, 1.0)
    bucket = kind.bucket("alice", "app", 0)
    assert bucket is not None
    bucket.use(100, 0)
    kind.load({QuotaEntity("alice"): 10.0, QuotaEntity("bob"): 5.0}, 1.0)
    assert kind.bucket("alice", "app", 0) is bucket
    kind.load({QuotaEntity("alice"): 20.0}, 1.0)
    raised = kind.bucket("alice", "app", 0)
    assert raised is not None
    assert raised.debt_ms(0) == 0


def test_made_up_client_ids_do_not_fill_the_memory_nor_free_those_who_owe_something() -> None:
    kind = KindOfQuota()
    kind.load({QuotaEntity("", ""): 1.0}, 1.0)
    debtor = kind.bucket("alice", "app", 0)
    assert debtor is not None
    debtor.use(1000, 0)
    for number in range(3 * MOST_KNOWN):
        kind.bucket("mallory", str(number), 0)
    assert kind.bucket("alice", "app", 0) is debtor
    assert max(len(kind._known), len(kind._buckets)) <= MOST_KNOWN


def replication_quota(num: int, size_s: int, rate: int = 1000) -> ReplicationQuota:
    texts = {"replication.quota.window.num": str(num), "replication.quota.window.size.seconds": str(size_s)}
    return ReplicationQuota(1, lambda: rate, SettingsInForce(BrokerSettings.parse(texts)))


def test_a_replication_quota_counts_over_its_windows_and_forgets_what_was_before() -> None:
    quota = replication_quota(num=4, size_s=2)
    assert not quota.is_used_up(0)
    quota.use(4_000, 0)
    assert quota.is_used_up(3_999)
    assert not quota.is_used_up(4_000)
    quota.use(6_000, 4_000)
    assert quota.is_used_up(7_999)  # ten thousand bytes in less than eight seconds
    assert not quota.is_used_up(10_000)  # the first four thousand are forgotten


def test_who_copied_nothing_for_long_may_not_copy_more_than_one_window_at_once() -> None:
    quota = replication_quota(num=11, size_s=1)
    quota.use(500, 0)
    quota.use(1_000, 600_000)
    assert not quota.is_used_up(600_000)
    quota.use(1, 600_000)
    assert quota.is_used_up(600_000)


@pytest.mark.parametrize("num", [2, 11])
def test_over_time_a_replication_quota_lets_as_much_through_as_it_says(num: int) -> None:
    quota, random_, used = replication_quota(num, size_s=1), random.Random(5), 0
    for now_ms in range(0, 100_000, 10):
        if not quota.is_used_up(now_ms):
            size = random_.randrange(1, 200)
            quota.use(size, now_ms)
            used += size
    assert used == pytest.approx(100_000, rel=0.05)


@pytest.mark.parametrize("per_second", [0.0, 5e-324, 1e-300, 1e-9, 1.0])
@pytest.mark.parametrize("amount", [1, 10**6, 2**62])
def test_a_debt_of_any_size_can_be_told(per_second: float, amount: int) -> None:
    bucket = TokenBucket(per_second, per_second, 0)
    bucket.use(amount, 0)
    assert 0 <= bucket.debt_ms(0) <= 2**31 - 1
    assert bucket.wait_ms(0) >= bucket.debt_ms(0)
