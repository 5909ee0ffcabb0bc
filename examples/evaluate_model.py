"""Evaluate a model on annotated data: scores by type, confidence intervals, and why relations are missed.

    python examples/evaluate_model.py test.jsonl --model science

Needs `pip install unire`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from unire import evaluate, formats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="Annotated file or folder.")
    parser.add_argument("--model", default="science", help="Bundled model, folder or Hub name. [default: science]")
    parser.add_argument("--resamples", type=int, default=1000, help="Bootstrap resamples. [default: 1000]")
    args = parser.parse_args()

    report = evaluate(args.model, formats.read(args.data), bootstrap=args.resamples)
    print(report)

    print("\nF1 by type:")
    for counts in (report.scores.entities, report.scores.relations):
        for label, typed in counts.by_type.items():
            print(f"  {label:<24} {100 * typed.f1:5.1f}  ({typed.gold} in gold)")

    print("\nReasons for missed relations:")
    for reason, count in report.errors.items():
        print(f"  {reason:<24} {count:5}")


if __name__ == "__main__":
    main()
