"""What is odd about annotated data, and what becomes of it.

    findings = list(inspect({"train.jsonl": documents, "test.jsonl": others}, labels))

Every `Finding` says where it is, what is there, and what the table will do with it.
"""

from unire.inspection.finding import Finding, Kind
from unire.inspection.inspect import inspect

__all__ = ["Finding", "Kind", "inspect"]
