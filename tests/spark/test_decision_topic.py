"""The topic of decisions as somebody else has left it, and clocks that differ from the brokers'."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import ottla  # noqa: E402  # what needs pyarrow comes after the look for it
from ottla import NewTopic  # noqa: E402  # as above
from ottla.client.types import TopicPartition  # noqa: E402  # as above
from ottla.spark.errors import OptionError  # noqa: E402  # as above
from ottla.spark.exactly_once import commits  # noqa: E402  # as above
from ottla.spark.exactly_once.step_runner import OnceCluster  # noqa: E402  # as above
from ottla.spark.options import write_options  # noqa: E402  # as above
from ottla.testing import Cluster  # noqa: E402  # as above
from tests.spark.once_sink import OnceSink, handed, rows, write  # noqa: E402  # as above


def made_by_hand(sink: OnceSink, **configs: str) -> None:
    with ottla.Admin(sink.topics.address) as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topics([NewTopic(sink.options.decision_topic, 1, 1, named)])


def test_decisions_are_read_where_their_log_begins_later(sink: OnceSink) -> None:
    """An operator who deletes its first records does no harm: what was decided last is what counts."""
    made_by_hand(sink, cleanup_policy="delete", retention_ms="-1", retention_bytes="-1")
    worker, committer = sink.worker(), sink.committer()
    for batch_id in range(3):
        write(sink, worker, committer, sink.work(batch_id), f"v{batch_id}")
    with ottla.Admin(sink.topics.address) as admin:
        admin.delete_records({TopicPartition(sink.options.decision_topic, 0): 2})
    again = sink.work(2, "run2")
    result = sink.worker("run2").write(again, rows("v2"), recorded=True)
    assert result.found_decided
    sink.committer().commit(again, [], found_decided=True, recorded=True)
    write(sink, worker, committer, sink.work(3), "v3")
    assert sink.seen() == ["v0", "v1", "v2", "v3"]


def test_a_topic_that_forgets_decisions_is_refused(sink: OnceSink) -> None:
    made_by_hand(sink, cleanup_policy="delete", retention_ms="604800000")
    work = sink.work(0)
    written = handed(sink.worker().write(work, rows("a"), recorded=True))
    with pytest.raises(OptionError, match=r"cleanup\.policy=delete deletes that in time: set it to compact, or .* decisionTopic"):
        sink.committer().commit(work, written, found_decided=False, recorded=True)
    assert len(sink.open_ids()) == 1
    sink.committer().abort(work, written, recorded=True)
    assert sink.open_ids() == []
    assert sink.seen() == []


def test_a_batch_is_committed_whatever_the_clock_here_says(
    sink: OnceSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here_ms = commits.wall_ms
    worker, committer = sink.worker(), sink.committer()
    for batch_id, minutes in enumerate((16, -16)):
        monkeypatch.setattr(commits, "wall_ms", lambda: here_ms() + minutes * 60_000)  # noqa: B023  # it is called in this round
        write(sink, worker, committer, sink.work(batch_id), f"v{batch_id}")
        work = sink.work(0, f"job{batch_id}")
        written = handed(sink.worker(f"job{batch_id}").write(work, rows("job"), recorded=False))
        sink.committer().commit(work, written, found_decided=False, recorded=False)
    assert sink.seen() == ["job", "job", "v0", "v1"]
    assert [word for word in ("960 s ahead", "960 s behind") if word not in caplog.text] == []


def test_what_a_dead_run_opens_late_is_aborted_by_the_next_batch(sink: OnceSink) -> None:
    worker, committer = sink.worker(), sink.committer()
    write(sink, worker, committer, sink.work(0), "a")
    sink.worker("run0").write(sink.work(0, "run0"), rows("late"), recorded=False)  # its task was killed before it looked
    write(sink, worker, committer, sink.work(1), "b")
    assert sink.open_ids() == []
    assert sink.seen() == ["a", "b"]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_job_that_is_run_again_is_told_that_nothing_is_written(
    sink: OnceSink, caplog: pytest.LogCaptureFixture, by_name: bool
) -> None:
    """Its rows may be others by now, which nobody can know. A batch that Spark repeats has the same."""
    more: dict[str, Any] = {"jobId": "nightly"} if by_name else {"jobId": "nightly", "runId": "run1"}
    options = write_options({**sink.given, **more})
    write(sink, sink.worker(options=options), sink.committer(options), sink.work(0), "a")
    work = sink.work(0, "run2")
    sink.committer(options).commit(work, [], found_decided=True, recorded=True)
    told = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert [each.startswith("job nightly was written before, at ") and "with 1 rows" in each for each in told] == [True] * by_name


def test_decisions_have_three_replicas_where_there_are_as_many_brokers(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the brokers' default is: with one replica a disk that is lost takes all decisions along."""
    with Cluster(brokers=3, settings={"default.replication.factor": 1}) as cluster, ottla.Admin(cluster.address) as admin:
        admin.create_topics([NewTopic("few", 1, 1, {"cleanup.policy": "compact"})])
        for topic in ("decisions", "few"):
            options = write_options({"kafka.bootstrap.servers": cluster.address, "topic": "t"})
            once = OnceCluster(options.client, topic)
            once.loop.run(once.decisions.create())
            once.close()
        found = admin.describe_topics("decisions", "few")
        assert [len(found[topic].partitions[0].replicas) for topic in ("decisions", "few")] == [3, 1]
        assert admin.describe_topic_configs("decisions")["min.insync.replicas"].value == "2"
    assert "topic few keeps what was decided about each query, and has 1 of 3 possible replicas" in caplog.text
