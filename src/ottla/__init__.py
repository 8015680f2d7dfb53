"""Ottla: a log that speaks Kafka's protocol, in Python."""

from __future__ import annotations

__version__ = "0.1.0"
