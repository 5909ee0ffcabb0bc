"""Training coreference on top of a model: what it learns, and that nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from unire import TrainingConfig, train
from unire.decoding.coreference import CoreferenceScorer
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.coreference import score_coreference
from unire.evaluation.evaluate import evaluate
from unire.export.export import export_onnx
from unire.extractor import Extractor
from unire.hub.model_dir import COREFERENCE, WEIGHTS, ModelDir
from unire.models.coreference import CoreferenceBatch, CoreferenceModel
from unire.models.unire import UniRE
from unire.training import coreference
from unire.training.coreference import add_coreference, build_examples, fit_scorer


@pytest.fixture(scope="module")
def doubled(twenty) -> list[Document]:
    """Documents that are repeated, so that every entity is mentioned twice."""
    documents = []
    for document in twenty:
        words, n = [sentence.words for sentence in document.sentences], document.n_words
        spans = sorted({entity.span: entity.label for entity in document.entities}.items())
        entities = [(a + shift, b + shift, label) for shift in (0, n) for (a, b), label in spans]
        clusters = [[(a, b), (a + n, b + n)] for (a, b), _ in spans]
        documents.append(Document.from_words(words + words, entities, clusters=clusters, id=document.id))
    return documents


@pytest.fixture(scope="module")
def more_epochs():
    """Few documents need more epochs."""
    patch = pytest.MonkeyPatch()
    patch.setattr(coreference, "EPOCHS", 40)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def resolved(random_model, doubled, more_epochs, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("models") / "resolved"
    facts = add_coreference(random_model, doubled, out=out, dev=doubled, data=["doubled.jsonl"])
    assert facts["links"] == sum(len(document.clusters) for document in doubled)
    assert ModelDir.open(out).config.provenance["coreference"] == facts
    return out


def test_numpy_and_torch_compute_the_same_scores(random_model, doubled):
    extractor = Extractor.load(random_model, device="cpu")
    examples = build_examples(extractor, doubled[:3])
    torch.manual_seed(0)
    model = CoreferenceModel(extractor.engine.n_hidden, 6, members=3, d=7, hidden=5).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    with torch.no_grad():
        expected = model(CoreferenceBatch.collate(examples)).mean(0).numpy()
    scorer = CoreferenceScorer(model.to_arrays())
    for example, table in zip(examples, expected, strict=True):
        n = len(example.mentions)
        projected = scorer.project(example.vectors, example.mentions.types)
        found = scorer.score(example.mentions, projected, slice(0, n), slice(0, n))
        assert found == pytest.approx(table[:n, :n], abs=1e-4)


def test_the_loss_is_that_of_all_correct_antecedents(random_model, doubled):
    """Against a loop over mentions, for one document."""
    extractor = Extractor.load(random_model, device="cpu")
    (example,) = build_examples(extractor, doubled[:1])
    model = CoreferenceModel(extractor.engine.n_hidden, 6, members=1).eval()
    with torch.no_grad():
        scores = model(CoreferenceBatch.collate([example]))[0, 0].numpy()
        loss = model.loss(CoreferenceBatch.collate([example])).item()
    losses = []
    for i in range(len(example.mentions)):
        gold = [np.exp(scores[i, j]) for j in range(i) if example.same[i, j]] or [1.0]
        losses.append(np.log(1 + np.exp(scores[i, :i]).sum()) - np.log(sum(gold)))
    assert loss == pytest.approx(np.mean(losses), abs=1e-5)


@pytest.mark.slow
def test_it_learns_that_equal_texts_corefer(random_model, doubled, more_epochs):
    extractor = Extractor.load(random_model, device="cpu")
    examples = build_examples(extractor, doubled)
    scorer = fit_scorer(examples, 6)
    right = total = 0
    for document, example in zip(doubled, examples, strict=True):
        spans = [tuple(span) for span in example.mentions.spans.tolist()]
        projected = scorer.project(example.vectors, example.mentions.types)
        found = scorer.find_clusters(document, spans, example.mentions.types.tolist(), projected)
        right += len(set(found) & set(document.clusters))
        total += len(document.clusters)
    assert right > 0.8 * total
    again = fit_scorer(examples, 6)
    assert all(np.array_equal(scorer.weights[name], weight) for name, weight in again.weights.items())


def test_entities_and_relations_stay_as_they_are(random_model, resolved, doubled):
    before = list(Extractor.load(random_model, device="cpu").annotate(doubled))
    after = list(Extractor.load(resolved, device="cpu").annotate(doubled))
    assert [d.sentences for d in after] == [d.sentences for d in before]
    assert (resolved / WEIGHTS).read_bytes() == (random_model / WEIGHTS).read_bytes()
    assert not any(document.clusters for document in before)
    assert any(document.clusters for document in after)
    for document in after:
        assert {span for cluster in document.clusters for span in cluster} <= {e.span for e in document.entities}


def test_a_document_has_the_same_clusters_alone_and_in_a_stream(resolved, doubled):
    extractor = Extractor.load(resolved, device="cpu")
    together = [document.clusters for document in extractor.annotate(doubled, batch_size=2)]
    alone = [next(extractor.annotate([document])).clusters for document in doubled[:5]]
    assert alone == together[:5]


def test_clusters_cross_windows(resolved, doubled):
    """The document is longer than a window of the encoder; its first and last sentences are the same."""
    extractor = Extractor.load(resolved, device="cpu")
    long = Document.from_words([s.words for document in doubled for s in document.sentences])
    assert long.n_words > extractor.config.spec.max_pieces
    (found,) = extractor.annotate([long])
    assert max(cluster[-1][0] - cluster[0][0] for cluster in found.clusters) > 100


@pytest.mark.slow
def test_a_saved_and_an_exported_model_keep_it(resolved, doubled, tmp_path):
    expected = [document.clusters for document in Extractor.load(resolved, device="cpu").annotate(doubled)]
    UniRE.from_pretrained(resolved).save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / COREFERENCE).read_bytes() == (resolved / COREFERENCE).read_bytes()
    Extractor.load(resolved, device="cpu").save(tmp_path / "copied")
    export_onnx(resolved, tmp_path / "exported", precision="fp32", test=doubled[:2])
    for name, engine in (("saved", "torch"), ("copied", "torch"), ("exported", "torch"), ("exported", "onnx")):
        extractor = Extractor.load(tmp_path / name, engine=engine, device="cpu")
        found = [document.clusters for document in extractor.annotate(doubled)]
        same = sum(one == other for one, other in zip(found, expected, strict=True))
        assert same >= len(expected) - (engine == "onnx"), (name, engine)
    report = evaluate(UniRE.from_pretrained(tmp_path / "saved"), doubled)
    gold = score_coreference(doubled, Extractor.load(resolved, device="cpu").annotate(doubled))
    assert report.coreference.f1 == pytest.approx(gold.f1)


def test_training_on_data_with_clusters_adds_it(encoder, doubled, twenty, tmp_path, monkeypatch):
    monkeypatch.setattr(coreference, "EPOCHS", 1)
    config = TrainingConfig(epochs=1, max_table=64)
    train(encoder, doubled[:4], dev=doubled[4:6], out=tmp_path / "with", config=config)
    facts = ModelDir.open(tmp_path / "with").config.provenance["coreference"]
    assert (facts["documents"], list(facts["scores"])) == (4, ["dev"])
    assert Extractor.load(tmp_path / "with", device="cpu").coreference is not None
    train(encoder, [d.annotated(d.entities) for d in twenty[:4]], out=tmp_path / "without", config=config)
    assert not (tmp_path / "without" / COREFERENCE).exists()


def test_what_cannot_be_added_is_refused(random_model, doubled, twenty, tmp_path, exported):
    bare = [document.annotated(document.entities) for document in doubled]
    with pytest.raises(UnireError, match="there is no coreference to learn"):
        add_coreference(random_model, bare, out=tmp_path / "out")
    with pytest.raises(UnireError, match="out"):
        add_coreference(random_model, doubled, out=random_model)
    old = Path(shutil.copytree(exported, tmp_path / "old"))
    import onnx

    graph = onnx.load(old / "model.onnx", load_external_data=False)
    del graph.graph.output[1]
    (old / "model.onnx").write_bytes(graph.SerializeToString())
    assert list(Extractor.load(old, engine="onnx").annotate(twenty[:2]))
    with pytest.raises(UnireError, match="returns no vectors; export the model again"):
        add_coreference(old, doubled, out=tmp_path / "new")
