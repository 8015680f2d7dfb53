"""Which signals stop what `ottla serve` runs. Knows nothing of Ottla."""

from __future__ import annotations

import signal
from typing import Final

STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def stopping() -> list[signal.Signals]:
    """Return the signals that stop a broker in order: SIGHUP is left out under nohup, which ignores it."""
    return [each for each in STOPPING if each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]
