"""The identity of a batch for `ottla.once`: query, run and batch, from Spark's local properties."""

from __future__ import annotations

from ottla.once.names import Work
from ottla.spark.errors import OptionError

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"
"""The local properties of the thread that runs a micro-batch. A checkpoint keeps its query id, and each run has a new run id."""


def of_this_task() -> Work:
    """Return the identity of the micro-batch to which the running task belongs. Raises `OptionError` outside of a micro-batch."""
    from pyspark import TaskContext  # the driver's part needs no Spark

    task = TaskContext.get()
    named = [None if task is None else task.getLocalProperty(name) for name in (QUERY_ID, RUN_ID, BATCH_ID)]
    query_id, run_id, batch_id = named
    if query_id is None or run_id is None or batch_id is None:
        raise OptionError(
            "Spark does not say which batch of which query this task writes, so it can't be written exactly once: "
            'give option deliveryGuarantee "at-least-once".'
        )
    return Work(query_id, run_id, int(batch_id))


def of_job(job_id: str, run_id: str, batch_id: int) -> Work:
    """Return the identity of a batch job with an id.

    The name of no query can be equal, because Spark names queries by UUIDs.
    """
    return Work(f"job:{job_id}", run_id, batch_id)
