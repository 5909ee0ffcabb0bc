"""Sentences → stretches, the words of one table each; stretches → runs that share a window."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from unire.documents import Document

__all__ = ["TableSpan", "balance_groups", "split_into_spans"]

STOPS = ((".", ";", ":", "!", "?"), (",", ")"))
"""After which words a long sentence is cut: after the first kind where there is one."""


# Not frozen: every sentence has one, and Python takes four times as long to make it. Nobody changes it all the same.
@dataclass(slots=True, unsafe_hash=True)
class TableSpan:
    """The words of one table: a sentence, or a part of a very long one."""

    document: int
    """Position that the caller gave to the document."""
    sentence: int
    """Position of the sentence in the document."""
    start: int
    """First word, counted from the start of the document."""
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def split_into_spans(document: Document, index: int, max_table: int) -> list[TableSpan]:
    """Every word of `document` in one stretch of at most `max_table` words; sentences without words have none."""
    stretches = []
    for i, sentence in enumerate(document.sentences):
        start = sentence.start
        end = start + len(sentence.words)
        while end - start > max_table:
            cut = _cut(document.words, start, end, max_table)
            stretches.append(TableSpan(index, i, start, cut))
            start = cut
        if start < end:
            stretches.append(TableSpan(index, i, start, end))
    return stretches


def _cut(words: Sequence[str], start: int, end: int, max_table: int) -> int:
    """Where to cut a stretch off a sentence that is too long for a table.

    The aim is equal parts, as few as possible. The cut is made after the stop nearest to that aim, unless the part
    were less than half of it; without a stop in reach, at the aim itself.
    """
    parts = -(-(end - start) // max_table)
    aim = -(-(end - start) // parts)
    reach = sorted(range(start + (aim + 1) // 2, start + max_table + 1), key=lambda cut: abs(cut - start - aim))
    for stops in STOPS:
        for cut in reach:
            if words[cut - 1].endswith(stops):
                return cut
    return start + aim


def balance_groups(
    stretches: Sequence[TableSpan], sizes: Sequence[int], *, max_tokens: int, max_cells: int
) -> list[list[TableSpan]]:
    """Runs of neighbouring stretches, as few as possible and then as equal as possible.

    Args:
        stretches: Of one document, in order.
        sizes: Tokens of each stretch.
        max_tokens: Tokens of a run. A stretch that has more is a run by itself.
        max_cells: Padded cells of a run: stretches × longest².
    """

    def ends(capacity: int) -> list[int]:
        """Where runs end that are filled one after the other."""
        ends, count, tokens, longest = [], 0, 0, 0
        for i, (stretch, size) in enumerate(zip(stretches, sizes, strict=True)):
            count, tokens, longest = count + 1, tokens + size, max(longest, len(stretch))
            if count > 1 and (tokens > capacity or count * longest**2 > max_cells):
                ends.append(i)
                count, tokens, longest = 1, size, len(stretch)
        return [*ends, len(stretches)]

    if not stretches:
        return []
    longest = max([stretch.end - stretch.start for stretch in stretches])
    if sum(sizes) <= max_tokens and len(stretches) * longest**2 <= max_cells:
        return [list(stretches)]
    fewest = len(ends(max_tokens))
    # The smallest capacity that needs no more runs fills them evenly.
    capacity = bisect_left(range(max_tokens), True, key=lambda capacity: len(ends(capacity)) <= fewest)
    cuts = ends(capacity)
    return [list(stretches[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]
