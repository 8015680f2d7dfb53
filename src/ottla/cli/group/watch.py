"""The repeated output of a command: on a terminal each output replaces the last one, in a pipe it follows the last one.

Only the terminal's rows below the command are changed, so that nothing must be restored after Ctrl-C or a kill.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable, Sequence

from ottla.cli.command.output import DIM, RED, can_redraw, print_lines, styled
from ottla.errors import KafkaError

_TOKEN = re.compile(r"\x1b\[[\d;]*m|.", re.DOTALL)
RESET = "\x1b[0m"


def repeat(lines: Callable[[], list[str]], every_s: float, *, as_json: bool) -> int:
    """Print `lines()` at once and then every `every_s` seconds, until the process is stopped or its output is closed.

    On a terminal, an error is shown below the last lines, and the next period tries again. Elsewhere it is raised.
    """
    if can_redraw() and not as_json:
        _redraw(lines, every_s)
    between: list[str] = []
    while True:
        print_lines([*between, *lines()])
        between = [] if as_json else [""]
        time.sleep(every_s)


def _redraw(lines: Callable[[], list[str]], every_s: float) -> None:
    screen, shown = Screen(), [""]
    signal.signal(signal.SIGCONT, lambda *_: screen.leave())
    while True:
        try:
            shown = lines()
            status, style = f"every {every_s:g} s; Ctrl-C ends", DIM
        except KafkaError as error:
            status, style = str(error), RED
        columns, rows = shutil.get_terminal_size()
        below = textwrap.wrap(f"{time.strftime('%H:%M:%S')}, {status}", max(columns, 10))
        sys.stdout.write(screen.frame(shown, [styled(line, style) for line in below], columns, rows))
        sys.stdout.flush()
        time.sleep(every_s)


class Screen:
    """The rows of a terminal that the last frame takes. A frame overwrites the last one without clearing the rows first."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def leave(self) -> None:
        """Draw the next frame below the last one, because after Ctrl-Z and fg, lines of the shell are between them."""
        self._widths = []

    def frame(self, lines: Sequence[str], status: Sequence[str], columns: int, rows: int) -> str:
        """Return the text that draws the lines and the status below them, cut to the terminal's size."""
        status = status[: max(rows - 2, 1)]
        most = max(rows - 1 - len(status), 1)  # the cursor has the last row
        shown = [clip(line, columns) for line in lines]
        if len(shown) > most:
            shown = [*shown[: most - 1], (f"… {len(shown) - most + 1} more lines: enlarge the terminal"[:columns], columns)]
        shown += [clip(line, columns) for line in status]
        # A terminal that was made narrower has wrapped the last frame's rows.
        above = sum(max(1, -(-width // max(columns, 1))) for width in self._widths)
        up = f"\x1b[{min(above, rows)}A" if above else ""
        self._widths = [width for _, width in shown]
        return f"\r{up}" + "".join(f"{text}\x1b[K\n" for text, _ in shown) + "\x1b[J"


def clip(line: str, columns: int) -> tuple[str, int]:
    """Return the beginning of a line that fits into `columns`, and its width. Control characters except colours become `?`."""
    found: list[str] = []
    width = 0
    styles = False
    for token in _TOKEN.findall(line):
        if len(token) > 1:
            styles = True
            found.append(token)
            continue
        cells = 0 if unicodedata.combining(token) else 2 if unicodedata.east_asian_width(token) in "WF" else 1
        if width + cells > columns:
            break
        width += cells
        found.append(token if token.isprintable() else "?")
    return "".join(found) + (RESET if styles else ""), width
