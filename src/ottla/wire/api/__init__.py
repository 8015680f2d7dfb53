"""Requests and responses, one module per API; `ottla.wire.apis` finds them by key or name."""
