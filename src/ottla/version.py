"""The version of Ottla. No other file contains it."""

from __future__ import annotations

VERSION = "0.1.0"
