"""Schemas of Protobuf: their texts parsed, written and compared."""
