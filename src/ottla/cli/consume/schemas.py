"""The schemas of consumed values: the schema in a file, or the schema whose id is in the value, from a schema registry."""

from __future__ import annotations

from ottla.errors import SettingError
from ottla.schemas.frames import FRAME_BYTES, framed_id
from ottla.schemas.libraries import UnfitValue
from ottla.schemas.places import schema_place
from ottla.schemas.schema import schema_of_file
from ottla.schemas.values import Decode, decoder_of


class SchemaSource:
    """The schemas of values. A value with the frame of a registry names its schema.

    All other values have the schema of the file.
    """

    def __init__(self, file: str | None, registry: str | None) -> None:
        """Read the schema file, if one is given. Raises `SettingError`."""
        self._registry = None if registry is None else schema_place(registry)
        self._decoders: dict[int, Decode] = {}
        self._of_file: Decode | None = None
        self._format = ""
        if file is not None:
            schema = schema_of_file(file)
            self._format, self._of_file = schema.format_name, decoder_of(schema)

    def require(self, format_name: str) -> None:
        """Raise `SettingError` if the schema of the file is of another format."""
        if self._format not in ("", format_name):
            raise SettingError(f"The file of --schema is of {self._format}, not of {format_name}: name another one.")

    def decode(self, data: bytes, topic: str) -> object:
        """Return the content of a value. Raises `UnfitValue`, and `KafkaError` if the registry does not answer."""
        schema_id = None if self._registry is None else framed_id(data)
        if schema_id is not None:
            found = self._decoders.get(schema_id) or self._decoder(schema_id)
            return found(data[FRAME_BYTES:])
        # A value without a frame is none of the registry's.
        return data if self._of_file is None else self._of_file(data)

    def _decoder(self, schema_id: int) -> Decode:
        assert self._registry is not None
        schema = self._registry.by_id(schema_id)
        if schema is None:
            raise UnfitValue(f"the registry has no schema {schema_id}")
        return self._decoders.setdefault(schema_id, decoder_of(schema))
