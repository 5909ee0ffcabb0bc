"""Sentences → table spans, the words of one table each; table spans → groups that share a window."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from unire.documents import Document

__all__ = ["TableSpan", "balance_groups", "split_into_tables"]

SENTENCE_STOPS = ((".", ";", ":", "!", "?"), (",", ")"))
"""Endings of words after which a long sentence is split. The second kind is used only if there is none of the first."""


# Not frozen: there is one per sentence, and creating a frozen one takes four times as long.
@dataclass(slots=True, unsafe_hash=True)
class TableSpan:
    """The words of one table: a sentence, or a part of a very long one."""

    document: int
    """Index of the document, as the caller counts."""
    sentence: int
    """Index of the sentence in the document."""
    start: int
    """First word, counted from the start of the document."""
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def split_into_tables(document: Document, index: int, max_words: int) -> list[TableSpan]:
    """Split a document into table spans: its sentences, without empty ones; long ones in parts of up to `max_words`."""
    spans = []
    for i, sentence in enumerate(document.sentences):
        start = sentence.start
        end = start + len(sentence.words)
        while end - start > max_words:
            cut = _find_cut(document.words, start, end, max_words)
            spans.append(TableSpan(index, i, start, cut))
            start = cut
        if start < end:
            spans.append(TableSpan(index, i, start, end))
    return spans


def _find_cut(words: Sequence[str], start: int, end: int, max_words: int) -> int:
    """Find where to cut the first part off a sentence that is too long for a table.

    Equal parts, as few as possible, are the aim. The cut is after the stop nearest to the aim, unless the part would be
    shorter than half of the aim. If there is no stop in reach, the cut is at the aim.
    """
    n_parts = -(-(end - start) // max_words)
    aim = -(-(end - start) // n_parts)
    reach = sorted(range(start + (aim + 1) // 2, start + max_words + 1), key=lambda cut: abs(cut - start - aim))
    for stops in SENTENCE_STOPS:
        for cut in reach:
            if words[cut - 1].endswith(stops):
                return cut
    return start + aim


def balance_groups(
    spans: Sequence[TableSpan], n_tokens: Sequence[int], *, max_tokens: int, max_cells: int
) -> list[list[TableSpan]]:
    """Group consecutive spans into as few groups as possible, of sizes as equal as possible.

    Args:
        spans: The spans of one document, in order.
        n_tokens: Tokens of each span.
        max_tokens: Tokens of a group. A longer span is a group by itself.
        max_cells: Padded cells of a group: spans × longest².
    """

    def fill(capacity: int) -> list[int]:
        """Fill one group after the other with up to `capacity` tokens; the end of each."""
        ends, count, size, longest = [], 0, 0, 0
        for i, (span, n) in enumerate(zip(spans, n_tokens, strict=True)):
            count, size, longest = count + 1, size + n, max(longest, len(span))
            if count > 1 and (size > capacity or count * longest**2 > max_cells):
                ends.append(i)
                count, size, longest = 1, n, len(span)
        return [*ends, len(spans)]

    if not spans:
        return []
    longest = max([span.end - span.start for span in spans])
    if sum(n_tokens) <= max_tokens and len(spans) * longest**2 <= max_cells:
        return [list(spans)]
    fewest = len(fill(max_tokens))
    # The smallest capacity that needs no more groups fills them evenly. The number of groups falls with the capacity.
    capacity = bisect_left(range(max_tokens), True, key=lambda capacity: len(fill(capacity)) <= fewest)
    cuts = fill(capacity)
    return [list(spans[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]
