"""The exactly-once sink without Spark: tasks and commits against a broker, as Spark calls them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

pa = pytest.importorskip("pyarrow")

from ottla import Admin  # noqa: E402  # what needs pyarrow comes after the look for it
from ottla.client.errors import KafkaError, NotSupported  # noqa: E402  # as above
from ottla.once.committer import NotCommitted, Overtaken, SetBack  # noqa: E402  # as above
from ottla.once.steps import ENDLESS_MS  # noqa: E402  # as above
from ottla.once.writer import TaskResult  # noqa: E402  # as above
from ottla.spark.errors import OptionError  # noqa: E402  # as above
from ottla.spark.options import write_options  # noqa: E402  # as above
from tests.spark.conftest import Topics  # noqa: E402  # as above
from tests.spark.once_sink import Died, OnceSink, handed, rows, write  # noqa: E402  # as above
from tests.support.peers import Peer, start_peer  # noqa: E402  # as above


class OnceBroker(NamedTuple):
    """A broker at one of the levels that transactions have."""

    transaction_version: int
    settings: tuple[tuple[str, object], ...] = ()


TWO_PHASES = (
    ("transaction.two.phase.commit.enable", True),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", 200),
)
BROKERS = {
    "level 2": OnceBroker(2),
    "level 1": OnceBroker(1),
    "level 0": OnceBroker(0),
    "two phases": OnceBroker(2, TWO_PHASES),
    "two phases at level 1": OnceBroker(1, TWO_PHASES),
}
in_one_phase = pytest.mark.parametrize("broker", ["level 2"], indirect=True)
in_two_phases = pytest.mark.parametrize("broker", ["two phases", "two phases at level 1"], indirect=True)


@pytest.fixture(scope="module", params=list(BROKERS)[:4])
def broker(request: pytest.FixtureRequest, peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One for all tests here: at every level, whatever is killed, repeated or decided twice, a row is visible once."""
    wanted = BROKERS[request.param]
    if peer_name != "ottla" and wanted != BROKERS["level 2"]:
        pytest.skip("other brokers are as they are started")
    with start_peer(peer_name, tmp_path_factory.mktemp("once"), dict(wanted.settings)) as peer:
        with Admin(peer.address) as admin:
            if wanted.transaction_version < 2:
                admin.update_features({"transaction.version": wanted.transaction_version}, downgrade=True, unsafe=True)
        yield peer


def test_a_batch_is_visible_once_it_is_committed(sink: OnceSink) -> None:
    one, two, committer = sink.worker(), sink.worker(), sink.committer()
    for batch_id in range(3):
        work = sink.work(batch_id)
        written = [one.write(work, rows(f"a{batch_id}"), recorded=True), two.write(work, rows(f"b{batch_id}"), recorded=True)]
        assert written[0].transaction is not None
        assert written[0].transaction.rows == 1
        committer.commit(work, handed(*written), found_decided=False, recorded=True)
    assert sink.seen() == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert sink.open_ids() == []


@pytest.mark.rows(1, seconds=1)
def test_a_batch_that_was_decided_is_not_written_again(sink: OnceSink) -> None:
    work = sink.work(0)
    sink.committer().commit(work, handed(sink.worker().write(work, rows("a"), recorded=True)), found_decided=False, recorded=True)
    again = sink.work(0, "run2")
    result = sink.worker("run2").write(again, rows("a"), recorded=True)
    assert result == TaskResult(None, found_decided=True)
    sink.committer().commit(again, [], found_decided=True, recorded=True)
    assert sink.seen() == ["a"]


def test_what_losers_and_dead_runs_left_open_is_aborted_by_the_next_commit(sink: OnceSink) -> None:
    sink.worker("run0").write(sink.work(0, "run0"), rows("dead"), recorded=True)
    work = sink.work(0)
    winner = sink.worker().write(work, rows("a"), recorded=True)
    sink.worker().write(work, rows("loser"), recorded=True)
    assert len(sink.open_ids()) == 3
    sink.committer().commit(work, handed(winner), found_decided=False, recorded=True)
    assert sink.open_ids() == []
    assert sink.seen() == ["a"]


def test_what_dead_runs_left_open_is_aborted_even_if_the_batch_was_decided_before(sink: OnceSink) -> None:
    sink.worker("run0").write(sink.work(0, "run0"), rows("dead"), recorded=True)
    work = sink.work(0)
    written = handed(sink.worker().write(work, rows("a"), recorded=True))
    sink.committer().commit(work, written, found_decided=False, recorded=True)
    sink.worker("run2").write(sink.work(0, "run2"), rows("a"), recorded=False)  # one killed before it looked for a decision
    sink.committer().commit(sink.work(0, "run2"), [], found_decided=True, recorded=True)
    assert sink.open_ids() == []
    assert sink.seen() == ["a"]


@pytest.mark.rows(1, seconds=1)
def test_an_example_of_a_reader_comes_to_the_end_of_what_is_committed(sink: OnceSink) -> None:
    from examples.flights import consume

    work = sink.work(0)
    sink.committer().commit(
        work, handed(sink.worker().write(work, rows("a", "b"), recorded=True)), found_decided=False, recorded=True
    )
    counted: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume, "TOPIC", sink.topic)
        patch.setattr(consume, "GROUP", sink.name)
        consume.consume(sink.topics.address, counted.append)
    assert sum(counted) == 2


def test_a_batch_with_a_transaction_that_is_open_no_more_is_not_decided(sink: OnceSink) -> None:
    work = sink.work(0)
    written = handed(sink.worker().write(work, rows("a"), recorded=True), sink.worker().write(work, rows("b"), recorded=True))
    cluster = sink.cluster()
    cluster.loop.run(cluster.coordinators.fence(written[0].transactional_id))
    with pytest.raises(NotCommitted, match="Batch 0 of"):
        sink.committer().commit(work, written, found_decided=False, recorded=True)
    sink.committer().abort(work, written, recorded=True)
    assert sink.seen() == []
    assert sink.open_ids() == []


def test_a_checkpoint_that_was_set_back_stops_the_query(sink: OnceSink) -> None:
    worker = sink.worker()
    for batch_id in (3, 4):
        work = sink.work(batch_id)
        written = handed(worker.write(work, rows(f"{batch_id}"), recorded=True))
        sink.committer().commit(work, written, found_decided=False, recorded=True)
    with pytest.raises(SetBack, match="is at batch 3, but batch 4 was written"):
        sink.committer().commit(sink.work(3, "run2"), [], found_decided=True, recorded=True)


@pytest.mark.rows(1, seconds=1)
def test_processes_that_commit_one_run_in_turn_go_on_where_the_other_was(sink: OnceSink) -> None:
    """Spark's workers are a pool: after two queries overlapped, commits of each alternate between processes."""
    committers = [sink.committer(), sink.committer(), sink.committer()]
    worker = sink.worker()
    for batch_id in range(9):
        write(sink, worker, committers[batch_id % 3], sink.work(batch_id), f"v{batch_id}")
    assert sink.seen() == [f"v{batch_id}" for batch_id in range(9)]
    assert sink.open_ids() == []


@pytest.mark.rows(1, seconds=2)
def test_two_sinks_that_alternate_between_two_processes_write_once(topics: Topics, unique: Callable[[str], str]) -> None:
    sinks = [OnceSink(topics, unique), OnceSink(topics, unique)]
    committers = [[sink.committer(), sink.committer()] for sink in sinks]
    workers = [sink.worker() for sink in sinks]
    for batch_id in range(6):
        for number, sink in enumerate(sinks):
            write(sink, workers[number], committers[number][(batch_id + number) % 2], sink.work(batch_id), f"v{batch_id}")
    assert [sink.seen() for sink in sinks] == [[f"v{batch_id}" for batch_id in range(6)]] * 2
    for sink in sinks:
        for each in sink.open:
            each.close()


@pytest.mark.rows(1, seconds=1)
def test_a_newer_run_that_has_decided_ends_the_one_before(sink: OnceSink) -> None:
    old, new = sink.committer(), sink.committer()
    first, second = sink.worker("run1"), sink.worker("run2")
    write(sink, first, old, sink.work(0, "run1"), "a")
    write(sink, second, new, sink.work(1, "run2"), "b")
    with pytest.raises(Overtaken, match="Another run of"):
        write(sink, first, old, sink.work(1, "run1"), "c")
    write(sink, second, new, sink.work(2, "run2"), "d")
    assert sink.seen() == ["a", "b", "d"]


@pytest.mark.rows(1, seconds=1)
def test_a_job_without_a_name_is_visible_as_a_whole(sink: OnceSink) -> None:
    work = sink.work(0)
    written = handed(*(sink.worker().write(work, rows(each), recorded=False) for each in "abc"))
    assert sink.seen() == []
    sink.committer().commit(work, written, found_decided=False, recorded=False)
    assert sink.seen() == ["a", "b", "c"]


@pytest.mark.rows(1, seconds=1)
def test_a_process_uses_its_producers_again(sink: OnceSink) -> None:
    worker, committer = sink.worker(), sink.committer()
    seen = set()
    for batch_id in range(8):
        work = sink.work(batch_id)
        written = handed(worker.write(work, rows("a"), recorded=True))
        seen.add(written[0].transactional_id)
        committer.commit(work, written, found_decided=False, recorded=True)
    assert len(seen) <= 3  # one whose markers are still being written is not free yet
    assert sink.seen() == ["a"] * 8


@in_one_phase
def test_a_timeout_above_the_brokers_longest_is_refused_by_name(sink: OnceSink) -> None:
    options = write_options({**sink.given, "transactionTimeout": "20m"})
    with pytest.raises(OptionError, match=r"transactionTimeout is 1200000 ms, .* allow 900000 ms: .*transaction\.max\.timeout\.ms"):
        sink.worker(options=options).write(sink.work(0), rows("a"), recorded=True)
    assert sink.seen() == []


@in_one_phase
def test_brokers_that_tell_nothing_of_transactions_are_refused_before_anything_is_written(sink: OnceSink) -> None:
    options = replace(sink.options, client=replace(sink.options.client, api_version="2.8"))
    with pytest.raises(NotSupported, match=r'before Kafka 3\.0 .* deliveryGuarantee "at-least-once"'):
        sink.worker(options=options).write(sink.work(0), rows("a"), recorded=True)
    assert sink.seen() == []


@pytest.mark.full(seconds=30)
@in_one_phase
def test_a_topic_that_is_deleted_in_mid_run_stops_the_query_within_its_timeout(sink: OnceSink) -> None:
    options = write_options({**sink.given, "kafka.delivery.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"})
    worker, committer = sink.worker(options=options), sink.committer()
    work = sink.work(0)
    committer.commit(work, handed(worker.write(work, rows("a"), recorded=True)), found_decided=False, recorded=True)
    sink.topics.remove(sink.topic)
    with pytest.raises(KafkaError, match=f"^The records were not acknowledged .* Producing to {sink.topic}-.* create the topic"):
        worker.write(sink.work(1), rows("b"), recorded=True)
    assert sink.open_ids() == []


@pytest.mark.rows(1, seconds=2)
@in_two_phases
def test_what_was_decided_outlives_its_timeout_in_two_phases(sink: OnceSink) -> None:
    options = write_options({**sink.given, "transactionTimeout": "1s"})
    work = sink.work(0)
    written = handed(*(sink.worker(options=options).write(work, rows(each), recorded=True) for each in "ab"))
    with pytest.raises(Died):
        sink.dying_committer("EndHanded").commit(work, written, found_decided=False, recorded=True)
    later = handed(sink.worker("run0", options).write(sink.work(0, "run0"), rows("late"), recorded=False))
    for _ in range(600):  # until the timeout of what began later is over
        if later[0].transactional_id not in (left := sink.open_ids()):
            break
        time.sleep(0.1)
    assert sorted(left) == sorted(each.transactional_id for each in written)
    assert sink.timeouts_ms(*left) == [ENDLESS_MS] * 2
    again = sink.work(0, "run2")
    assert sink.worker("run2").write(again, rows("a"), recorded=True).found_decided
    sink.committer().commit(again, [], found_decided=True, recorded=True)
    assert sink.open_ids() == []
    assert sink.seen() == ["a", "b"]


@in_two_phases
@pytest.mark.parametrize("who", ["Spark", "an operator", "the next run"])
@pytest.mark.rows(2, seconds=1)
def test_what_was_prepared_and_never_decided_is_cleared_away(sink: OnceSink, who: str) -> None:
    work = sink.work(0)
    written = handed(sink.worker().write(work, rows("a"), recorded=True))
    with pytest.raises(Died):
        sink.dying_committer("Decide").commit(work, written, found_decided=False, recorded=True)
    assert len(sink.open_ids()) == 1
    if who == "Spark":
        sink.committer().abort(work, written, recorded=True)
    elif who == "an operator":
        with Admin(sink.topics.address) as admin:
            admin.fence_producers(*sink.open_ids())
    assert len(sink.open_ids()) == (who == "the next run")
    again = sink.work(0, "run2")
    sink.committer().commit(
        again, handed(sink.worker("run2").write(again, rows("a"), recorded=True)), found_decided=False, recorded=True
    )
    assert sink.open_ids() == []
    assert sink.seen() == ["a"]


@in_two_phases
def test_until_it_is_decided_about_a_transaction_has_its_timeout_in_two_phases_too(sink: OnceSink) -> None:
    worker, committer = sink.worker(), sink.committer()
    names = []
    for batch_id in range(8):
        work = sink.work(batch_id)
        written = handed(worker.write(work, rows("a"), recorded=True))
        names.append(written[0].transactional_id)
        assert sink.timeouts_ms(names[-1]) == [900_000]
        committer.commit(work, written, found_decided=False, recorded=True)
    assert len(set(names)) < 8
    assert sink.seen() == ["a"] * 8


@in_two_phases
def test_two_phases_can_be_switched_off(sink: OnceSink) -> None:
    work = sink.work(0)
    written = handed(sink.worker().write(work, rows("a"), recorded=True))
    committer = sink.committer(write_options({**sink.given, "twoPhaseCommit": "false"}))
    committer.commit(work, written, found_decided=False, recorded=True)
    assert sink.timeouts_ms(written[0].transactional_id) == [900_000]
    assert sink.seen() == ["a"]


@in_one_phase
def test_brokers_that_refuse_two_phases_are_told_of_or_refused(sink: OnceSink, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.spark")
    worker, committer = sink.worker(), sink.committer()
    for batch_id in range(2):
        work = sink.work(batch_id)
        committer.commit(work, handed(worker.write(work, rows("a"), recorded=True)), found_decided=False, recorded=True)
    assert sum("transaction.two.phase.commit.enable" in each for each in caplog.messages) == 1
    options = write_options({**sink.given, "twoPhaseCommit": "true"})
    work = sink.work(2)
    written = handed(worker.write(work, rows("b"), recorded=True))
    with pytest.raises(OptionError, match=r"transaction\.two\.phase\.commit\.enable.*Leave out option twoPhaseCommit"):
        sink.committer(options).commit(work, written, found_decided=False, recorded=True)
    sink.committer(options).abort(work, written, recorded=True)
    assert sink.open_ids() == []
    assert sink.seen() == ["a", "a"]
