"""Where a follower's log is cut so that it agrees with its leader's: by epochs, and never more than has to be."""

from __future__ import annotations

import pytest

from ottla.cluster.replicas.follower import Cut, EpochEnd, cut

END, HIGH_WATERMARK = 10, 4


@pytest.mark.parametrize(
    ("leaders", "own", "kept"),
    [
        (EpochEnd(3, 7), EpochEnd(3, 9), Cut(7, is_final=True)),
        (EpochEnd(3, 9), EpochEnd(3, 7), Cut(7, is_final=True)),
        (EpochEnd(3, 20), EpochEnd(3, 10), Cut(10, is_final=True)),
        (EpochEnd(3, 7), EpochEnd(2, 5), Cut(5, is_final=False)),
        (EpochEnd(3, 7), EpochEnd(-1, -1), Cut(7, is_final=True)),
        (EpochEnd(-1, 7), EpochEnd(3, 9), Cut(7, is_final=True)),
        (EpochEnd(-1, -1), EpochEnd(3, 9), Cut(HIGH_WATERMARK, is_final=True)),
    ],
    ids=[
        "the leader's epoch ended earlier",
        "the own epoch ended earlier",
        "the leader has more of it",
        "an epoch that is not known here",
        "no epoch is known here",
        "a leader that tells no epochs",
        "a leader that knows no epochs",
    ],
)
def test_what_is_kept(leaders: EpochEnd, own: EpochEnd, kept: Cut) -> None:
    assert cut(leaders, own, END, HIGH_WATERMARK) == kept
