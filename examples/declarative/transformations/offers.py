"""The pipeline: the changes of a view are a table, and the table feeds a graph.

`spark-pipelines run` executes this file; it has a session of Spark Connect ready.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import sparqlive

spark = SparkSession.active()
sparqlive.register(spark)
SHOP, OFFERS = spark.conf.get("example.shop"), spark.conf.get("example.offers")


@dp.table
def cheap() -> DataFrame:
    """The changes of the view `cheap`: rows that came (`_weight` 1) and rows that left (-1)."""
    return spark.readStream.format("sparqlive").options(store=SHOP, view="cheap").load()


@dp.materialized_view
def prices() -> DataFrame:
    """The table, as it was when the pipeline last ran."""
    return (
        spark.read.table("cheap").groupBy("item", "price").agg({"_weight": "sum"}).where("`sum(_weight)` > 0")
    )


dp.create_sink("offers", "sparqlive", {"store": OFFERS, "name": "offers"})


@dp.append_flow(target="offers")
def offered() -> DataFrame:
    """Each item of the table as a triple of the other store; `_weight` says whether it comes or goes."""
    return spark.readStream.table("cheap").selectExpr(
        "concat('<', item, '>') AS s",
        "'<http://example.org/offeredAt>' AS p",
        "concat('\"', price, '\"^^<http://www.w3.org/2001/XMLSchema#integer>') AS o",
        "_weight",
        "_epoch",
    )
