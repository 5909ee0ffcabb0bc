"""Export: every family of encoders, one file of weights, two engines that agree."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from helpers.tiny_encoders import FAMILIES, tiny_encoder
from unire import TrainingConfig
from unire.config import ModelConfig
from unire.errors import UnireError
from unire.export.export import PARITY_SENTENCES, ExportReport, export_onnx
from unire.export.onnx_graph import OPSET_VERSION, Int8Linear
from unire.hub.model_dir import COREFERENCE, FILES, fingerprint
from unire.inference.onnx_engine import start_session
from unire.models.checkpoint import Int8Tensor, dequantize
from unire.models.unire import UniRE
from unire.training.train import init_model


def exported_family(family: str, twenty, labels, folder: Path, precision: str) -> ExportReport:
    words = {word for document in twenty for word in document.words}
    encoder = tiny_encoder(family, folder / "encoder", words)
    model = init_model(str(encoder), labels, TrainingConfig(layout="shared", alpha=0.5))
    torch.manual_seed(0)
    torch.nn.init.normal_(model.biaffine.U, std=0.1)
    model.save_pretrained(folder / "model")
    return export_onnx(folder / "model", folder / "out", precision=precision, test=twenty)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("family", FAMILIES)
def test_in_eight_bits_every_family_computes_nearly_the_same(family, exported, twenty, scierc_labels, tmp_path):
    if family != "bert":
        exported = exported_family(family, twenty, scierc_labels, tmp_path, "int8").folder
    settings = ModelConfig.load(exported)
    assert settings.encoder["model_type"] == family
    for agreement in (settings.provenance["export"][which] for which in ("engines", "model")):
        assert agreement["sentences"] == 20
        assert agreement["mean_difference"] < 0.02  # of wrong tables 0.1, for there are 14 labels
        assert agreement["findings"] > 0.75
    # one that two products share cannot be used on every CPU, whether this is such a one or not
    graph = onnx.load(exported / "model.onnx", load_external_data=False).graph
    weights = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    uses = Counter(name for node in graph.node for name in node.input if name in weights)
    assert set(uses.values()) == {1}
    assert (len(weights) > len({str(tensor.external_data) for tensor in weights.values()})) == (family == "albert")


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("family", ["mpnet", "modernbert"])
def test_in_full_precision_the_graph_computes_the_same(family, twenty, scierc_labels, tmp_path):
    found = exported_family(family, twenty, scierc_labels, tmp_path, "fp32")
    assert found.engines == found.model
    assert found.model.difference < 1e-3
    assert found.model.prediction_f1 > 0.99  # with random weights some labels are all but equally probable
    model, out = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "out"))
    assert all(torch.equal(model[name], out[name]) for name in model.keys() | out.keys())


def test_the_folder_holds_a_model_a_graph_and_no_weight_twice(unexported, exported):
    assert {file.name for file in exported.iterdir()} == {*FILES} - {COREFERENCE}
    assert (exported / "model.safetensors").stat().st_size < 0.35 * (unexported / "model.safetensors").stat().st_size
    drawn = onnx.load(exported / "model.onnx", load_external_data=False)
    stored = load_file(exported / "model.safetensors")
    outside = {tensor.name for tensor in drawn.graph.initializer if tensor.external_data}
    assert outside <= set(stored)  # of tensors that are equal, as norms are before training, one is enough
    assert {name for name in stored if "_int8" in name} <= outside
    assert sum(len(tensor.raw_data) for tensor in drawn.graph.initializer) < 10_000
    assert str(Path.home()).encode() not in (exported / "model.onnx").read_bytes()


def test_the_graph_takes_a_batch_of_any_shape(exported):
    inputs = onnx.load(exported / "model.onnx", load_external_data=False).graph.input
    assert {given.name for given in inputs} == {"input_ids", "attention_mask", "token_type_ids", "words"}
    for given_input in inputs:
        assert [bool(axis.dim_param) for axis in given_input.type.tensor_type.shape.dim] == [True, True]


def test_torch_reads_the_same_file(unexported, exported):
    before, after = (UniRE.from_pretrained(folder).state_dict() for folder in (unexported, exported))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.allclose(tensor, after[name], atol=float(tensor.abs().max()) / 200), name


@pytest.mark.slow
@pytest.mark.no_cover
def test_an_exported_model_can_be_exported_again_into_a_folder_in_which_there_is_nothing(exported, tmp_path):
    again = export_onnx(exported, tmp_path)
    assert again.folder == tmp_path
    assert again.engines == again.model
    assert again.model.sentences == len(PARITY_SENTENCES)
    first, second = (load_file(folder / "model.safetensors") for folder in (exported, tmp_path))
    assert all(torch.equal(first[name], second[name]) for name in first if not name.endswith("_scale"))


def test_the_card_and_the_settings_say_what_was_exported(exported):
    card = (exported / "README.md").read_text(encoding="utf-8")
    for line in ("license: mit", "base_model: someone/tiny-bert", "make it", "| weights | int8 |", "## Limits"):
        assert line in card
    assert "| test, exported | strict, doubled, micro |" in card
    made = json.loads((exported / "config.json").read_text(encoding="utf-8"))["provenance"]
    assert made["export"]["precision"] == "int8"
    assert 0.75 < made["export"]["model"]["findings"] <= 1
    assert made["scores"]["test, exported"]["entities"]["f1"] >= 0


def test_an_encoder_that_cannot_be_drawn_gets_one_sentence(unexported, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise torch.onnx.OnnxExporterError("no\nway")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(UnireError, match="encoders bert cannot be exported: no") as caught:
        export_onnx(unexported, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_export_never_replaces_a_folder(unexported, exported, monkeypatch):
    monkeypatch.setattr("unire.models.checkpoint.load_checkpoint", None)  # nothing is computed before it is refused
    before = {folder: fingerprint(folder) for folder in (unexported, exported)}
    for source in before:
        for there in before:
            with pytest.raises(UnireError, match=f"'{there}' already exists and holds .*; pass a new folder"):
                export_onnx(source, there)
    assert {folder: fingerprint(folder) for folder in before} == before


def test_a_new_training_starts_from_the_encoder_of_an_exported_model(exported, twenty, scierc_labels):
    model = init_model(str(exported), scierc_labels, TrainingConfig(d=10))
    trained = UniRE.from_pretrained(exported)
    for name, tensor in trained.encoder.state_dict().items():
        assert torch.equal(model.encoder.state_dict()[name], tensor), name
    assert model.config.head.d == 10
    assert model.config.spec == trained.config.spec
    made = model.config.provenance
    assert (made["encoder"], made["base"], made["licence"]) == ("exported", "someone/tiny-bert", "mit")


@given(st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), min_size=1, max_size=4))
def test_eight_bits_keep_every_vector_within_half_a_step(rows):
    tensor = torch.tensor(rows)
    packed = Int8Tensor.quantize(tensor)
    steps = tensor.abs().amax(-1, keepdim=True) / 127
    assert ((packed.dequantize() - tensor).abs() <= 0.501 * steps + 1e-12).all()
    again = Int8Tensor.quantize(packed.dequantize())
    assert torch.equal(again.values, packed.values)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of PyTorch by PyTorch
def test_vectors_are_rounded_each_by_itself_and_one_of_zeros_stays_so():
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 32).requires_grad_(False)
    x = torch.randn(2, 3, 64) * torch.tensor([[1e-4, 1.0, 1e4], [1.0, 0.0, 1e-30]]).unsqueeze(-1)
    layer = Int8Linear(linear).eval()
    drawn = torch.onnx.export(layer, (x,), dynamo=True, opset_version=OPSET_VERSION, verbose=False).model_proto
    session = start_session(drawn.SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    products, expected = torch.from_numpy(found) - linear.bias, x @ linear.weight.T
    assert torch.equal(torch.from_numpy(found)[1, 1], linear.bias)
    small = 0.03 * expected.norm(dim=-1) + 1e-6  # which is what of a small product the bias leaves
    assert ((products - expected).norm(dim=-1) <= small).all()


def test_names_that_only_look_like_eight_bits_are_left_alone():
    stored = {"a_int8": torch.ones(2, 2), "b_scale": torch.ones(2)}
    assert {name: tensor.tolist() for name, tensor in dequantize({"a_int8": stored["a_int8"]}).items()} == {
        "a_int8": [[1, 1], [1, 1]]
    }


def test_scales_of_another_shape_are_refused(exported, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in exported.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    tensors = load_file(copy / "model.safetensors")
    tensors["biaffine.U_scale"] = torch.ones(3)
    save_file(tensors, copy / "model.safetensors")
    with pytest.raises(UnireError, match=r"'biaffine\.U' are not of its shape"):
        UniRE.from_pretrained(copy)
