"""Topics in Spark's Declarative Pipelines: `python -m examples.declared` makes topics, runs the pipeline and checks what it made.

Read `definitions/flights.py` for the pipeline itself, which any `spark-pipelines run` takes.
"""
