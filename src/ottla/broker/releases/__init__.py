"""Releases of Apache Kafka that a listener can emulate, so that a client of any age can be tested against its own release."""

from __future__ import annotations

from ottla.broker.releases.release import KNOWN, TODAY, Release, find
from ottla.broker.releases.traits import Dialect
from ottla.wire.releases import NAMES, UnknownRelease

__all__ = ["KNOWN", "NAMES", "TODAY", "Dialect", "Release", "UnknownRelease", "find"]
