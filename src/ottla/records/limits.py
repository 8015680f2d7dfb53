"""What the codecs raise for bytes that would open to more than they may, and where they pause. Knows nothing else."""

from __future__ import annotations


class OverLimit(ValueError):
    """There is more in it than the caller allows; raised before that much memory is taken."""


PAUSE_BYTES = 1 << 20
"""Where work is done with pauses, so much is opened from one to the next: a millisecond or less."""
