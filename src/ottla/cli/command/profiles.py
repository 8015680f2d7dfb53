"""Profiles: client settings under a name, one properties file each in the user's configuration folder.

A value can name its source instead of a secret: `${env:NAME}` is an environment variable, `${command:WORDS}` the first line that a
command prints. The files are readable by their owner alone.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from ottla.cli.command import librdkafka
from ottla.errors import SettingError
from ottla.properties import parse_properties

IN_USE = "in-use"
"""The file with the name of the profile in use."""
SUFFIX = ".properties"
MOST_NAMED = 10
"""The number of profiles that an error names."""
COMMAND_TIMEOUT_S = 30
"""The time that a command may take to print a secret, in seconds."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SOURCE = re.compile(r"\$\{([a-z]+):([^}]*)(\}?)")


class Profiles:
    """The profiles of a user, below `$XDG_CONFIG_HOME/ottla`."""

    def __init__(self) -> None:
        home = os.environ.get("XDG_CONFIG_HOME", "")
        if not os.path.isabs(home):  # the specification of XDG ignores relative paths
            home = os.path.expanduser("~/.config")
        self._folder = Path(home) / "ottla" / "profiles"

    def names(self) -> list[str]:
        try:
            return sorted(path.stem for path in self._folder.iterdir() if path.suffix == SUFFIX and _NAME.fullmatch(path.stem))
        except OSError:
            return []

    def in_use(self) -> str | None:
        """Return the name of the profile that commands use without --profile, or None. Raises `SettingError`."""
        path = self._folder / IN_USE
        try:
            name = path.read_bytes().decode(errors="replace").strip()
        except OSError:
            return None
        if name and not self._exists(name):
            raise SettingError(
                f"{path} names a profile that does not exist, {name!r:.60}: `ottla profile use NAME` or --none mends it."
            )
        return name or None

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
        """Remove a profile, also one that cannot be read. Raises `SettingError` if it does not exist."""
        path = self._path(name)
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing(name) from None
        except OSError as error:
            raise SettingError(f"Cannot delete {path}: {error.strerror}; delete it by hand.") from None
        with suppress(SettingError):
            self.in_use()
            return
        self.use(None)

    def texts(self, name: str) -> dict[str, str]:
        """Return the settings of a profile as they are written. Raises `SettingError`."""
        path = self._path(name)
        try:
            return parse_properties(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing(name) from None
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SettingError(f"Cannot read {path}: {why}; make it readable, or create the profile again.") from None
        except SettingError as error:
            raise SettingError(f"{path}, {error}") from None

    def read(self, name: str) -> dict[str, str]:
        """Return the settings of a profile by Kafka's names, with secrets from their sources. Raises `SettingError`."""
        written, path = self.texts(name), self._path(name)
        if path.stat().st_mode & 0o077 and any(is_secret(*each) for each in written.items()):
            print(f"ottla: other users can read {path}, which has a secret: chmod 600 it.", file=sys.stderr)
        texts = librdkafka.translated(written)
        return {setting: _SOURCE.sub(partial(_value, f"{setting} of profile {name}"), text) for setting, text in texts.items()}

    def _exists(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None and self._path(name).exists()

    def _missing(self, name: str) -> SettingError:
        names = self.names()
        known = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
        return SettingError(
            f"There is no profile {name} ({known or 'there are none'}): create it with `ottla profile create {name} -b HOST:PORT`."
        )

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise SettingError(f"{name!r:.60} cannot name a profile: use up to 100 letters, digits, dots, dashes and underscores.")
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
            with suppress(OSError):
                unfinished.unlink()
            raise SettingError(f"Cannot write {path}: {error.strerror}; set XDG_CONFIG_HOME to another folder.") from None


def is_secret(name: str, text: str) -> bool:
    """Return whether a value must not be printed. A reference to the environment or to a command is not a secret itself."""
    return not _SOURCE.fullmatch(text) and any(word in name for word in ("password", "secret", "jaas", "keystore.key", "key.pem"))


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _escaped(text: str) -> str:
    """Return a value in the syntax of a properties file. The syntax cannot express blanks at the end of a value."""
    return ("\\" if text.startswith(" ") else "") + text.translate(_ESCAPES)


def _value(setting: str, source: re.Match[str]) -> str:
    """Return a variable's value, or the first line of a command's output. Raises `SettingError`."""
    kind, name, end = source.groups()
    if not end or not name or kind not in ("env", "command"):
        raise SettingError(f"{setting}: {source[0]!r} names no source: write ${{env:NAME}} or ${{command:WORDS}}.")
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise SettingError(f"{setting} needs the environment variable {name}: set it.")
        return value
    if not (line := _first_line(setting, name)):
        raise SettingError(f"{setting}: `{name}` printed no first line: run it by hand to see why.")
    return line


def _first_line(setting: str, words: str) -> str:
    """Return the first line that a command prints. It cannot read standard input, because `ottla produce` reads records there."""
    try:
        done = subprocess.run(
            shlex.split(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except OSError as error:
        why = str(error.strerror)
    except UnicodeDecodeError:
        why = "its output is not UTF-8"
    except subprocess.TimeoutExpired:
        why = f"it did not end within {COMMAND_TIMEOUT_S} s"
    except ValueError as error:
        why = str(error)
    else:
        if not done.returncode:
            return done.stdout.partition("\n")[0]
        said = done.stderr.strip().rpartition("\n")[2]
        why = f"exit code {done.returncode}{said and ': '}{said}"
    raise SettingError(f"{setting}: `{words}` failed ({why}): run it by hand to see why.")
