"""Topics as PySpark data sources: `spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with `format("ottla")`.

Options carry the names of Spark's own Kafka connector, so a job moves by changing `format("kafka")` to `format("ottla")`.
`options` and `planning` are pure. `brokers` connects to brokers, and `formats.registry` to schema registries; nothing else uses the
network. Spark calls `source`, `reading` and `writing`. The package depends on the client and on records; only `direct` reads files
of a broker.
"""

from __future__ import annotations

from ottla.spark.exactly_once.batches import write_once
from ottla.spark.formats.misfit_counts import count_misfits
from ottla.spark.threads import activate

__all__ = ["activate", "count_misfits", "write_once"]
