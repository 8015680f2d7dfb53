"""Schemas of Avro: parsed, canonical, and compared."""
