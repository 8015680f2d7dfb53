"""What is told of an installation, from what pip says of it."""

from __future__ import annotations

from tools.install import Telling

SAID = """\
Collecting numpy>=1.26 (from ottla==0.1)
  Downloading numpy-2.4.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (6.6 kB)
Downloading numpy-2.4.0-cp311-cp311-manylinux_2_28_x86_64.whl (16.9 MB)
Progress 8000000 of 16900000
Collecting pyspark<5,>=4.3
  Downloading pyspark-4.3.0.tar.gz (455.9 MB)
Progress 120000000 of 455900000
  Using cached rich-14.2.0-py3-none-any.whl (243 kB)
  Building wheel for pyspark (pyproject.toml): started
  Building wheel for pyspark (pyproject.toml): still running...
  Building wheel for pyspark (pyproject.toml): finished with status 'done'
  Using cached ottla-0.1-py3-none-any.whl
Installing collected packages: numpy, pyspark, rich, ottla
Successfully installed numpy-2.4.0 pyspark-4.3.0 rich-14.2.0
"""


def told(*, in_a_log: bool) -> list[str]:
    telling = Telling()
    heard = [telling.hear(line) for line in SAID.splitlines()]
    return [text for text, belongs_in_logs in heard if text and (belongs_in_logs or not in_a_log)]


def test_a_log_hears_of_what_is_large_or_slow_alone() -> None:
    assert told(in_a_log=True) == [
        "2 packages, 473 MB: pyspark-4.3.0.tar.gz (455.9 MB)",
        "building pyspark",
        "4 packages, 473 MB; installing 4, which takes a while",
    ]


def test_a_terminal_sees_how_far_each_one_is() -> None:
    lines = told(in_a_log=False)
    assert "1 packages, 17 MB: numpy-2.4.0-cp311-cp311-manylinux_2_28_x86_64.whl, 8 of 16 MB" in lines
    assert "2 packages, 473 MB: pyspark-4.3.0.tar.gz, 120 of 455 MB" in lines
    assert "3 packages, 473 MB: rich-14.2.0-py3-none-any.whl (0.2 MB)" in lines
