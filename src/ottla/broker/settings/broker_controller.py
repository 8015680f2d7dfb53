"""The broker's settings for the cluster's controller and for controlled shutdown. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.kinds import BOOLEAN, INT, LONG, at_least
from ottla.broker.settings.setting import Setting, SettingsOf


class ControllerSettings(SettingsOf):
    """Settings for the controller and for controlled shutdown."""

    controlled_shutdown_enable = Setting(BOOLEAN, True, "Move leadership to other brokers before a broker of a cluster stops.")
    controlled_shutdown_max_retries = Setting(
        INT, 3, "Number of retries, while it leads partitions that other brokers could lead.", check=at_least(0), hidden=True
    )
    controlled_shutdown_retry_backoff_ms = Setting(LONG, 5000, "Time between these retries.", check=at_least(0), hidden=True)
    auto_leader_rebalance_enable = Setting(BOOLEAN, True, "Elect preferred leaders automatically.")
    leader_imbalance_check_interval_seconds = Setting(
        LONG, 300, "Time between two checks of the preferred leaders.", check=at_least(1)
    )
    leader_imbalance_per_broker_percentage = Setting(
        INT, 10, "How much of what is its to lead a broker may not lead before that, in per cent.", check=at_least(0), hidden=True
    )
    controller_socket_timeout_ms = Setting(
        INT, 30_000, "Timeout of the controller's requests to brokers, after which it reconnects and retries.", check=at_least(1)
    )
