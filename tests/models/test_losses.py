"""The losses against the paper's formulas, written out as loops over one sentence at a time."""

from __future__ import annotations

import pytest
import torch

from unire.labels import LabelSpace
from unire.models.losses import (
    LOSSES,
    TableWeights,
    compute_losses,
    entry_loss,
    implication_loss,
    soft_entry_loss,
    symmetry_loss,
)
from unire.models.unire import MLP, Biaffine

LABELS = LabelSpace(("A", "B"), ("r", "s"), frozenset({"s"}))
LENGTHS = [4, 1, 3]


@pytest.fixture
def tables():
    """Padded logits, gold and mask of three sentences; garbage on the padding."""
    generator = torch.Generator().manual_seed(0)
    T, N = len(LENGTHS), max(LENGTHS)
    logits = 3 * torch.randn(T, N, N, len(LABELS), generator=generator)
    gold = torch.randint(len(LABELS), (T, N, N), generator=generator)
    mask = torch.arange(N) < torch.tensor(LENGTHS).unsqueeze(1)
    gold[~(mask.unsqueeze(1) & mask.unsqueeze(2))] = -100
    return logits, gold, mask


def weights(mean: str) -> TableWeights:
    n = torch.tensor(LENGTHS)
    return TableWeights.of(n, mean, len(LENGTHS), int((n * n).sum()), int(n.sum()))


def sentences(logits):
    for k, n in enumerate(LENGTHS):
        yield k, n, logits[k, :n, :n].softmax(-1)


def test_l_entry_is_the_mean_over_a_sentence_then_over_sentences(tables):
    logits, gold, _ = tables
    expected = 0.0
    for k, n, P in sentences(logits):
        cells = [-P[i, j, gold[k, i, j]].log() for i in range(n) for j in range(n)]
        expected += sum(cells) / n**2 / len(LENGTHS)
    assert entry_loss(logits, gold, weights("sentence")) == pytest.approx(float(expected), rel=1e-5)


def test_l_entry_of_the_released_code_is_the_mean_over_all_cells(tables):
    logits, gold, _ = tables
    cells = [-P[i, j, gold[k, i, j]].log() for k, n, P in sentences(logits) for i in range(n) for j in range(n)]
    assert entry_loss(logits, gold, weights("batch")) == pytest.approx(float(sum(cells) / len(cells)), rel=1e-5)


@pytest.mark.parametrize("mean", ["sentence", "batch"])
def test_l_sym_compares_each_symmetric_label_with_its_mirror(tables, mean):
    logits, _, mask = tables
    total, n_cells = 0.0, sum(n * n for n in LENGTHS)
    for _, n, P in sentences(logits):
        apart = sum(
            float((P[i, j, t] - P[j, i, t]).abs()) for i in range(n) for j in range(n) for t in LABELS.symmetric_ids
        )
        total += apart / (n**2 * len(LENGTHS)) if mean == "sentence" else apart / n_cells
    assert symmetry_loss(logits.softmax(-1), mask, LABELS, weights(mean)) == pytest.approx(total, rel=1e-5)


def test_l_imp_is_the_hinge_of_the_strongest_relation_over_the_strongest_entity(tables):
    logits, _, mask = tables
    total = 0.0
    for _, n, P in sentences(logits):
        for i in range(n):
            relation = max(float(max(P[i, j, r], P[j, i, r])) for j in range(n) for r in (3, 4))
            entity = max(float(P[i, i, t]) for t in (1, 2))
            total += max(0.0, relation - entity) / (n * len(LENGTHS))
    assert implication_loss(logits.softmax(-1), mask, LABELS, weights("sentence")) == pytest.approx(total, rel=1e-5)


def test_l_imp_of_the_released_code_sums_the_hinges_of_row_and_column(tables):
    logits, _, mask = tables
    total = 0.0
    for _, n, P in sentences(logits):
        for i in range(n):
            entity = float(P[i, i, 1:3].max())
            row = sum(max(0.0, float(P[i, j, 3:].max()) - entity) for j in range(n))
            column = sum(max(0.0, float(P[j, i, 3:].max()) - entity) for j in range(n))
            total += (row + column) / sum(LENGTHS)
    computed = implication_loss(logits.softmax(-1), mask, LABELS, weights("batch"), "sum")
    assert computed == pytest.approx(total, rel=1e-5)


def test_l_imp_vanishes_when_switched_off_or_without_relation_types(tables):
    logits, _, mask = tables
    assert implication_loss(logits.softmax(-1), mask, LABELS, weights("sentence"), "none") == 0
    only_entities = LabelSpace(("A", "B", "C", "D"))
    assert implication_loss(logits.softmax(-1), mask, only_entities, weights("sentence")) == 0


@pytest.mark.parametrize("mean", ["sentence", "batch"])
def test_losses_of_parts_add_up_to_the_loss_of_the_whole(tables, mean):
    logits, gold, mask = tables
    n = torch.tensor(LENGTHS)
    totals = (len(LENGTHS), int((n * n).sum()), int(n.sum()))

    def losses(rows):
        w = TableWeights.of(n[rows], mean, *totals)
        P = logits[rows].softmax(-1)
        return torch.stack(
            [
                entry_loss(logits[rows], gold[rows], w),
                symmetry_loss(P, mask[rows], LABELS, w),
                implication_loss(P, mask[rows], LABELS, w),
            ]
        )

    whole = losses(slice(None))
    assert torch.allclose(losses(slice(0, 1)) + losses(slice(1, 3)), whole, rtol=1e-5)


def test_padding_has_no_part_in_any_gradient(tables):
    logits, gold, mask = tables
    logits.requires_grad_()
    P = logits.softmax(-1)
    w = weights("sentence")
    (entry_loss(logits, gold, w) + symmetry_loss(P, mask, LABELS, w) + implication_loss(P, mask, LABELS, w)).backward()
    padding = ~(mask.unsqueeze(1) & mask.unsqueeze(2))
    assert logits.grad is not None
    assert logits.grad[padding].abs().max() == 0
    assert logits.grad[~padding].abs().max() > 0


def test_biaffine_is_the_papers_formula():
    torch.manual_seed(0)
    d, n_labels = 5, 4
    biaffine = Biaffine(d, n_labels)
    torch.nn.init.normal_(biaffine.U)
    head, tail = torch.randn(2, 3, d), torch.randn(2, 3, d)
    U1, b = biaffine.U[:, :d, :d], biaffine.U[:, d, d]
    U2 = torch.cat([biaffine.U[:, :d, d], biaffine.U[:, d, :d]], dim=1)
    scores = biaffine(head, tail)
    for t in range(2):
        for i in range(3):
            for j in range(3):
                h1, h2 = head[t, i], tail[t, j]
                expected = torch.stack([h1 @ U1[y] @ h2 for y in range(n_labels)]) + U2 @ torch.cat([h1, h2]) + b
                assert torch.allclose(scores[t, i, j], expected, atol=1e-5)


def test_an_untrained_biaffine_finds_every_label_equally_likely():
    assert Biaffine(3, 4)(torch.randn(1, 2, 3), torch.randn(1, 2, 3)).abs().max() == 0


def test_the_mlp_is_linear_gelu_layernorm():
    mlp = MLP(6, 4, dropout=0.4).eval()
    hidden = mlp(torch.randn(5, 6))
    assert hidden.shape == (5, 4)
    assert torch.allclose(hidden.mean(-1), torch.zeros(5), atol=1e-5)
    assert float(mlp.linear.weight.detach().std()) < 0.05


@pytest.mark.parametrize("mean", ["sentence", "batch"])
def test_against_certain_tables_the_soft_loss_is_l_entry(tables, mean):
    logits, gold, mask = tables
    certain = torch.nn.functional.one_hot(gold.clamp(min=0), len(LABELS)).float()
    expected = entry_loss(logits, gold, weights(mean))
    assert soft_entry_loss(logits, certain, mask, weights(mean)) == pytest.approx(expected.item())


def test_the_soft_loss_is_least_where_the_student_has_its_teachers_distribution(tables):
    logits, _, mask = tables
    target = logits.softmax(-1)
    student = logits.clone().requires_grad_()
    soft_entry_loss(student, target, mask, weights("sentence")).backward()
    assert student.grad.abs().max() < 1e-6
    soft_entry_loss(student + torch.randn_like(student), target, mask, weights("sentence")).backward()
    assert student.grad.abs().max() > 1e-3


def test_every_loss_that_is_computed_has_a_name(tables):
    logits, gold, mask = tables
    losses = compute_losses(logits, gold, mask, weights("sentence"), LABELS)
    named = dict(zip(LOSSES, losses, strict=True))
    assert named["entry"] == entry_loss(logits, gold, weights("sentence"))
    assert named["symmetry"] == symmetry_loss(logits.softmax(-1), mask, LABELS, weights("sentence"))
    assert named["implication"] == implication_loss(logits.softmax(-1), mask, LABELS, weights("sentence"))
