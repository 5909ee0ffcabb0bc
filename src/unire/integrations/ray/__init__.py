"""Extraction past one machine: blocks of the input, workers on a Ray cluster, one Parquet file for every block."""

from unire.integrations.ray.extract import extract
from unire.integrations.ray.output import Finished
from unire.integrations.ray.shards import Shard

__all__ = ["Finished", "Shard", "extract"]
