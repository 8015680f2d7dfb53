"""The data source that Spark finds by the name `ottla`, for reads and writes of batches and streams."""

from __future__ import annotations

from typing import TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ottla.spark.batch_reader import BatchReader, FilteringReader
from ottla.spark.error_display import hide_tracebacks
from ottla.spark.errors import OptionError
from ottla.spark.filters import are_pushed
from ottla.spark.options import ReadOptions, WriteOptions, check_either_way, read_options, source_shape, write_options
from ottla.spark.schema import check_read_schema, check_write_schema, source_schema
from ottla.spark.streams.reader import RefusedStreamReader, StreamReader
from ottla.spark.workers import set_modules_aside
from ottla.spark.writers import BatchWriter, StreamWriter

Options = TypeVar("Options", ReadOptions, WriteOptions)


def _load_schemas(options: Options) -> Options:
    """Return options with the schemas of formats in place of file names."""
    if not options.formats.formats_by_column():
        return options
    from ottla.spark.formats.schemas import load_schemas  # Spark imports this module in each of its processes, and few need formats

    return load_schemas(options)


@hide_tracebacks
class OttlaDataSource(DataSource):
    """The data source `format("ottla")`. Its options are those of Spark's Kafka connector.

    The columns of rows read are key, value (BINARY), topic, partition, offset, timestamp, timestampType, and with `includeHeaders`
    headers. Option `columns` ("key,value") selects some of them. `.schema("key STRING, value STRING")` does so too, and reads text
    as STRING. `keyFormat` and `valueFormat` decode and encode typed columns: see `ottla.spark.formats`.

    The columns of rows to write are value and, if wanted, key, headers, topic, partition, and with `includeTimestamp` timestamp.
    The sink writes exactly once: see `ottla.spark.writers`. `kafka.group.id` and `groupIdPrefix` set the client's name in the
    brokers' logs. A stream commits its progress for group `groupId`.
    """

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        set_modules_aside()
        check_either_way(self.options)
        shape = source_shape(self.options)
        formats = {column: each for column, each in shape.formats.formats_by_column().items() if column in shape.columns}
        if not formats:
            return source_schema(shape.columns)
        from ottla.spark.formats.schemas import values_type

        return source_schema(shape.columns, {column: values_type(column, each, shape.topics) for column, each in formats.items()})

    def reader(self, schema: StructType) -> DataSourceReader:
        set_modules_aside()
        options = _load_schemas(read_options(self.options, streaming=False))
        check_read_schema(schema, options.formats)
        return (FilteringReader if are_pushed() else BatchReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            options = _load_schemas(read_options(self.options, streaming=True))
            check_read_schema(schema, options.formats)
        except OptionError as refusal:
            return RefusedStreamReader(refusal)
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        set_modules_aside()
        options = _load_schemas(write_options(self.options))
        if overwrite:
            raise OptionError('Records in a topic cannot be overwritten: write with mode("append").')
        check_write_schema(schema, options.topic, include_timestamp=options.include_timestamp, formats=options.formats)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = _load_schemas(write_options(self.options))
        check_write_schema(schema, options.topic, include_timestamp=options.include_timestamp, formats=options.formats)
        return StreamWriter(options)
