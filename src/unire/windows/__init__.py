"""Sentences → encoder inputs.

A document is cut into stretches (a sentence, or a part of a very long one), each of which becomes one table. A
`Windower` lays stretches and their context into windows that an encoder can read, and knows where each word stands:

    >>> spec = EncoderSpec.probe(tokenizer, max_tokens=512, token_types=True, pad_id=0, unk_id=100)  # doctest: +SKIP
    >>> windower = Windower(tokenizer, spec, layout="shared")  # doctest: +SKIP
    >>> for passages in in_batches(windower.passages(document), max_cells=2**20, max_tokens=2**14):  # doctest: +SKIP
    ...     batch = collate(passages, spec)

There are three layouts. `in-place` gives every sentence a window of its own, with context to its left and right;
`released` moves the sentence behind its context, as the authors' code does; `shared` reads a run of whole sentences
in one window, so that the encoder sees the text once.
"""

from unire.config import EncoderSpec, Layout
from unire.windows.collator import MAX_SLICE_TOKENS, Batch, Padding, bucket_batches, collate, group_by_length
from unire.windows.spans import TableSpan
from unire.windows.windows import Window, WindowBuilder, WindowGroup

__all__ = [
    "MAX_SLICE_TOKENS",
    "Batch",
    "EncoderSpec",
    "Layout",
    "Padding",
    "TableSpan",
    "Window",
    "WindowBuilder",
    "WindowGroup",
    "bucket_batches",
    "collate",
    "group_by_length",
]
