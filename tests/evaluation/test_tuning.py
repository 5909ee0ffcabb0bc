"""α and relation odds are tuned on dev, from one pass of the encoder each."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.tiny_encoders import tiny_tokenizer
from unire.config import EncoderSpec, ModelConfig
from unire.decoding.decoders import DECODERS, SPAN_DECODERS, BoundaryDecoder, MaxSpanDecoder, SpanDecoder
from unire.documents import Document
from unire.evaluation.scorer import score
from unire.evaluation.tuning import RELATION_ODDS_GRID, sweep_alphas, tune_alpha, tune_config, tune_relation_odds
from unire.extractor import Extractor
from unire.inference.engine import Engine
from unire.labels import LabelSpace
from unire.tables import fill_sentence
from unire.training.config import TrainingConfig
from unire.training.train import init_model

LABELS = LabelSpace(("X",), ("r",))


class SoftGold(Engine):
    """An engine that knows the answer, and gives it the probability `p` in every cell."""

    max_cells = max_batch_tokens = 10**6
    padding = "exact"

    def __init__(self, documents, p):
        self.documents, self.p, self.passes = documents, p, 0

    def predict_tables(self, batch):
        self.passes += 1
        T, N = batch.words.shape
        P = np.zeros((T, N, N, len(LABELS)), dtype=np.float32)
        for k, place in enumerate(batch.table_spans):
            sentence = self.documents[place.document].sentences[place.sentence]
            gold = np.eye(len(LABELS))[fill_sentence(sentence, LABELS).labels]
            P[k, : len(sentence), : len(sentence)] = self.p * gold + (1 - self.p) * np.eye(len(LABELS))[0]
        return P


@pytest.fixture
def documents():
    return [Document.from_words([["a", "b", "c", "d"]], [(1, 2, "X"), (3, 4, "X")], id=str(i)) for i in range(3)]


def extractor(documents, p, decoder="split"):
    tokenizer = tiny_tokenizer("bert", ["a", "b", "c", "d"])
    spec = EncoderSpec.probe(tokenizer, max_pieces=64, token_types=True, pad_id=0, unk_id=1)
    return Extractor(SoftGold(documents, p), tokenizer, ModelConfig(spec, {}, decoder=decoder), LABELS)


def test_a_lone_entity_of_probability_p_is_found_for_alpha_below_sqrt_two_p(documents):
    """√2 · 0.8 ≈ 1.13: every smaller α finds all entities, every larger one none."""
    found = {
        a: s.entities.f1
        for a, s in zip(BoundaryDecoder.alpha_grid, sweep_alphas(extractor(documents, 0.8), documents), strict=True)
    }
    assert all(f1 == (1.0 if alpha < 0.8 * 2**0.5 else 0.0) for alpha, f1 in found.items())


def test_the_middle_of_the_best_is_taken(documents):
    assert tune_alpha(extractor(documents, 0.8), documents) == pytest.approx(0.75)


def test_a_sweep_costs_one_pass(documents):
    tuned = extractor(documents, 0.8)
    sweep_alphas(tuned, documents)
    assert tuned.engine.passes == 1


def test_a_table_is_decoded_again_only_where_it_is_cut_otherwise(documents, monkeypatch):
    decoded: list[tuple[float, int]] = []
    original = SpanDecoder.decode

    def decode(self, alpha, *options):
        decoded.append((alpha, len(self.P)))
        return original(self, alpha, *options)

    monkeypatch.setattr(SpanDecoder, "decode", decode)
    sweep_alphas(extractor(documents, 0.8), documents)
    assert decoded == [(0.4, 3), (1.15, 3)]  # √2 · 0.8 ≈ 1.13


class Unsure(SoftGold):
    """Tables of chance, the same for the same words, which are cut in all sorts of ways."""

    def predict_tables(self, batch):
        T, N = batch.words.shape
        P = np.empty((T, N, N, len(LABELS)))
        for k, place in enumerate(batch.table_spans):
            random = np.random.default_rng(place.document * 100 + place.start)
            sure = random.random(N) ** 0.5
            share = np.outer(sure, sure)[..., None] * (random.random((N, N, 1)) < 0.3)  # most cells are blank
            P[k] = share * random.dirichlet([0.2] * len(LABELS), (N, N)) + (1 - share) * np.eye(len(LABELS))[0]
            P[k][np.arange(N), np.arange(N), 1] += 1.0  # and the diagonal is not
        return P


@pytest.mark.parametrize("decoder", [name for name, decoder in DECODERS.items() if decoder.alpha_grid])
def test_a_sweep_gives_what_every_alpha_gives_alone(decoder):
    """Also for sentences that have several tables, and documents without any."""
    words = [list("abcd") * 3, list("dcba") * 8, list("ab")]
    documents = [
        Document.from_words(words, [(1, 3, "X"), (4, 5, "X"), (20, 22, "X")], [(0, 1, "r")], id=str(i))
        for i in range(4)
    ]
    documents.insert(2, Document.from_words([], id="empty"))
    unsure = extractor(documents, 0.0, decoder)
    unsure.engine = Unsure(documents, 0.0)
    unsure.config = unsure.config.with_(max_table=15)
    alphas = (1.4, *(round(0.1 * step, 1) for step in range(1, 25)), 0.7)
    swept = sweep_alphas(unsure, documents, alphas)
    found = set()
    for alpha, scores in zip(alphas, swept, strict=True):
        unsure.config = unsure.config.with_(alpha=alpha)
        alone = score(documents, unsure.annotate(documents), LABELS)
        assert scores.to_dict() == alone.to_dict(), alpha
        found.add(alone.relations.total.predicted)
    assert len(found) > {"split": 5}.get(decoder, 3)


def test_alpha_of_the_max_span_decoder_is_a_log_odds_threshold(documents):
    """An entity of probability 0.8 has ln 4 = 1.39 in its favour."""
    likely = extractor(documents, 0.8, "likely")
    found = {a: s.entities.f1 for a, s in zip(MaxSpanDecoder.alpha_grid, sweep_alphas(likely, documents), strict=True)}
    assert all(f1 == (1.0 if alpha < 1.38 else 0.0) for alpha, f1 in found.items())
    assert tune_alpha(likely, documents) == 0.75  # the middle of 0.25 to 1.25


def test_the_thresholds_of_a_new_decoder_are_tuned_too(documents, monkeypatch):
    class CoarseDecoder(BoundaryDecoder):
        alpha_grid = (0.5, 0.9, 5.0)

    class FixedDecoder(BoundaryDecoder):
        alpha_grid = ()

    for name, decoder in (("coarse", CoarseDecoder), ("fixed", FixedDecoder)):
        monkeypatch.setitem(DECODERS, name, decoder)
        monkeypatch.setitem(SPAN_DECODERS, name, decoder)
    assert tune_alpha(extractor(documents, 0.8, "coarse"), documents) == 0.9  # the middle of 0.5 and 0.9
    assert tune_alpha(extractor(documents, 0.8, "fixed"), documents) == 1.4


def test_alpha_stays_as_it_is_where_it_makes_no_difference(documents):
    assert tune_alpha(extractor(documents, 0.1), documents) == 1.4  # nothing is found at any α
    assert tune_alpha(extractor(documents, 0.8, decoder="hard"), documents) == 1.4


class Eager(SoftGold):
    """Sees relations both ways: the right way with some probability, the wrong one with less."""

    def __init__(self, documents, right, wrong):
        super().__init__(documents, 1.0)
        self.right, self.wrong = right, wrong

    def predict_tables(self, batch):
        P = super().predict_tables(batch)
        for head, tail, p in ((1, 3, self.right), (3, 1, self.wrong)):
            P[:, head, tail] = np.array([1 - p, 0, p])
        return P


@pytest.fixture
def related():
    entities = [(1, 2, "X"), (3, 4, "X")]
    return [Document.from_words([["a", "b", "c", "d"]], entities, [(0, 1, "r")], id=str(i)) for i in range(3)]


def eager(documents, right, wrong, **settings):
    made = extractor(documents, 1.0)
    made.engine, made.config = Eager(documents, right, wrong), made.config.with_(**settings)
    return made


@pytest.mark.parametrize(("odds", "found"), [(1.0, 2), (2.3, 2), (2.4, 1), (8.9, 1), (9.1, 0)])
def test_a_relation_is_found_that_is_so_many_times_as_probable_as_none(related, odds, found):
    one, *_ = eager(related, 0.9, 0.7, relation_odds=odds).annotate(related)
    assert len(one.relations) == found
    assert len(one.entities) == 2


def test_relation_odds_are_tuned_by_relations_alone_and_no_larger_than_they_must_be(related):
    assert tune_relation_odds(eager(related, 0.9, 0.7), related) == 2.5
    assert tune_relation_odds(eager(related, 0.9, 0.7, relation_odds=7.0), related) == 2.5  # its own do not matter
    assert tune_relation_odds(eager(related, 0.9, 0.1), related) == 1
    assert tune_relation_odds(eager(related, 0.6, 0.7), related) == 1  # odds do not separate right from wrong
    assert tune_relation_odds(eager(related, 0.9, 0.7, decoder="hard", relation_odds=3.0), related) == 3
    assert RELATION_ODDS_GRID[0] == 1


def test_few_annotations_move_the_thresholds_little(documents, related):
    likely = extractor(documents, 0.8, "likely")
    assert tune_alpha(likely, documents, prior_weight=1e-6) == 1.25  # of the best, the one nearest to 2
    assert tune_alpha(likely, documents, prior_weight=10.0) == 2.0
    odds = eager(related, 0.9, 0.7)
    assert tune_relation_odds(odds, related, prior_weight=1e-6) == 3  # and not 2.5, which is as good
    assert tune_relation_odds(eager(related, 0.74, 0.7), related, prior_weight=1e-6) == 2.5
    assert tune_relation_odds(eager(related, 0.74, 0.7), related, prior_weight=10.0) == 3
    tuned = tune_config(odds, related)  # 9 annotations
    assert (tuned.alpha, tuned.relation_odds) == (1.4, 3)
    many = related * 56
    assert tune_config(eager(many, 0.9, 0.7), many).relation_odds == 2.5  # 504 annotations


def test_relation_odds_stay_as_they_are_where_they_make_no_difference(related):
    uncut = eager(related, 0.9, 0.7, alpha=5.0, relation_odds=7.0)  # so that nothing is found
    assert tune_relation_odds(uncut, related) == 7
    assert tune_relation_odds(uncut, []) == 7


def test_relation_odds_are_tuned_from_one_pass_over_the_tables(related):
    once = eager(related, 0.9, 0.7)
    tune_relation_odds(once, related)
    assert once.engine.passes == 1


def test_a_sweep_over_alpha_keeps_to_the_relation_odds(related):
    strict = eager(related, 0.9, 0.7, relation_odds=2.5)
    (scores,) = sweep_alphas(strict, related, [0.9])
    assert scores.relations.f1 == 1
    (scores,) = sweep_alphas(eager(related, 0.9, 0.7), related, [0.9])
    assert scores.relations.precision == 0.5


@pytest.mark.parametrize(("decoder", "alpha"), [("split", 1.4), ("hard", 1.4), ("likely", 2.0)])
def test_a_training_begins_with_the_alpha_of_its_decoder_or_the_one_that_is_given(encoder, decoder, alpha):
    assert init_model(str(encoder), LABELS, TrainingConfig(decoder=decoder)).config.alpha == alpha
    assert init_model(str(encoder), LABELS, TrainingConfig(decoder=decoder, alpha=0.7)).config.alpha == 0.7
    assert init_model(str(encoder), LABELS, TrainingConfig.from_preset("best", decoder=decoder)).config.alpha == alpha
