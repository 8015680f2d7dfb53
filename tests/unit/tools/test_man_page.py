"""The man page is what `tools.man_page` writes from the parsers, and man can read it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ottla.cli.command.catalogue import COMMANDS
from tools.man_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_command_has_a_section() -> None:
    text = page()
    assert all(f".SS ottla {name}\n" in text for name in COMMANDS)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_about_it() -> None:
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", str(PAGE)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
