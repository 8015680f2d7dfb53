"""Whole pipelines over topics, run by Spark: archive, replay, mirror, SQL, and topics as tables. `ottla pipeline` calls them.

Each is a frozen description that runs on a Spark session, remembers in a `state.PipelineState`, and tells its steps. `plans`,
`progress`, `syncs`, `columns` and `places07` are pure; `mirror07` alone needs no Spark. This package knows the client,
`ottla.spark` and PySpark, never a broker's insides.
"""
