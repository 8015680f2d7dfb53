"""Decoded keys and values as JSON: bytes that are not text become an object with base64, other foreign values texts. Pure."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

BASE64 = "base64"


def plain(found: object) -> object:
    """Return a decoded value as JSON has it. Bytes that are not text become an object with their base64."""
    if found is None or isinstance(found, str | bool | int):
        return found
    if isinstance(found, float):
        return found if math.isfinite(found) else str(found)
    if isinstance(found, dict):
        return {key if isinstance(key, str) else str(plain(key)): plain(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [plain(each) for each in found]
    if isinstance(found, bytes):
        try:
            return found.decode()
        except UnicodeDecodeError:
            return {BASE64: base64.b64encode(found).decode()}
    if isinstance(found, date | datetime | time):
        return found.isoformat()
    return str(found) if isinstance(found, Decimal | UUID) else repr(found)
