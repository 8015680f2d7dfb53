"""Ottla measured beside a real Apache Kafka, in one run, with the same clients: `python -m bench`."""
