"""What the codecs raise for bytes that would open to more than they may. Knows nothing else."""

from __future__ import annotations


class OverLimit(ValueError):
    """There is more in it than the caller allows; raised before that much memory is taken."""
