"""An event that occurs once and that a job can wait for."""

from __future__ import annotations

from ottla.ports import Done, Now


class Event:
    """An event that occurs once: `while not event.has_happened: yield event.wait`."""

    def __init__(self) -> None:
        self.has_happened = False
        self._done: Done | None = None

    def changed(self, path: str) -> None:
        """Set the event, as a callback of a registry watch."""
        self._happen()

    def passed(self, now: Now) -> None:
        """Set the event, as a callback of a deadline."""
        self._happen()

    def _happen(self) -> None:
        self.has_happened = True
        done, self._done = self._done, None
        if done is not None:
            done(None)

    def wait(self, done: Done) -> None:
        """Call `done(None)` when the event occurs. It must not have occurred yet."""
        self._done = done
