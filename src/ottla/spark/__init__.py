"""Topics as PySpark data sources: `spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with `format("ottla")`.

Options carry the names of Spark's own Kafka connector, so a job moves by changing `format("kafka")` to `format("ottla")`.
`options` and `planning` are pure; `brokers` is the only door to the network, but for a schema registry's in `formats`; `source`,
`reading` and `writing` are what Spark calls. This package knows the client and the records, and a broker's files in `direct` alone;
never a broker's insides.
"""

from __future__ import annotations

from ottla.spark.exactly_once.batches import write_once
from ottla.spark.formats.misfit_counts import count_misfits
from ottla.spark.threads import activate

__all__ = ["activate", "count_misfits", "write_once"]
