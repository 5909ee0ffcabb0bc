"""Write lessons anew, with the relations that marker models name between the entities of the teachers.

python recipes/marked.py SHARE LESSONS MARKERS... OUT

MARKERS are folders that `markers.py` or the study `pipeline` has made; what their models say is averaged. SHARE,
above 0 and of 1 at most, is what that counts between entities; what the teachers say counts the rest.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from script import number, run

from unire.studies.pipeline.cells import saved_markers
from unire.studies.pipeline.relabelling import relabel


def main(share: str, lessons: str, marker: str, *more: str) -> None:
    *folders, out = marker, *more
    counting = number(float, "SHARE", share)

    def show(done: int, of: int) -> None:
        print(f"{done:,} of {of:,} documents", file=sys.stderr, flush=True)

    markers = [marker for folder in folders for marker in saved_markers(folder)]
    relabelled = relabel(lessons, markers, out, share=counting, on_progress=show)
    print(json.dumps({"out": out, **asdict(relabelled)}))


if __name__ == "__main__":
    run(main, __doc__)
