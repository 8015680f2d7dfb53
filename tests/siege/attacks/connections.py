"""Connections without end: idle ones by the thousand, and such as come and go."""

from __future__ import annotations

from tests.siege.attack import attack
from tests.siege.making import metadata
from tests.siege.site import Site, churn, hold


@attack("1 124 idle connections, where the broker may open 1 024 files", open_files=(1024, 1024))
def idle_beyond_the_hard_limit(site: Site) -> None:
    hold(site, 1124)


@attack("1 124 idle connections, where the soft limit is 1 024 files and the hard one higher", open_files=(1024, 4096))
def idle_beyond_the_soft_limit(site: Site) -> None:
    hold(site, 1124)


@attack("connections come, ask for Metadata(all) and are reset at once, as fast as can be")
def reset_after_request(site: Site) -> None:
    churn(site, metadata(None, version=1), reset=True)
