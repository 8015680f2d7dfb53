"""Which producer ids brokers have given, and to whom: none is given twice."""

from __future__ import annotations

from tests.sim.seeds import Violation


class GivenIds:
    """All that were given."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}

    def give(self, producer_id: int, owner: str) -> None:
        """Note an id in an answer, and for whom it is: a transactional id, or that one answer. Raises `Violation`."""
        known = self._owners.setdefault(producer_id, owner)
        if known != owner:
            raise Violation(f"ids once: producer id {producer_id} was given to {known} and to {owner}")
