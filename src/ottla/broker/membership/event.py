"""Something that happens once, for a job to wait for."""

from __future__ import annotations

from ottla.ports import Done, Now


class Event:
    """Happens once: `while not event.has_happened: yield event.wait`."""

    def __init__(self) -> None:
        self.has_happened = False
        self._done: Done | None = None

    def changed(self, path: str) -> None:
        """It happens, by a watch of the registry."""
        self._happen()

    def passed(self, now: Now) -> None:
        """It happens, by a deadline."""
        self._happen()

    def _happen(self) -> None:
        self.has_happened = True
        done, self._done = self._done, None
        if done is not None:
            done(None)

    def wait(self, done: Done) -> None:
        """Call `done(None)` when it happens; it has not yet."""
        self._done = done
