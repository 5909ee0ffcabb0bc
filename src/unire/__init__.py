"""Joint entity and relation extraction by filling one table."""

__version__ = "0.1.0"
