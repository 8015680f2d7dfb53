"""Whole pipelines over topics, run by Spark: archive, replay, mirror, SQL, and topics as tables. `ottla pipeline` calls them.

Each pipeline is a frozen dataclass. It runs on a Spark session, stores its progress in a `state.PipelineState`, and reports its
steps. `progress`, `statements` and `syncs` are pure. The package depends on the client, `ottla.spark` and PySpark, never on a
broker's internals.
"""
