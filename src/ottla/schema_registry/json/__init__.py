"""Schemas of JSON Schema: parsed, canonical, and compared."""
