"""Where the repository and the fixtures of the tests are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unire"
FIXTURES = ROOT / "tests" / "fixtures"
TWENTY = FIXTURES / "twenty.jsonl"
"""Twenty annotated sentences with SciERC's labels."""
