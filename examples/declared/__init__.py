"""Topics in Spark's Declarative Pipelines: `python -m examples.declared` makes topics, runs the pipeline and checks what it made.

With `--changes` it looks at the auto-CDC flow, too, as far as that goes without a catalog that takes changes. Read
`definitions/flights.py` for the pipeline itself, which any `spark-pipelines run` takes.
"""
