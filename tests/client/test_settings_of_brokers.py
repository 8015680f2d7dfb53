"""A broker in this process and its clients refuse settings with one and the same exception."""

from __future__ import annotations

import pytest

import ottla


def test_a_broker_refuses_a_setting_as_clients_do() -> None:
    with pytest.raises(ottla.SettingError, match=r"did you mean 'num\.partitions'"):
        ottla.Broker(num_partitons=3)  # type: ignore[call-arg]  # type checkers refuse it too
    with pytest.raises(ottla.KafkaError, match="Value must be at least 1"):
        ottla.Broker(num_partitions=0)
    with pytest.raises(ValueError, match="linger_ms"):
        ottla.Producer("localhost:1", linger_msec=5)  # type: ignore[call-overload]  # type checkers refuse it too
