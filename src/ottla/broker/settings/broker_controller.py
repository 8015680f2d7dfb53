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
    auto_leader_rebalance_enable = Setting(
        BOOLEAN, True, "Whether the controller gives the lead of partitions back to their first replicas by itself."
    )
    leader_imbalance_check_interval_seconds = Setting(
        LONG, 300, "How often it looks whether a broker leads too little of what is its to lead.", check=at_least(1)
    )
    leader_imbalance_per_broker_percentage = Setting(
        INT, 10, "How much of what is its to lead a broker may not lead before that, in per cent.", check=at_least(0), hidden=True
    )
    controller_socket_timeout_ms = Setting(
        INT, 30_000, "How long the controller waits for a broker's answer before it connects and asks again.", check=at_least(1)
    )
