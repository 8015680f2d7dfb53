"""Messages to the service manager that started this process, as systemd defines them (sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger("ottla.net")

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(*states: str) -> None:
    """Send states such as `READY` to the service manager. Do nothing if the process has none (`NOTIFY_SOCKET` is not set)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name in Linux's abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.sendto("\n".join(states).encode(), address)
    except OSError as error:
        log.warning("the service manager cannot be notified: %s", error.strerror)
