"""Extraction on a Ray cluster: shards of the input, workers, and one Parquet file for every shard."""

from unire.integrations.ray.extract import extract
from unire.integrations.ray.shards import ExtractionResult, Shard

__all__ = ["ExtractionResult", "Shard", "extract"]
