"""A plain-text search in records: keys, values, and the names and values of headers, in any case. Pure."""

from __future__ import annotations

from ottla.records.batches.record import ConsumerRecord

LONGEST = 1000


class TextSearch:
    """A search for a text, whose letters match in both cases. Its time is linear in the size of a record."""

    def __init__(self, text: str) -> None:
        """Prepare the search. Raises `ValueError` for a text that is empty or too long."""
        if not 0 < len(text) <= LONGEST:
            raise ValueError(f"The text to search for must have 1 to {LONGEST} characters, not {len(text)}.")
        import re2

        options = re2.Options()
        options.literal, options.case_sensitive, options.log_errors, options.never_capture = True, False, False, True
        # The pattern is a text, whose letters of all languages have two cases, but records are bytes, which need not be UTF-8.
        self._pattern = re2.compile(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), options)

    def matches(self, record: ConsumerRecord) -> bool:
        return any(self._is_in(part) for part in (record.key, record.value)) or any(
            self._is_in(name.encode()) or self._is_in(value) for name, value in record.headers
        )

    def _is_in(self, data: bytes | None) -> bool:
        return data is not None and self._pattern.search(data) is not None
