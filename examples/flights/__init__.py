"""A year of flights out of New York, from CSV through a broker, Spark and a consumer group to a picture that checks itself.

`python -m examples.flights` (or `make demo`) runs it all. Read `load` for a producer written with confluent-kafka, `pipeline`
for the Spark job, `consume` for a consumer group of aiokafka; `check` computes the same answer without any of them.
"""
