"""Spark looks for modules named `pyspark_*` and takes their `DefaultSource`: so `format("ottla")` needs no registration."""

from __future__ import annotations

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
