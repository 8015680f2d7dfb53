"""The requests of an admin client that set passwords of SCRAM users."""

from __future__ import annotations

import os

import pytest

from ottla.client.admin.users import set_passwords_request
from ottla.errors import SettingError
from ottla.sasl.scram import SHA_256


def test_iterations_that_take_hours_are_refused_before_they_are_computed() -> None:
    with pytest.raises(SettingError, match="at most 1000000, not 1000000000: choose 4096 to 16384"):
        set_passwords_request({"alice": "secret"}, SHA_256, 10**9, os.urandom)
    assert set_passwords_request({"alice": "secret"}, SHA_256, 20_000, os.urandom).upsertions[0].iterations == 20_000
