"""Profiles: client settings under a name, one properties file each in the user's configuration folder.

A value can name its source instead of a secret: `${env:NAME}` is an environment variable, `${command:WORDS}` the first line that a
command prints. The files are readable by their owner alone.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ottla.cli.command import librdkafka
from ottla.errors import SettingError
from ottla.properties import parse_properties

IN_USE = "in-use"
"""The file with the name of the profile in use."""
SUFFIX = ".properties"
COMMAND_TIMEOUT_S = 30
"""The time that a command may take to print a secret, in seconds."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SOURCE = re.compile(r"\$\{(env|command):([^}]*)\}")


class Profiles:
    """The profiles of a user, below `$XDG_CONFIG_HOME/ottla`."""

    def __init__(self) -> None:
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        self._folder = Path(home) / "ottla" / "profiles"

    def names(self) -> list[str]:
        """Return the names of all profiles, sorted."""
        try:
            return sorted(path.stem for path in self._folder.iterdir() if path.suffix == SUFFIX)
        except OSError:
            return []

    def in_use(self) -> str | None:
        """Return the name of the profile that commands use without --profile, or None."""
        try:
            return (self._folder / IN_USE).read_text(encoding="utf-8").strip() or None
        except OSError:
            return None

    def use(self, name: str | None) -> None:
        """Make `name` the profile that commands use without --profile; with None, they use no profile.

        Raises `SettingError` if the profile does not exist.
        """
        if name is not None:
            self.texts(name)
        self._write(self._folder / IN_USE, f"{name}\n" if name else "")

    def save(self, name: str, texts: Mapping[str, str]) -> None:
        """Create or replace a profile. Raises `SettingError`."""
        lines = (f"{setting}={_escaped(text)}\n" for setting, text in texts.items())
        self._write(self._path(name), "".join(lines))

    def remove(self, name: str) -> None:
        """Remove a profile. Raises `SettingError` if it does not exist."""
        self.texts(name)
        self._path(name).unlink()
        if self.in_use() == name:
            self.use(None)

    def texts(self, name: str) -> dict[str, str]:
        """Return the settings of a profile as they are written. Raises `SettingError`."""
        path = self._path(name)
        try:
            return parse_properties(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = ", ".join(self.names()) or "there are none"
            raise SettingError(f"There is no profile {name} ({known}): create it with `ottla profile create {name}`.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"Cannot read the profile {path}: {error}; make it readable, or create it again.") from None

    def read(self, name: str) -> dict[str, str]:
        """Return the settings of a profile by Kafka's names, with secrets from their sources. Raises `SettingError`."""
        texts = librdkafka.translated(self.texts(name))
        return {setting: _SOURCE.sub(partial(_value, setting, name), text) for setting, text in texts.items()}

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise SettingError(f"{name!r} cannot name a profile: use letters, digits, dots, dashes and underscores.")
        return self._folder / f"{name}{SUFFIX}"

    def _write(self, path: Path, text: str) -> None:
        """Write a file that its owner alone can read; a crash leaves the old file or the new one."""
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise SettingError(f"Cannot write {path}: {error.strerror}; set XDG_CONFIG_HOME to another folder.") from None


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _escaped(text: str) -> str:
    """Return a value in the syntax of a properties file. The syntax cannot express blanks at the end of a value."""
    return ("\\" if text.startswith(" ") else "") + text.translate(_ESCAPES)


def _value(setting: str, profile: str, source: re.Match[str]) -> str:
    """Return a variable's value, or the first line of a command's output. Raises `SettingError`."""
    kind, name = source.groups()
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise SettingError(f"{setting} of profile {profile} needs the environment variable {name}: set it.")
        return value
    try:
        done = subprocess.run(shlex.split(name), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SettingError(f"{setting} of profile {profile}: `{name}` failed ({error}): run it by hand to see why.") from None
    return done.stdout.partition("\n")[0]
