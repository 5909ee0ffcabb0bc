"""Sentences → encoder inputs.

A document is cut into stretches (a sentence, or a part of a very long one), each of which becomes one table. A
`Windower` lays stretches and their context into windows that an encoder can read, and knows where each word stands:

    >>> spec = EncoderSpec.probe(tokenizer, max_pieces=512, token_types=True, pad_id=0, unk_id=100)  # doctest: +SKIP
    >>> windower = Windower(tokenizer, spec, layout="shared")  # doctest: +SKIP
    >>> for passages in in_batches(windower.passages(document), max_cells=2**20, max_pieces=2**14):  # doctest: +SKIP
    ...     batch = collate(passages, spec)

There are three layouts. `in-place` gives every sentence a window of its own, with context to its left and right;
`released` moves the sentence behind its context, as the authors' code does; `shared` reads a run of whole sentences
in one window, so that the encoder sees the text once.
"""

from unire.windows.batches import SLICE, Batch, Rounded, collate, in_batches, of_like_length
from unire.windows.spec import EncoderSpec
from unire.windows.stretches import Stretch
from unire.windows.windower import Layout, Passage, Window, Windower

__all__ = [
    "SLICE",
    "Batch",
    "EncoderSpec",
    "Layout",
    "Passage",
    "Rounded",
    "Stretch",
    "Window",
    "Windower",
    "collate",
    "in_batches",
    "of_like_length",
]
