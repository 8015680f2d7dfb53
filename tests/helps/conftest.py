"""Assertions of scenarios show their values."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.helps.runs", "tests.helps.scenarios", "tests.helps.world")
