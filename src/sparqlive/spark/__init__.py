"""Spark's own interfaces on top of a session: data sources, and folders of files to follow."""

from typing import Any

from sparqlive.errors import Unsupported


def register(spark: Any) -> None:
    """Registers the formats `rdf` and `sparqlive` with a Spark session, for read, readStream and write."""
    try:
        from sparqlive.bulk.backends.spark.start import use_this_python
        from sparqlive.spark.sources import RdfSource, StoreSource
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"sparqlive.register needs {error.name}, which is not installed. "
            f"Run: pip install 'sparqlive[spark]'"
        ) from error

    use_this_python(spark)
    for source in (RdfSource, StoreSource):
        spark.dataSource.register(source)
