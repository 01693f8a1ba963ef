"""Spark's own interfaces on top of a session: data sources, and folders of files to follow."""

from typing import Any


def register(spark: Any) -> None:
    """Registers the formats `rdf` and `sparqlive` with a Spark session, for read, readStream and write."""
    from sparqlive.bulk.backends.spark.start import use_this_python
    from sparqlive.spark.sources import RdfSource, StoreSource

    use_this_python(spark)
    for source in (RdfSource, StoreSource):
        spark.dataSource.register(source)
