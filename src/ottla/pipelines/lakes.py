"""Archives in tables of Delta Lake or Iceberg. The Spark session needs the format's jars; without them, an error says so.

Both formats store which micro-batches of a query are written. So each record is written once, as with files. Readers need the jars,
too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
DELTA_LOG: Final = "_delta_log"
MISSING: Final = {
    DELTA: "Delta Lake: give it with --conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION, "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ICEBERG: "Iceberg: give it with --conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION and a "
    "catalog, --conf spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog",
}


def check_jars(spark: SparkSession, form: str) -> None:
    """Raise `PipelineError` if the session cannot write this format."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm  # Py4J resolves packages by name
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(form, spark._jsparkSession.sessionState().conf())
    except Py4JJavaError:
        raise PipelineError(f"This Spark has no {MISSING[form]}, or archive with --format parquet.") from None


def check_table(form: str, table: str | None) -> None:
    """Raise `PipelineError` if `table` is missing for Iceberg, or given for another format."""
    if form == ICEBERG and table is None:
        raise PipelineError("An archive in Iceberg needs the name of its table: give --table CATALOG.DATABASE.NAME.")
    if form != ICEBERG and table is not None:
        raise PipelineError(f"--table names a table of Iceberg, and an archive in {form} lies in its directory: leave it out.")


def exists(spark: SparkSession, form: str, directory: Path, table: str | None) -> bool:
    """Return whether the table already exists."""
    return spark.catalog.tableExists(table) if table is not None else form == DELTA and (directory / DELTA_LOG).exists()


def rows_in(spark: SparkSession, form: str, directory: Path, table: str | None) -> DataFrame:
    """Return all rows of a table."""
    return spark.read.table(table) if table is not None else spark.read.format(form).load(str(directory))
