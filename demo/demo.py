"""Show what unire does, on the abstract of the UniRE paper. Run by `make demo`.

The demo checks that the text of every entity is at its offsets. The abstract is unchanged from
Yijun Wang, Changzhi Sun, Yuanbin Wu, Hao Zhou, Lei Li and Junchi Yan: UniRE (ACL 2021,
https://aclanthology.org/2021.acl-long.19/). The ACL licenses its publications since 2016 under CC BY 4.0
(https://creativecommons.org/licenses/by/4.0/).
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ABSTRACT = "demo/abstract.txt"
SENTENCE = "We train a chart parser on the Penn Treebank for dependency parsing."
OUT = "build/demo"


def unire(*arguments: str) -> None:
    """Print a command and run it."""
    print(f"\n$ {shlex.join(['unire', *arguments])}", flush=True)
    command = Path(sysconfig.get_path("scripts")) / "unire"
    subprocess.run([command, *arguments], cwd=ROOT, check=True)


def check(found: Path) -> str:
    """Compare every entity, alone or in a relation, with the text at its offsets."""
    text = (ROOT / ABSTRACT).read_text(encoding="utf-8")
    (document,) = (json.loads(line) for line in found.read_text(encoding="utf-8").splitlines())
    entities, relations = document["entities"], document["relations"]
    for entity in (*entities, *(relation[side] for relation in relations for side in ("head", "tail"))):
        there = text[entity["char_start"] : entity["char_end"]]
        if there != entity["text"]:
            sys.exit(f"the text at the offsets of {entity['text']!r} is {there!r}")
    if not entities or not relations:
        sys.exit("nothing was found")
    shown = {_shown(relation) for relation in relations}
    return f"{len(entities)} entities and {len(shown)} relations found; the text of each is at its offsets."


def _shown(relation: dict[str, Any]) -> tuple[object, ...]:
    """A relation as the output shows it: a symmetric relation with equal scores is one line."""
    ends = frozenset((relation[side]["char_start"], relation[side]["char_end"]) for side in ("head", "tail"))
    return ends, relation["label"], f"{relation['score']:.2f}"


def main() -> None:
    unire("extract", "--format", "tables", SENTENCE)
    unire("extract", "--format", "text", ABSTRACT)
    unire("extract", ABSTRACT, "--out", f"{OUT}/found.jsonl")
    unire("extract", ABSTRACT, "--out", f"{OUT}/triples.csv")
    unire("extract", ABSTRACT, "--out", f"{OUT}/graph.graphml")
    unire("extract", ABSTRACT, "--out", f"{OUT}/page.html")
    print(f"\n{check(ROOT / OUT / 'found.jsonl')}")
    print(f"Now open {ROOT / OUT / 'page.html'} in a browser, and try a text of your own:")
    print(f'\n  {Path(sys.executable).with_name("unire")} extract "…"')


if __name__ == "__main__":
    main()
