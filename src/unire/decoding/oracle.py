"""The decoder's ceiling: gold tables, decoded. What is missed here, no model could find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from unire.calibration import Calibration
from unire.decoding.assemble import DocumentAssembler
from unire.decoding.decoders import decode
from unire.documents import Document
from unire.labels import LabelSpace
from unire.tables import fill_sentence
from unire.windows.spans import TableSpan

__all__ = ["oracle"]


def oracle(
    documents: Iterable[Document], labels: LabelSpace, *, decoder: str = "split", alpha: float | None = None
) -> Iterator[Document]:
    """Each document as the decoder reads it off its gold tables."""
    one_hot = np.eye(len(labels), dtype=np.float32)
    for document in documents:
        findings = DocumentAssembler([document], labels)
        for index, sentence in enumerate(document.sentences):
            if sentence.words:
                table = fill_sentence(sentence, labels).labels
                decoded = decode(one_hot[table][None], np.array([len(table)]), labels, decoder=decoder, alpha=alpha)
                findings.add([TableSpan(0, index, sentence.start, sentence.end)], decoded.calibrated(Calibration()))
        yield from findings.documents()
