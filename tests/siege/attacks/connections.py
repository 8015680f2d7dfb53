"""Connections without end: idle ones by the thousand, such as come and go, and clients that stand still."""

from __future__ import annotations

import os
import signal
import time

from ottla.wire.api.api_versions import ApiVersionsRequest
from tests.siege.attack import attack
from tests.siege.making import metadata, one_record, produce
from tests.siege.site import Site, churn, framed, hold, press

HELLO = framed(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)


@attack("1 124 idle connections, where the broker may open 1 024 files", open_files=(1024, 1024))
def idle_beyond_the_hard_limit(site: Site) -> None:
    hold(site, 1124)


@attack("1 124 idle connections, where the soft limit is 1 024 files and the hard one higher", open_files=(1024, 4096))
def idle_beyond_the_soft_limit(site: Site) -> None:
    hold(site, 1124)


@attack("5 000 idle connections", minor=True)
def idle_by_the_thousand(site: Site) -> None:
    hold(site, 5000)


@attack("connections come, ask for Metadata(all) and are reset at once, as fast as can be")
def reset_after_request(site: Site) -> None:
    churn(site, metadata(None, version=1), reset=True)


@attack("connections come and go without a word, as fast as can be", processes=2, minor=True)
def nothing_but_connections(site: Site) -> None:
    churn(site, b"")


@attack("connections come, say hello, are answered and go, as fast as can be", processes=2)
def hello_and_goodbye(site: Site) -> None:
    churn(site, HELLO, reads=True)


@attack("2 000 connections ask for something small each second", minor=True)
def many_modest_clients(site: Site) -> None:
    hold(site, 2000, first=HELLO, drip=HELLO)


@attack("connections come, produce one record and are reset before the answer", minor=True)
def reset_after_produce(site: Site) -> None:
    churn(site, produce(site.topic, one_record(), acks=-1), reset=True)


@attack("a client that pipelines is stopped for a second and goes on, again and again")
def stopped_clients(site: Site) -> None:
    site.begin()
    child = os.fork()
    if not child:
        press(site, metadata(None, version=1), lines=16, in_flight=500)
        os._exit(0)
    try:
        while not site.is_over:
            os.kill(child, signal.SIGSTOP)
            time.sleep(1.0)
            os.kill(child, signal.SIGCONT)
            site.rest(0.2)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
