"""Passages as padded arrays: nothing is lost, nothing is too large, and shapes are few."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.windows import LAYOUTS, documents, first_token, in_sentences, window_builder
from unire.tables import TableSpan
from unire.windows import collator
from unire.windows.collator import bucket_groups, bucket_items, bucket_tables, collate
from unire.windows.windows import Window, WindowGroup


@pytest.mark.slow
@pytest.mark.no_cover
@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(documents(), max_size=6),
    layout=st.sampled_from(LAYOUTS),
    max_table=st.integers(1, 30),
    max_cells=st.integers(1, 2000),
    max_tokens=st.integers(1, 500),
    padding=st.sampled_from(["exact", "bucketed"]),
    max_padding=st.sampled_from([None, 0, 20, 200]),
)
def test_batches_hold_every_group_once_within_both_bounds(
    texts, layout, max_table, max_cells, max_tokens, padding, max_padding
):
    builder = window_builder(max_tokens=40, layout=layout, window=20, max_table=max_table)
    groups = [group for i, text in enumerate(texts) for group in builder.build([text], i)]
    batches = list(bucket_groups(iter(groups), max_cells=max_cells, max_tokens=max_tokens, max_padding=max_padding))
    assert sorted(map(id, itertools.chain(*batches))) == sorted(map(id, groups))
    for bucket in batches:
        batch = collate(bucket, builder.spec, padding=padding)
        assert sorted(map(hash, batch.table_spans)) == sorted(hash(table) for p in bucket for table in p.table_spans)
        assert padding == "exact" or all(isinstance(alike, slice) for alike, _ in bucket_tables(batch.lengths))
        n_tables, longest = batch.words.shape
        if len(bucket) > 1:
            assert n_tables * longest**2 <= max_cells
            assert padding == "bucketed" or batch.input_ids.size <= max_tokens
        read = np.concatenate([batch.input_ids[rows, :n].reshape(-1) for rows, n in batch.slices])[batch.words]
        for table, length, tokens, indices in zip(batch.table_spans, batch.lengths, read, batch.words, strict=True):
            words = texts[table.document].words[table.start : table.end]
            assert tokens[:length].tolist() == [first_token(word) for word in words]
            assert not indices[length:].any()
        assert (batch.input_ids[batch.attention_mask == 0] == builder.spec.pad_id).all()
        windows = [window for group in bucket for window in group.windows]
        filler_rows = len(batch.input_ids) - len(windows)
        assert 0 <= filler_rows <= (len(windows) / 2 if padding == "bucketed" else 0)
        assert batch.input_ids.shape[1] <= builder.spec.max_pieces
        assert batch.attention_mask.sum() == sum(len(window.tokens) for window in windows) + filler_rows


def test_token_types_are_one_from_the_sentence_to_the_end_and_zero_on_padding():
    builder = window_builder(layout="released", window=4)
    batch = collate(builder.build([in_sentences(2, 3)]), builder.spec)
    assert batch.token_type_ids.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]]
    shorter = collate(builder.build([in_sentences(1, 3)]), builder.spec)
    assert shorter.attention_mask.tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
    assert shorter.token_type_ids.tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 1]]


def test_there_are_no_token_types_where_the_encoder_has_none():
    builder = window_builder("roberta", layout="released")
    assert collate(builder.build([in_sentences(2, 3)]), builder.spec).token_type_ids is None


@given(st.lists(st.integers(1, 200), min_size=1, max_size=300))
@example([40] * 40)  # the last slice, of few windows, is wider than the first
def test_slices_hold_every_window_once_and_their_shapes_are_few(sizes):
    spec = window_builder(max_tokens=200).spec
    window = [Window(np.ones(size, np.int64), size) for size in sizes]
    groups = [
        WindowGroup((each,), (TableSpan(0, k, k, k + 1),), np.zeros((1, 2), np.int64)) for k, each in enumerate(window)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collator, "MAX_SLICE_TOKENS", 1024)
        (together,) = bucket_groups(groups, max_cells=10**6, max_tokens=10**6)
        batch = collate(together, spec, padding="bucketed")
    rows = [range(some.start, some.stop) for some, _ in batch.slices]
    assert list(itertools.chain(*rows)) == list(range(len(batch.input_ids)))
    for some, n in batch.slices:
        assert batch.row_lengths[some].max() <= n <= batch.input_ids.shape[1] <= spec.max_pieces
        assert n % 16 == 0 or n == spec.max_pieces
    full = [(some.stop - some.start, n) for some, n in batch.slices[:-1]]
    assert all(n_windows & (n_windows - 1) == 0 and n_windows * n <= 1024 for n_windows, n in full)
    assert len({n_windows for n_windows, n in full if n == full[0][1]}) <= 1
    assert batch.row_lengths.sum() == sum(sizes) + len(batch.row_lengths) - len(
        sizes
    )  # only the last slice is filled up


def test_batches_are_formed_by_length():
    groups = [p for i in range(50) for p in window_builder(window=0).build([in_sentences(1 + i % 2 * 49)], i)]
    batches = list(bucket_groups(groups, max_cells=10**6, max_tokens=25 * 52))
    assert [{len(p.windows[0].tokens) for p in batch} for batch in batches] == [{52}, {3}]


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 200))
def test_items_are_batched_by_length_the_longest_first_as_a_plain_loop_would(lengths, max_tokens):
    expected: list[list[int]] = []
    for item in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not expected or (len(expected[-1]) + 1) * lengths[expected[-1][0]] > max_tokens:
            expected.append([])
        expected[-1].append(item)
    assert list(bucket_items(range(len(lengths)), lengths.__getitem__, max_tokens)) == expected


def of_one_window(size: int) -> WindowGroup:
    return WindowGroup((Window(np.ones(size, np.int64), size),), (TableSpan(0, 0, 0, 1),), np.zeros((1, 2), np.int64))


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=8), max_padding=st.integers(0, 500))
def test_of_all_ways_to_cut_a_step_the_one_with_the_least_padding_and_batches_is_taken(sizes, max_padding):
    def cost(parts) -> int:
        return sum(max_padding + len(part) * max(part) for part in parts)

    groups = [of_one_window(size) for size in sizes]
    buckets = bucket_groups(groups, max_cells=10**6, max_tokens=10**6, max_padding=max_padding, padding="fixed")
    padded = {size: 32 * -(-size // 32) if size <= 128 else 256 for size in sizes}
    found = [[padded[len(group.windows[0].tokens)] for group in bucket] for bucket in buckets]
    falling = sorted(padded[size] for size in sizes)[::-1]
    places = [itertools.combinations(range(1, len(falling)), n) for n in range(len(falling))]
    ways = [[falling[a:b] for a, b in itertools.pairwise([0, *cuts, len(falling)])] for n in places for cuts in n]
    assert cost(found) == min(map(cost, ways))
    assert sorted(size for group in found for size in group) == falling[::-1]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(documents(), min_size=1, max_size=6),
    layout=st.sampled_from(LAYOUTS),
    max_tokens=st.sampled_from([40, 600]),
)
def test_packed_windows_are_contiguous_and_separate(texts, layout, max_tokens):
    builder = window_builder(max_tokens=max_tokens, layout=layout, window=20, max_table=30)
    groups = [group for i, text in enumerate(texts) for group in builder.build([text], i)]
    for bucket in bucket_groups(groups, max_cells=10**6, max_tokens=10**6, padding="packed"):
        batch, apart = (collate(bucket, builder.spec, padding=how) for how in ("packed", "exact"))
        n_rows, length = batch.input_ids.shape
        assert (n_rows - 2) * length < 2 * apart.row_lengths.sum()  # of all rows but two at most, half are tokens
        types = batch.token_type_ids
        found = []
        for row in range(n_rows):
            for start in np.unique(batch.window_starts[row]).tolist():
                inside = np.flatnonzero(batch.window_starts[row] == start)
                assert inside.tolist() == list(range(start, start + len(inside)))
                ids = batch.input_ids[row, inside]
                if (ids != builder.spec.pad_id).any():
                    found.append((ids.tolist(), types[row, inside].tolist()))
        expected = [
            (ids[:size].tolist(), types[:size].tolist())
            for ids, types, size in zip(apart.input_ids, apart.token_type_ids, apart.row_lengths, strict=True)
        ]
        assert sorted(found) == sorted(expected)
        n_tables, longest = apart.words.shape
        assert batch.table_spans == apart.table_spans
        assert (batch.lengths[:n_tables] == apart.lengths).all()
        assert not batch.lengths[n_tables:].any()
        same = batch.input_ids.reshape(-1)[batch.words[:n_tables, :longest]]
        for k, n in enumerate(apart.lengths.tolist()):
            assert (same[k, :n] == apart.input_ids.reshape(-1)[apart.words[k, :n]]).all()


@given(st.lists(st.integers(1, 512), min_size=1, max_size=100), st.integers(32, 4096))
@example([129] * 130, 16_384)  # a row of 256 holds one of them
def test_fixed_padding_keeps_the_token_limit_except_for_padding_rows(sizes, max_tokens):
    spec = window_builder(max_tokens=512).spec
    groups = [of_one_window(size) for size in sizes]
    for bucket in bucket_groups(groups, max_cells=10**6, max_tokens=max_tokens, max_padding=1024, padding="fixed"):
        n_windows, n_tokens = collate(bucket, spec, padding="fixed").input_ids.shape
        assert len(bucket) == 1 or len(bucket) * n_tokens <= max_tokens
        assert n_windows - len(bucket) < 16
    for bucket in bucket_groups(groups, max_cells=10**6, max_tokens=max_tokens, padding="packed"):
        batch = collate(bucket, spec, padding="packed")
        n_rows, n_tokens = batch.input_ids.shape
        assert len(bucket) == 1 or (n_rows - 1) * n_tokens <= max_tokens


@given(st.lists(st.integers(0, 300), min_size=1, max_size=50), st.sampled_from([1, 2]))
def test_tables_of_like_length_are_grouped_and_none_is_lost(lengths, groups_per_doubling):
    everything = np.arange(len(lengths))
    groups = [(everything[group].tolist(), n) for group, n in bucket_tables(np.array(lengths), groups_per_doubling)]
    assert sorted(i for group, _ in groups for i in group) == [i for i, n in enumerate(lengths) if n]
    for group, n in groups:
        assert max(lengths[i] for i in group) == n
        assert n <= 32 // groups_per_doubling or min(lengths[i] for i in group) > n / 2 ** (1 / groups_per_doubling)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=50), st.integers(0, 10_000))
def test_groups_are_joined_where_that_costs_little_padding(lengths, max_padding):
    lengths = np.array(lengths)
    every, joined = (list(bucket_tables(lengths, 2, some)) for some in (0, max_padding))
    cells, with_padding = (sum(len(lengths[group]) * n**2 for group, n in groups) for groups in (every, joined))
    assert with_padding - cells <= max_padding * (len(every) - len(joined))
    assert sorted(i for group, _ in joined for i in np.arange(len(lengths))[group]) == np.flatnonzero(lengths).tolist()
    assert len(list(bucket_tables(lengths, 2, 10**6))) == lengths.any()
