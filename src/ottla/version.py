"""The version of Ottla, in the one place where it is written down."""

from __future__ import annotations

VERSION = "0.1.0"
