"""`write_once`: the exactly-once sink for `foreachBatch`, where a query writes into several topics or updates what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.errors import OptionError
from ottla.spark.exactly_once.work import QUERY_ID, RUN_ID
from ottla.spark.threads import activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRITTEN: dict[tuple[str, str, str], tuple[int, int]] = {}
"""The last batch of each name, and which rows it wrote."""


def write_once(frame: DataFrame, batch_id: int, *, name: str | None = None, query_id: str | None = None, **options: str) -> None:
    """Write a micro-batch's rows exactly once, within `foreachBatch`; `options` are those of the sink, dots as `**{"kafka.…": …}`.

    Each write of a batch has a `name` of its own, by default its topic: a batch that runs again writes under each name what is
    missing. With Spark Connect give the `query_id`, which has to outlive the query's restarts. Raises `OptionError`.
    """
    name = name or options.get("topic")
    if name is None:
        raise OptionError("Give write_once a name for these rows, which is the same whenever the batch is run again.")
    run_id = None
    if query_id is None:
        context = frame.sparkSession.sparkContext
        query_id, run_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(RUN_ID)
    if query_id is None:
        raise OptionError(
            "write_once belongs into foreachBatch of a streaming query: in another thread, give it a query_id, or wrap that "
            "thread's function in pyspark.inheritable_thread_target; elsewhere use option jobId."
        )
    run = {} if run_id is None else {"runId": run_id}
    if run_id is not None:
        own = batch_id, frame.semanticHash()
        before = _WRITTEN.setdefault((query_id, run_id, name), own)
        if before[0] == batch_id and before != own:  # the same rows again are a body that is tried again as a whole
            raise OptionError(f"Two writes of batch {batch_id} have the name {name}: give each write_once a name of its own.")
        _WRITTEN[query_id, run_id, name] = own
    given = {"jobId": f"{query_id}/{name}", "batchId": str(batch_id), **run, **options}
    activate(frame.sparkSession)
    try:
        frame.write.format("ottla").options(**given).mode("append").save()
    except BaseException:
        if run_id is not None:
            _WRITTEN.pop((query_id, run_id, name), None)  # it may be tried again: what was written is written once
        raise
