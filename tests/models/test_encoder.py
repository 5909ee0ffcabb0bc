"""Every family of encoder: loaded, probed, run, saved and loaded again."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
import transformers

from helpers.tiny_encoders import FAMILIES, tiny_encoder
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.hub.client import download
from unire.inference.torch_engine import TorchEngine
from unire.labels import LabelSpace
from unire.models import encoder as encoders
from unire.models.batch import TensorBatch
from unire.models.encoder import POSITION_ID_MODELS, build_encoder, digest_weights, load_encoder, supports_position_ids
from unire.models.unire import UniRE, encode_tokens
from unire.training.config import TrainingConfig
from unire.training.train import init_model
from unire.windows import collator
from unire.windows.collator import collate

WORDS = ["alpha", "beta", "gamma", "unhappiness", "delta"]


@pytest.mark.no_cover
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layout", ["in-place", "released", "shared"])
def test_every_family_fills_tables_in_every_layout(family, layout, tmp_path):
    folder = tiny_encoder(family, tmp_path / family, WORDS, max_positions=40)
    labels = LabelSpace(("X",), ("r",))
    model = init_model(str(folder), labels, TrainingConfig(layout=layout, window=6), []).eval()
    torch.nn.init.normal_(model.biaffine.U)
    document = Document.from_words([WORDS, WORDS[:1], 30 * WORDS])  # the last is longer than the encoder
    extractor = Extractor(TorchEngine(model), model.tokenizer, model.config, labels)
    expected = list(extractor.annotate([document]))
    assert expected[0].words == document.words

    model.save_pretrained(tmp_path / "model")
    reloaded = Extractor.load(tmp_path / "model", device="cpu")
    assert list(reloaded.annotate([document])) == expected


def test_each_word_is_read_from_its_own_tokens(tmp_path):
    """With the encoder replaced by its embedding table, the vector of a word is the embedding of its first token."""
    folder = tiny_encoder("bert", tmp_path / "bert", WORDS)
    model = init_model(str(folder), LabelSpace(("X",)), TrainingConfig(layout="shared"), []).eval()
    document = Document.from_words([WORDS, WORDS[::-1]])
    window_builder = Extractor(TorchEngine(model), model.tokenizer, model.config, model.labels).window_builder
    batch = TensorBatch.from_batch(collate(window_builder.build([document]), model.config.spec), "cpu")
    table = model.encoder.embeddings.word_embeddings

    class Lookup(torch.nn.Module):
        def forward(self, input_ids, **others):
            return type("Output", (), {"last_hidden_state": table(input_ids)})

    model.encoder = Lookup()
    h = model.encode(batch)
    first = [model.tokenizer.encode(word, add_special_tokens=False).ids[0] for word in WORDS]
    assert torch.equal(h[0], table(torch.tensor(first)))
    assert torch.equal(h[1], table(torch.tensor(first[::-1])))


def test_the_table_of_a_sentence_does_not_depend_on_its_batch(encoder, twenty, scierc_labels):
    model = init_model(str(encoder), scierc_labels, TrainingConfig(), []).eval()
    torch.nn.init.normal_(model.biaffine.U, std=0.02)
    extractor = Extractor(TorchEngine(model), model.tokenizer, model.config, scierc_labels)
    together = {t: P[k] for b, P in extractor.predict_tables(twenty) for k, t in enumerate(b.table_spans)}
    for index, document in enumerate(twenty):
        for batch, P in extractor.predict_tables([document]):
            for k, table in enumerate(batch.table_spans):
                n = table.end - table.start
                other = next(p for t, p in together.items() if (t.document, t.start) == (index, table.start))
                assert torch.allclose(P[k, :n, :n], other[:n, :n], atol=1e-5)


@pytest.mark.parametrize(("gigabytes", "n_hidden", "tokens"), [(8, 384, 65_536), (8, 4096, 12_288), (141, 768, 2**20)])
def test_a_batch_is_as_large_as_the_memory_of_a_gpu_allows(gigabytes, n_hidden, tokens, monkeypatch):
    memory = SimpleNamespace(total_memory=gigabytes * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: memory)
    assert TorchEngine.default_batch_tokens(torch.device("cuda"), n_hidden) == tokens


@pytest.mark.parametrize("max_slice", [64, 24, 1])
def test_windows_that_are_read_slice_by_slice_fill_the_same_tables(
    encoder, twenty, scierc_labels, max_slice, monkeypatch
):
    model = init_model(str(encoder), scierc_labels, TrainingConfig(window=0), []).eval()
    torch.nn.init.normal_(model.biaffine.U, std=0.02)
    engine = TorchEngine(model, max_batch_tokens=2**14)
    extractor = Extractor(engine, model.tokenizer, model.config, scierc_labels)
    expected = {t: P[k] for b, P in extractor.predict_tables(twenty) for k, t in enumerate(b.table_spans)}
    monkeypatch.setattr(collator, "MAX_SLICE_TOKENS", 64)
    monkeypatch.setattr(collator, "MIN_BUSY_WINDOWS", 4)
    engine.padding, engine.max_slice_tokens = "bucketed", max_slice
    ((batch, tables),) = extractor.predict_tables(twenty)
    assert len(batch.slices) > 2
    assert all((some.stop - some.start) * n <= max(n, max_slice) for some, n in engine.iter_slices(batch))
    assert len({n for _, n in batch.slices}) > 1
    assert sorted(map(hash, batch.table_spans)) == sorted(map(hash, expected))
    for table, P in zip(batch.table_spans, tables, strict=True):
        n = len(table)
        assert torch.allclose(P[:n, :n], expected[table][:n, :n], atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("padding", ["bucketed", "fixed"])
def test_no_window_is_padded_beyond_what_the_encoder_reads(family, padding, tmp_path):
    folder = tiny_encoder(family, tmp_path / family, WORDS, max_positions=100)
    model = init_model(str(folder), LabelSpace(("X",)), TrainingConfig(layout="shared"), []).eval()
    engine = TorchEngine(model)
    engine.padding = padding
    document = Document.from_words([WORDS * 4] * 9)  # more than one window
    extractor = Extractor(engine, model.tokenizer, model.config, model.labels)
    assert next(extractor.annotate([document])).words == document.words


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_that_are_kept_in_half_precision_fill_the_same_tables(family, twenty, scierc_labels, tmp_path):
    words = {word for document in twenty for word in document.words}
    encoder = tiny_encoder(family, tmp_path / family, words)
    model = init_model(str(encoder), scierc_labels, TrainingConfig(), []).eval()
    torch.nn.init.normal_(model.biaffine.U, std=0.1)
    (batch, *_), (expected, *_) = zip(
        *Extractor(TorchEngine(model, bf16=True), model.tokenizer, model.config, scierc_labels).predict_tables(twenty),
        strict=True,
    )
    frozen = TorchEngine.for_inference(model, bf16=True)
    assert model.head_mlp.linear.weight.dtype == torch.bfloat16
    assert torch.equal(frozen.predict_tables(batch), expected)


def test_a_missing_encoder_gets_one_sentence(tmp_path):
    with pytest.raises(UnireError, match="cannot be loaded") as caught:
        load_encoder(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_retry_messages_of_the_hub_client_are_not_printed(monkeypatch):
    client = logging.getLogger("huggingface_hub.utils._http")
    printed = []

    def unreachable(*_, **__):
        printed.append(client.isEnabledFor(logging.WARNING))
        raise OSError("no network")

    monkeypatch.setattr(encoders, "is_reachable", lambda name, file: True)
    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", unreachable)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(UnireError, match="no network"):
        load_encoder("nosuch")
    with pytest.raises(UnireError, match="no network"):
        download("no/such", ["config.json"])
    assert printed == [False, False]
    assert client.isEnabledFor(logging.WARNING)


def test_a_model_has_no_parameter_that_nothing_reads(encoder, scierc_labels):
    model: UniRE = init_model(str(encoder), scierc_labels, TrainingConfig(), [])
    assert not [name for name, _ in model.named_parameters() if "pooler" in name]


def test_a_model_remembers_which_weights_its_encoder_had(encoder, scierc_labels):
    model = init_model(str(encoder), scierc_labels, TrainingConfig(), [])
    again, _, _ = load_encoder(encoder)
    assert model.config.provenance["encoder_weights"] == digest_weights(again)
    with torch.no_grad():
        next(again.parameters())[0, 0] += 1e-3
    assert model.config.provenance["encoder_weights"] != digest_weights(again)


@pytest.mark.parametrize("kind", [*POSITION_ID_MODELS, "mpnet"])
def test_with_position_ids_packed_windows_encode_like_single_ones(kind):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if kind == "distilbert":
        sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    torch.manual_seed(0)
    encoder = build_encoder({"model_type": kind, "vocab_size": 50, "max_position_embeddings": 40, **sizes}).eval()
    assert supports_position_ids(encoder)
    windows = [torch.randint(5, 50, (1, n)) for n in (9, 4, 7)]
    ids = torch.cat([*windows, torch.ones(1, 4, dtype=torch.long)], 1)  # the last are padding
    starts = torch.tensor([[0] * 9 + [9] * 4 + [13] * 7 + [20] * 4])
    words = torch.zeros(1, 1, dtype=torch.long)

    def read(ids, starts=None):
        batch = TensorBatch(ids, torch.ones_like(ids), None, words, words[0], starts)
        return encode_tokens(encoder, batch)

    with torch.no_grad():
        apart, packed = torch.cat([read(window) for window in windows]), read(ids, starts)
        assert torch.allclose(packed[:20], apart, atol=1e-5)
        assert not torch.allclose(read(ids)[:20], apart, atol=1e-2)  # without position ids, tokens see the whole row
