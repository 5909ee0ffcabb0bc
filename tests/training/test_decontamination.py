"""Texts that must not be learnt from."""

from __future__ import annotations

from unire.training.text_corpus import OverlapFilter


def test_evaluation_text_is_known_whatever_stands_around_it_and_however_it_is_written() -> None:
    overlap_filter = OverlapFilter(
        ["We parse ( clinical ) notes with a chart parser and find 3.5 % more .", "It rained ."]
    )
    assert "A title. We parse (clinical) notes with a chart parser, and find 3.5% more. It snowed." in overlap_filter
    assert "WE PARSE CLINICAL NOTES WITH A CHART PARSER AND" in overlap_filter
    assert "It rained!" in overlap_filter
    assert "It rained, and we went home." not in overlap_filter
    assert "clinical notes with a chart parser and find" not in overlap_filter  # eight words may be the same by chance
    assert "" not in OverlapFilter([""])
