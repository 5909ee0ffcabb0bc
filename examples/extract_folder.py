"""Extract entities and relations from all text files of a folder, and write a page that shows them.

    python examples/extract_folder.py abstracts/ --page page.html --open

Needs `pip install unire`. The page is one file and needs no network.
"""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from unire import Documents, Extractor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Folder with .txt files.")
    parser.add_argument("--page", type=Path, default=Path("page.html"), help="Page to write. [default: page.html]")
    parser.add_argument("--model", default="science", help="Bundled model, folder or Hub name. [default: science]")
    parser.add_argument("--min-score", type=float, default=0.0, help="Lowest probability to show. [default: 0]")
    parser.add_argument("--open", action="store_true", help="Open the page in a browser.")
    args = parser.parse_args()

    extractor = Extractor.load(args.model)
    files = sorted(args.folder.rglob("*.txt"))
    texts = [file.read_text(encoding="utf-8") for file in files]

    # One call for all texts: the extractor computes them in batches.
    documents = Documents(document.confident(args.min_score) for document in extractor.extract(texts))
    for file, document in zip(files, documents, strict=True):
        print(f"{file}: {len(document.entities)} entities, {len(document.relations)} relations")
        for relation in document.relations:
            print(f"  {relation.score:.2f}  {relation.head.text} | {relation.label} | {relation.tail.text}")

    documents.to_html(args.page)
    print(f"wrote {args.page}")
    if args.open:
        webbrowser.open(args.page.resolve().as_uri())


if __name__ == "__main__":
    main()
