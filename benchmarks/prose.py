"""Measure the prose of the README, the documentation and other pages: words, length of sentences, long sentences.

    python benchmarks/prose.py                    # the files as they are
    python benchmarks/prose.py --baseline v0.1.0  # and those of a git revision
    python benchmarks/prose.py --list             # every sentence that is too long

Prints a Markdown table. The counts follow these rules:

- Headings, tables, code blocks, pictures, comments and HTML tags do not count.
- Code within a sentence is one word, a link is the words that it shows.
- A sentence ends at a full stop, question mark or exclamation mark, and at the end of a paragraph or list item.
- Pages that scripts generate are not in the files, and so do not count.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG = 30
"""Words of a sentence above which it is too long."""

GROUPS = {
    "README": re.compile(r"README\.md"),
    "documentation": re.compile(r"docs/(?!lab-notes/|results\.md|studies\.md|extraction\.md).*\.md"),
    "lab notes": re.compile(r"docs/(lab-notes/.*|results|studies|extraction)\.md"),
    "changelog": re.compile(r"CHANGELOG\.md"),
    "security, contributing": re.compile(r"(SECURITY|CONTRIBUTING)\.md"),
}
"""Pages by kind. Before there was a folder for lab notes, three pages were such notes."""

NOT_PROSE = re.compile(
    r"<!--.*?-->"
    r"|^(?P<indent> *)(?P<fence>```+|~~~+)[^\n]*\n.*?^(?P=indent)(?P=fence)[ ]*$"
    r"|^ *(?:#{1,6} |\|)[^\n]*$"
    r"|^ *(?:===|!!!|\?\?\?)\+? [^\n]*$"
    r"|^---$"
    r"|!\[[^\]]*\]\([^)]*\)(?:\{[^}]*\})?"
    r"|</?[a-z][^>]*>",
    re.MULTILINE | re.DOTALL,
)
CODE = re.compile(r"(`+)(?:(?!\n\n).)+?\1", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
PARAGRAPH_END = re.compile(r"(?:^|\n)\s*(?:[-*+>]|\d+\.) |\n\s*\n")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)*_]*\s+(?=\W*(?:[^\Wa-z_]|\x00))")
WORD = re.compile(r"[^\W_][^\s]*|\x00")


@dataclass(frozen=True)
class Measures:
    """The prose of one or more pages."""

    pages: int
    lines: int
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Measures:
        sentences = [sentence for text in texts for sentence in split_sentences(text)]
        return cls(len(texts), sum(len(text.splitlines()) for text in texts), tuple(sentences))

    @property
    def lengths(self) -> list[int]:
        return list(map(count_words, self.sentences))

    @property
    def words(self) -> int:
        return sum(self.lengths)

    @property
    def mean_length(self) -> float:
        return self.words / max(1, len(self.sentences))

    @property
    def long_share(self) -> float:
        return sum(length > LONG for length in self.lengths) / max(1, len(self.sentences))


def split_sentences(markdown: str) -> list[str]:
    """The sentences of a page. Code within them is a null character."""
    text = NOT_PROSE.sub("\n\n", markdown)
    text = CODE.sub("\x00", text)
    text = LINK.sub(r"\1", text)
    sentences = (sentence for part in PARAGRAPH_END.split(text) for sentence in SENTENCE_END.split(part))
    return [" ".join(sentence.split()) for sentence in sentences if count_words(sentence)]


def count_words(sentence: str) -> int:
    return len(WORD.findall(sentence))


def read_pages(revision: str | None = None) -> dict[str, str]:
    """The pages at the root and those of docs/, of the working tree or of a git revision."""
    if revision is None:
        files = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
        return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    names = run_git("ls-tree", "-r", "--name-only", revision).splitlines()
    pages = [name for name in names if re.fullmatch(r"(docs/.*|[^/]*)\.md", name)]
    return {name: run_git("show", f"{revision}:{name}") for name in pages}


def run_git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def measure(pages: dict[str, str]) -> dict[str, Measures]:
    """The measures of each group of pages."""
    return {
        name: Measures.of([text for page, text in pages.items() if group.fullmatch(page)])
        for name, group in GROUPS.items()
    }


def render(measured: dict[str, dict[str, Measures]]) -> str:
    """A Markdown table with a row for each group and version."""
    head = ("", "version", "pages", "lines", "words", "words per sentence", f"sentences over {LONG} words")
    rows: Iterable[tuple[str, ...]] = (
        (
            group,
            version,
            f"{found.pages:,}",
            f"{found.lines:,}",
            f"{found.words:,}",
            f"{found.mean_length:.1f}",
            f"{100 * found.long_share:.1f}%",
        )
        for group in GROUPS
        for version, groups in measured.items()
        if (found := groups[group]).pages
    )
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--baseline", help="a git revision to compare with")
    parser.add_argument("--list", action="store_true", help=f"print the sentences of more than {LONG} words")
    options = parser.parse_args()
    pages = read_pages()
    versions = {options.baseline: read_pages(options.baseline)} if options.baseline else {}
    print(render({name: measure(texts) for name, texts in {**versions, "now": pages}.items()}))
    if options.list:
        for page, text in pages.items():
            for sentence in split_sentences(text):
                if count_words(sentence) > LONG:
                    print(f"\n{page}, {count_words(sentence)} words: {sentence.replace(chr(0), '`…`')}")


if __name__ == "__main__":
    main()
