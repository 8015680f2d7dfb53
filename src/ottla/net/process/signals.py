"""The signals that stop the processes of `ottla serve`. The module does not depend on Ottla."""

from __future__ import annotations

import signal
from typing import Final

STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def stop_signals() -> list[signal.Signals]:
    """Return the signals that cause a clean shutdown. SIGHUP is not included under nohup, where it is ignored."""
    return [each for each in STOPPING if each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]
