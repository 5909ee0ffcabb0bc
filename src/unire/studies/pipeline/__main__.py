"""`python -m unire.studies.pipeline CELL`: a cell of the study, which its command starts; CELL is its JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from unire.errors import UnireError
from unire.studies.pipeline.runs import PipelineRun
from unire.training.callbacks import exit_status

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Do what the cell says, and print what it gave as JSON."""
    (text,) = arguments
    try:
        printed = PipelineRun.from_json(text).run(tell=_tell)
    except UnireError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return exit_status()
    sys.stdout.write(json.dumps(printed))
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
