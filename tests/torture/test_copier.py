"""A copier whose client hangs ends its life, so that the next one goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HANGING = """
import sys, time
from tests.torture import copier

class Hanging:
    def send_offsets_to_transaction(self, *arguments):
        time.sleep(600)

copier.HANGS_S = 0.1
one = copier.Copier("127.0.0.1:1", sys.argv[1], "life", "id", "-", "classic")
one._producer = Hanging()
one._offsets_sent([], None, 0.1)
"""


def test_a_copier_whose_client_hangs_notes_it_and_ends(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    done = subprocess.run([sys.executable, "-c", HANGING, str(notes)], timeout=60, check=False)
    assert (done.returncode, notes.read_text()) == (1, "hung\n")
