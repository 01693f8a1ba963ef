"""Reports what Spark is doing in this process, for people who wait for it."""

from __future__ import annotations

from pyspark import SparkContext


def running_stages() -> str:
    """Describes the running stages and their tasks; empty if Spark is idle or not running."""
    context = SparkContext._active_spark_context
    if context is None:
        return ""
    tracker = context.statusTracker()
    found = [
        info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None
    ]
    if not found:
        return ""
    done, tasks = sum(info.numCompletedTasks for info in found), sum(info.numTasks for info in found)
    numbers = ", ".join(str(info.stageId) for info in found)
    return f"Spark: stage {numbers}, {done:,} of {tasks:,} tasks"
