"""The prose of the documentation: sentences are counted as a reader would, and are short."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from helpers.paths import ROOT


@pytest.fixture(scope="module")
def prose() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import prose

        yield prose
    sys.modules.pop("prose")


PAGE = """# A heading does not count.

<!-- Nor does a comment. -->
![Nor a picture.](a.png)

One sentence with `code that is one word` and a [link of words](page.md#a-b). Is this
the second?  Version 0.1.0 of e.g. this is the third!

- An item without a stop
- Two sentences. In an item

| no | table |
|---|---|

```bash
unire extract "No code. At all."
```

=== "No tab"

    A paragraph in a tab, then a block:

    ```text
    No output.
    ```
"""


def test_sentences_are_counted_without_code_tables_and_headings(prose):
    measures = prose.Measures.of([PAGE])
    assert [sentence.replace("\x00", "`…`") for sentence in measures.sentences] == [
        "One sentence with `…` and a link of words.",
        "Is this the second?",
        "Version 0.1.0 of e.g. this is the third!",
        "An item without a stop",
        "Two sentences.",
        "In an item",
        "A paragraph in a tab, then a block:",
    ]
    assert measures.lengths == [9, 4, 8, 5, 2, 3, 8]
    assert measures.mean_length == pytest.approx(39 / 7)
    assert measures.long_share == 0


def test_long_sentences_have_more_than_thirty_words(prose):
    measures = prose.Measures.of([f"{'word ' * 30}.\n\n{'word ' * 31}."])
    assert measures.long_share == 0.5


def test_versions_are_rows_of_one_table(prose):
    pages = {"README.md": "One two.", "docs/a.md": "One. Two three.", "docs/lab-notes/b.md": "One."}
    pages |= {"CHANGELOG.md": "One two three.", "SECURITY.md": "One.", "CONTRIBUTING.md": "One two three."}
    table = prose.render({"old": prose.measure(pages), "now": prose.measure({"README.md": "One two three four."})})
    assert table.splitlines()[2:] == [
        "| README | old | 1 | 1 | 2 | 2.0 | 0.0% |",
        "| README | now | 1 | 1 | 4 | 4.0 | 0.0% |",
        "| documentation | old | 1 | 1 | 3 | 1.5 | 0.0% |",
        "| lab notes | old | 1 | 1 | 1 | 1.0 | 0.0% |",
        "| changelog | old | 1 | 1 | 3 | 3.0 | 0.0% |",
        "| security, contributing | old | 2 | 2 | 4 | 2.0 | 0.0% |",
    ]


def test_sentences_have_twenty_words_on_average(prose):
    measured = prose.measure(prose.read_pages())
    assert all(measures.pages for measures in measured.values())
    for group in set(prose.GROUPS) - {"lab notes"}:
        assert measured[group].mean_length <= 20, group
