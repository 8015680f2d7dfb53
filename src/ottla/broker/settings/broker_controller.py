"""The broker's settings for the controller of its cluster, and for stopping in good order. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.kinds import BOOLEAN, INT, LONG, at_least
from ottla.broker.settings.setting import Setting, SettingsOf


class ControllerSettings(SettingsOf):
    """What the controller waits for, and how a broker takes its leave of it."""

    controlled_shutdown_enable = Setting(
        BOOLEAN, True, "Whether a broker of a cluster has others lead in its place before it stops."
    )
    controlled_shutdown_max_retries = Setting(
        INT, 3, "How often it asks for that again, while it leads something that others could.", check=at_least(0), hidden=True
    )
    controlled_shutdown_retry_backoff_ms = Setting(
        LONG, 5000, "How long it waits before it asks again.", check=at_least(0), hidden=True
    )
    controller_socket_timeout_ms = Setting(
        INT, 30_000, "How long the controller waits for a broker's answer before it connects and asks again.", check=at_least(1)
    )
