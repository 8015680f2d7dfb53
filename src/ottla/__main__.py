"""The entry of the `ottla` command, also as `python -m ottla`."""

from __future__ import annotations

# `signal` would import enum, and Ctrl-C during an import prints a traceback.
from _signal import SIG_DFL, SIGINT, signal  # type: ignore[import-not-found]  # it has no stubs, and all that `signal` has


def main() -> int:
    """Let Ctrl-C end the process at once, and run the command. Commands with work to finish have signal handlers of their own."""
    signal(SIGINT, SIG_DFL)
    from ottla.cli.main import main as run

    return run()


if __name__ == "__main__":
    import sys

    sys.exit(main())
