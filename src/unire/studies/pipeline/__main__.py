"""`python -m unire.studies.pipeline CELL`: a cell of the study, which its command starts; CELL is its JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from unire.errors import UnireError
from unire.studies.pipeline.runs import PipelineRun
from unire.training.callbacks import Callback, exit_status

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Do what the cell says, and print what it gave as JSON."""
    (text,) = arguments
    try:
        printed = PipelineRun.from_json(text).run([_EpochLines()])
    except UnireError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return exit_status()
    sys.stdout.write(json.dumps(printed))
    return 0


class _EpochLines(Callback):
    """A line per epoch on standard error."""

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        sys.stderr.write(", ".join(f"{name} {value:.4g}" for name, value in record.items()) + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
