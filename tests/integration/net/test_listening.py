"""Listeners: one port for all addresses of a host."""

from __future__ import annotations

import socket

import pytest

import ottla
from tests.support.frames import Raw


def test_a_broker_on_all_addresses_and_any_port_has_one_port_on_all_of_them() -> None:
    with ottla.Broker(host="") as broker:
        port = int(broker.address.rpartition(":")[2])
        for host in ("127.0.0.1", *(["::1"] if socket.has_ipv6 else [])):
            with socket.create_connection((host, port), timeout=5):
                pass
        with Raw(f"127.0.0.1:{port}") as client:
            assert client.is_served()


def test_a_port_that_is_taken_on_one_address_is_refused_on_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Exception, match="in use"):
        ottla.Broker(host="", port=taken.getsockname()[1]).start()


def test_a_host_of_one_family_is_listened_on_there_alone() -> None:
    with ottla.Broker(host="127.0.0.1") as broker, Raw(broker.address) as client:
        assert client.is_served()
