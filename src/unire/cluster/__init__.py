"""Extraction past one machine: blocks of the input, workers on a Ray cluster, one Parquet file for every block."""

from unire.cluster.blocks import Block
from unire.cluster.extract import extract
from unire.cluster.folder import Finished

__all__ = ["Block", "Finished", "extract"]
