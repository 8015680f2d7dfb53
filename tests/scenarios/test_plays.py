"""Every play in this directory ends as it is written; `--rewrite-scenarios` writes it as it ends, to be reviewed as a diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.play import Play

PLAYS = sorted(Path(__file__).parent.glob("*.play"))


@pytest.mark.parametrize("path", PLAYS, ids=lambda path: path.stem)
def test_play(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text()
    performed = Play().perform(written)
    if request.config.getoption("--rewrite-scenarios"):
        path.write_text(performed)
    else:
        assert performed == written
