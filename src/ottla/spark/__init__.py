"""Topics as PySpark data sources: `spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with `format("ottla")`.

Options have the names of Spark's own Kafka connector. A job moves to Ottla by changing `format("kafka")` to `format("ottla")`.
`options` and `read_plan` are pure. `brokers` connects to brokers, and `formats.registry` to schema registries; nothing else uses
the network. Spark calls `source`, `batch_reader`, `streams` and `writers`. The package depends on the client and on records; only
`direct` reads a broker's files.
"""

from __future__ import annotations

from ottla.spark.exactly_once.batches import write_once
from ottla.spark.formats.misfit_counts import count_misfits
from ottla.spark.threads import activate

__all__ = ["activate", "count_misfits", "write_once"]
