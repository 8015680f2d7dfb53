"""The import of a consumer's conversion to Arrow, which needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.net.client.consumer.column_keywords import ColumnKeywords
    from ottla.net.client.consumer.typed_batches import TypedBatches


def typed_batches(given: ColumnKeywords, *, shared: bool = False) -> TypedBatches:
    """Return the conversion that the arguments of `batches` ask for. A share consumer's batches have delivery counts (`shared`).

    Raises `ImportError` without pyarrow, `SettingError`.
    """
    try:
        import pyarrow as pyarrow
    except ImportError as missing:
        raise ImportError("batches() needs pyarrow: install it with pip install 'ottla[arrow]'.") from missing
    from ottla.net.client.consumer.typed_batches import COLUMNS, SHARE_COLUMNS, parse

    return parse(given, SHARE_COLUMNS if shared else COLUMNS)
