"""Requests and responses, one module for each API. `ottla.wire.apis` finds them by key or name."""
