"""A driver that tests kill: follows the topic `changes`, and writes the changes of a view to the topic `out`.

Run as `python -m tests.connectors.kafka_driver STORE SERVER [once]`.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F  # noqa: N812

import sparqlive
from sparqlive.bulk.backends.spark.start import start_session
from sparqlive.pipeline.sinks import catch_up
from sparqlive.pipeline.sinks.kafka import KafkaSink

QUERY = "SELECT ?s ?o { ?s <a:p> ?o }"


def main(store: str, server: str, *mode: str) -> None:
    spark = start_session("local[2]")
    with sparqlive.open(store, spark=spark) as session:
        view = session.view("all", QUERY)
        sink = KafkaSink(f"kafka://{server}/out", view.variables)
        catch_up(sink, view, "out")
        topic = spark.readStream.format("kafka").option("kafka.bootstrap.servers", server)
        topic = topic.option("subscribe", "changes").option("startingOffsets", "earliest")
        change = F.from_json(F.col("value").cast("string"), "op STRING, s STRING, p STRING, o STRING")
        changes = topic.load().select(change.alias("change"), "offset").select("change.*", "offset")

        def write(epoch: sparqlive.Epoch) -> None:
            catch_up(sink, view, "out")
            print(f"epoch {epoch.number}", flush=True)

        running = session.follow(changes, order="offset", once="once" in mode, on_epoch=write)
        print("following", flush=True)
        running.wait()
    print("end", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
