"""Whole pipelines over topics, run by Spark: archive, replay, mirror, SQL, and topics as tables. `ottla pipeline` calls them.

Each pipeline is a frozen dataclass. It runs on a Spark session, stores its progress in a `state.PipelineState`, and reports its
steps. `plans`, `progress`, `syncs`, `columns` and `places07` are pure; only `mirror07` needs no Spark. The package depends on the
client, `ottla.spark` and PySpark, never on a broker's internals.
"""
