"""A short siege: some attacks harm nobody for good, and the figures and judgements on which `make siege` rests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.raw import batch
from ottla.testing import BrokerProcess
from tests.siege.attack import all_attacks
from tests.siege.brokers import STOP_S, BesiegedOttla, Given
from tests.siege.camp import Camp
from tests.siege.figures import MOST_MEMORY_MB, Figures, Latencies, complaints, latencies
from tests.siege.innocent import NUMBER, VALUE_BYTES, Sample
from tests.siege.looks import forget_peak, peak_mb, read_numbers
from tests.siege.report import Row, page
from tests.siege.run import Attackers, create_topics
from tests.support.frames import Raw
from tests.support.kinds import one_of_each

SECONDS = 2.0
HARMLESS = (
    "damaged-batches-without-acks",
    "fetch-of-unknown-partitions",
    "frames-before-logins",
    "half-frames",
    "idle-beyond-the-hard-limit",
    "metadata-of-few-pipelined",
    "zstd-bomb",
)
ALL_AT_ONCE = (
    "announced-and-never-finished",
    "arrays-of-empty-names",
    "fetches-unread",
    "half-frames",
    "large-half-frames",
    "zstd-bomb",
)
CALM = Latencies(sent=100, failed=0, missed=0, p50_ms=1.0, p99_ms=2.0, max_ms=3.0)


@pytest.fixture
def camp(tmp_path: Path) -> Iterator[Camp]:
    made = Camp(BesiegedOttla(), tmp_path)
    yield made
    made.strike()


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("name", one_of_each(HARMLESS, "half-frames", seconds=7))
def test_a_broker_under_attack_serves_others_and_is_itself_again(camp: Camp, name: str) -> None:
    figures = camp.attack(all_attacks()[name], SECONDS)
    assert not figures.trouble
    assert figures.did, "the attackers tell what they did"
    assert figures.during is not None
    assert figures.during.failed == 0
    assert figures.after is not None
    assert figures.after.sent, "the innocent is answered afterwards"
    assert figures.acknowledged
    assert figures.lost == 0
    assert figures.offline == []
    assert figures.peak_mb is None or figures.peak_mb < MOST_MEMORY_MB


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("name", one_of_each(["metadata-that-creates-topics", "metadata-of-few-pipelined"], seconds=7))
def test_a_broker_under_attack_stops_when_it_is_told_to(tmp_path: Path, name: str) -> None:
    attack = all_attacks()[name]
    with BrokerProcess(tmp_path / "data") as broker:
        attackers = Attackers(attack, broker.address, SECONDS)
        try:
            attackers.prepare()
            attackers.go()
            time.sleep(SECONDS / 2)
            assert broker.stop(STOP_S) == 0
        finally:
            attackers.end()


@pytest.mark.full(seconds=15)
@pytest.mark.slow
@pytest.mark.interop
def test_attacks_on_memory_take_no_more_together_than_is_promised(tmp_path: Path) -> None:
    """Each of them has a bound of its own; what all of them take of one broker is no more than docs/limits.md says."""
    with BrokerProcess(tmp_path / "data") as broker, contextlib.ExitStack() as held:
        besieging = [Attackers(all_attacks()[name], broker.address, 2 * SECONDS) for name in ALL_AT_ONCE]
        create_topics(broker.address, [("innocent", 1), *((f"{name}-topic", 4) for name in ALL_AT_ONCE)])
        for attackers in besieging:
            held.callback(attackers.end)
            attackers.prepare()
        forget_peak(broker.pid)
        for attackers in besieging:
            attackers.go()
        did = [attackers.wait() for attackers in besieging]
        assert all(did), "each tells what it did"
        peak = peak_mb(broker.pid)
        assert peak is None or peak < MOST_MEMORY_MB
        with Raw(broker.address) as innocent:
            assert innocent.produce("innocent", batch(b"v"))[0] == 0
        assert broker.stop(STOP_S) == 0


def test_attacks_tell_what_they_do() -> None:
    attacks = all_attacks()
    assert len({attack.sentence for attack in attacks.values()}) == len(attacks)
    assert not [attack.name for attack in attacks.values() if attack.sentence.endswith(".")]


def test_only_this_machine_is_attacked() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.7 may be another machine"):
        Given("10.0.0.7:9092")
    assert Given("127.0.0.1:9092").address == "127.0.0.1:9092"


def test_latencies_count_what_was_sent_within() -> None:
    samples = [Sample(float(number) / 50, 0.001 * number, number) for number in range(100)]
    found = latencies(samples, 0.0, 1.0)
    assert (found.sent, found.failed, found.missed) == (50, 0, 0)
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (25.0, 49.0, 49.0)


def test_a_record_that_failed_counts_with_the_time_it_took() -> None:
    found = latencies([Sample(0.0, 0.002, 0), Sample(0.1, -1 - 30.0, 1)], 0.0, 1.0)
    assert (found.sent, found.failed, found.missed) == (2, 1, 48)
    assert found.max_ms == 30_000


def test_nothing_sent_is_told() -> None:
    silent = latencies([], 0.0, 1.0)
    assert (silent.sent, silent.missed) == (0, 50)
    assert complaints(Figures(CALM, silent), None, 1.0) == ["no answer in the seconds after"]


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (Figures(CALM, CALM), ""),
        (Figures(CALM._replace(p99_ms=101.0), CALM), "p99 101 ms"),
        (Figures(CALM._replace(max_ms=501.0), CALM), "max 501 ms"),
        (Figures(CALM._replace(failed=1), CALM), "1 records failed"),
        (Figures(CALM, CALM._replace(p99_ms=101.0)), "p99 101 ms in the seconds after"),
        (Figures(CALM, CALM, peak_mb=300.0), "300 MB"),
        (Figures(CALM, CALM, log_lines=41), "41 log lines"),
        (Figures(CALM, CALM, offline=["t-0"]), "1 partitions offline"),
        (Figures(CALM, CALM, lost=2), "2 acknowledged records lost"),
        (Figures(CALM, CALM, stop_s=5.1), "stopped after 5 s"),
        (Figures(trouble=["the broker ended"]), "the broker ended"),
    ],
)
def test_what_a_row_misses_is_said(ours: Figures, said: str) -> None:
    assert "; ".join(complaints(ours, None, 2.0)) == said


def test_the_peer_sets_the_goal_where_it_is_better() -> None:
    assert complaints(Figures(CALM), Figures(CALM._replace(p99_ms=1.9)), 2.0) == ["p99 2.0 ms, the peer's 1.9"]
    assert complaints(Figures(CALM), Figures(CALM._replace(p99_ms=2.0)), 2.0) == []


def test_numbers_are_read_from_whole_batches() -> None:
    one, two = (batch(NUMBER.pack(number).ljust(VALUE_BYTES)) for number in (7, 9))
    assert read_numbers(one + two) == ({7, 9}, 1)
    assert read_numbers(one + two[:-1]) == ({7}, 1)
    assert read_numbers(b"") == (set(), -1)


def test_the_page_has_a_row_for_each_attack_and_says_how_many_meet_the_goal() -> None:
    attacks = list(all_attacks().values())[:2]
    rows = [Row(attacks[0], Figures(CALM, CALM), None, 2.0), Row(attacks[1], Figures(offline=["t-0"], during=CALM), None, 2.0)]
    made = page(rows, ["A note."], "a machine", "a command")
    assert "1 of 2 rows meet it" in made
    assert all(f"**{attack.name}**" in made for attack in attacks)
    assert "1 partitions offline" in made
    assert "A note." in made
