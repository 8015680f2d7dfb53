"""A real terminal, by tmux: a command runs in it under a shell, keys are pressed, and the screen is read.

The shell is `sh`, which leaves the terminal as its commands left it: a shell that edits lines would repair the terminal unseen.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is missing: `apt-get install tmux` brings it")
PATIENCE_S = 60.0
PAUSE_S = 0.05
UNWANTED = ("NO_COLOR", "OTTLA_BOOTSTRAP_SERVER", "TMUX")
SHELLS = ("sh", "dash", "bash")
_numbers = itertools.count(1)


class Screen(NamedTuple):
    """What a terminal shows, and the modes that a program can forget to restore."""

    text: str
    is_cursor_visible: bool
    is_alternate: bool

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


class Terminal:
    """A terminal of a given size in which a shell waits for commands. `ottla` is the command of this source tree."""

    def __init__(self, home: Path, *, width: int = 80, height: int = 24, env: Mapping[str, str] | None = None) -> None:
        self._home, self._size = home, (width, height)
        self._tmux = ["tmux", "-S", str(home / f"tmux-{next(_numbers)}"), "-f", os.devnull]
        self._raw = home / "raw"
        """The file with all that was written to the terminal."""
        self._marks = itertools.count(1)
        self._settings = ""
        words = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "PATH": f"{home}:{os.environ['PATH']}"}
        inherited = {name: text for name, text in os.environ.items() if name not in UNWANTED}
        terminal = {"TERM": "screen-256color", "LC_ALL": "C.UTF-8", "PYTHONPATH": ":".join(sys.path)}
        self._env = {**inherited, **terminal, **words, **(env or {})}

    def __enter__(self) -> Self:
        command = self._home / "ottla"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        width, height = map(str, self._size)
        # tmux sets TERM of the programs in it; the shell gets the one that is wanted.
        shell = shlex.join(["env", f"TERM={self._env['TERM']}", "sh", "-i"])
        self._run("new-session", "-d", "-x", width, "-y", height, shell)
        self._settings = self._settings_of_terminal()
        self._run("pipe-pane", "-o", f"cat >>{self._raw}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run("kill-server")

    def type(self, line: str) -> None:
        """Type a line, and press Enter."""
        self._run("send-keys", "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names, such as C-c."""
        self._run("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._run("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> Screen:
        cursor, alternate = self._run("display-message", "-p", "#{cursor_flag} #{alternate_on}").split()
        return Screen(self._run("capture-pane", "-p").rstrip("\n"), cursor == "1", alternate == "1")

    def history(self) -> str:
        """Return the screen and all that has scrolled out of it, with wrapped lines joined."""
        return self._run("capture-pane", "-p", "-J", "-S", "-")

    def raw(self) -> bytes:
        """Return all that was written to the terminal, escape sequences included."""
        return self._raw.read_bytes()

    def output(self, line: str) -> bytes:
        """Run a line to its end, and return all that was written to the terminal meanwhile."""
        mark = f"mark-{next(self._marks)}"
        before = len(self.raw())
        self.type(f"{line}; echo {mark[:2]}''{mark[2:]}")
        deadline = time.monotonic() + PATIENCE_S
        while mark.encode() not in (found := self.raw()[before:]):
            assert time.monotonic() < deadline, f"the command never ended:\n{self.screen().text}"
            time.sleep(PAUSE_S)
        return found

    def wait_for(self, *texts: str) -> Screen:
        """Return the screen once it contains all texts. Fails if it does not within a minute."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen()
            missing = [text for text in texts if text not in screen.text]
            if not missing:
                return screen
            assert time.monotonic() < deadline, f"the terminal never showed {missing}:\n{screen.text}"
            time.sleep(PAUSE_S)

    def run(self, line: str) -> int:
        """Run a line to its end, and return its exit code."""
        return self._code_after(f"{line}; ")

    def wait_for_shell(self) -> None:
        """Wait until the command in the foreground has ended, or is suspended."""
        deadline = time.monotonic() + PATIENCE_S
        while self._run("display-message", "-p", "#{pane_current_command}").strip() not in SHELLS:
            assert time.monotonic() < deadline, f"the command never ended:\n{self.screen().text}"
            time.sleep(PAUSE_S)

    def exit_code(self) -> int:
        """Wait until the command in the foreground has ended, and return its exit code."""
        self.wait_for_shell()
        return self._code_after("")

    def _code_after(self, words: str) -> int:
        done = self._home / f"code-{next(self._marks)}"
        self.type(f"{words}echo $? >{done}.part; mv {done}.part {done}")
        deadline = time.monotonic() + PATIENCE_S
        while not done.exists():
            assert time.monotonic() < deadline, f"the command never ended:\n{self.screen().text}"
            time.sleep(PAUSE_S)
        return int(done.read_text())

    def pid_of(self, words: str) -> int:
        """Return the id of the one process on this terminal whose command line contains `words`."""
        tty = self._run("display-message", "-p", "#{pane_tty}").strip().removeprefix("/dev/")
        listed = subprocess.run(["ps", "-t", tty, "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
        (found,) = [int(line.split()[0]) for line in listed.splitlines() if words in line]
        return found

    def check_clean(self) -> None:
        """Check that the last command has left the terminal as it was: its modes, its cursor, its screen."""
        screen = self.screen()
        assert screen.is_cursor_visible
        assert not screen.is_alternate
        found = self._settings_of_terminal()
        changed = set(found.split()) ^ set(self._settings.split())
        assert not changed, f"the terminal's modes are changed: {changed}"

    def _settings_of_terminal(self) -> str:
        file = self._home / f"stty-{next(self._marks)}"
        assert self.run(f"stty -a >{file}") == 0
        return "\n".join(line for line in file.read_text().splitlines() if "rows" not in line)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], env=self._env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"tmux {words[0]}: {done.stderr}"
        return done.stdout
