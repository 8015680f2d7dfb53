"""Schemas of keys and values, from files and schema registries, and the values that fit them. No PySpark."""
