"""Sentences per second, parameters and scores, by window, decoder, engine, precision and batch size.

Each case changes one setting of the trained model. The model is not trained again: with W = 100, a model that was
trained with W = 200 reads windows of 100 words.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from unire import formats
from unire.config import Layout, ModelConfig
from unire.decoding.decoders import DECODERS
from unire.documents import Document
from unire.evaluation.scorer import score
from unire.extractor import Extractor, use_decoder
from unire.hub.model_dir import ModelDir
from unire.inference.engine import Engine
from unire.studies import charts as draw
from unire.studies.profiling import DEFAULT_ROUNDS, describe_repeats, measure, measure_best_stages
from unire.studies.results import (
    Json,
    ResultTable,
    check_labels,
    check_result_folder,
    count_sentences,
    describe_inputs,
    format_millions,
    format_percent,
    save_result,
)
from unire.utils import cpu_count

if TYPE_CHECKING:
    import torch

    from unire.models.unire import UniRE

__all__ = [
    "PAPER",
    "SpeedCase",
    "charts",
    "collect_rows",
    "describe_machine",
    "measure_speed",
    "paper_table",
    "study_speed",
    "tables",
]

WINDOWS = (100, 200, 300)
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
BATCH_TOKENS = (2_048, 16_384, 65_536)

PAPER = (
    ("Zhong & Chen", "219M", "100", "36.7", "19.9"),
    ("Zhong & Chen, approximate", "219M", "100", "–", "194.7"),
    ("UniRE", "110M", "100", "34.0", "314.8"),
    ("UniRE", "110M", "200", "36.9", "200.1"),
    ("UniRE, hard decoding", "110M", "200", "17.8", "113.0"),
)
"""The rows of Table 5 for SciERC: name, parameters, W, Rel F1, sentences per second."""


@dataclass(frozen=True)
class SpeedCase:
    """Settings with which a model is run."""

    engine: str
    precision: str
    layout: Layout
    window: int
    decoder: str
    pieces: int
    """Maximum of padded tokens per batch. Results have it by this name."""

    def describe(self, own: SpeedCase) -> str:
        """The differences from the trained settings."""
        parts = []
        if (self.engine, self.precision) != (own.engine, own.precision):
            parts.append(f"{self.engine}, {self.precision}")
        if self.layout != own.layout:
            parts.append(self.layout)
        if self.window != own.window or (self.layout != own.layout and self.layout != "shared"):
            parts.append(f"W = {self.window}")
        if self.decoder != own.decoder:
            parts.append(f"{self.decoder} decoding")
        if self.pieces != own.pieces:
            parts.append(f"batches of {self.pieces:,} pieces")
        return ", ".join(parts) or "as trained"


def study_speed(
    models: Sequence[str],
    data: Sequence[Path],
    *,
    format: str | None = None,
    device: str | None = None,
    rounds: int = DEFAULT_ROUNDS,
    out: Path | None = None,
    notes: Counter[str] | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Json:
    """Measure the speed of models on annotated files.

    Args:
        models: The models. Exported models also run with onnxruntime.
        data: Annotated files, on which the models are scored too.
        format: Format of the data. By default it is detected.
        device: `cpu` or `cuda`, for torch. By default a GPU if there is one.
        rounds: The best of this many rounds counts.
        out: Folder of studies in which the numbers are saved.
        notes: Counts what the readers of the data changed or skipped.
        log: Called with a line for every case.
    """
    check_result_folder(out, "speed", models, data)
    documents = formats.read_documents(data, format, notes=notes)
    rows = [row for model in models for row in measure_speed(model, documents, device=device, rounds=rounds, log=log)]
    result = {**collect_rows(rows, documents, device), **describe_inputs(models, data)}
    save_result(result, out, log)
    return result


def measure_speed(
    source: str | Path,
    documents: Sequence[Document],
    *,
    device: str | None = None,
    rounds: int = DEFAULT_ROUNDS,
    log: Callable[[str], None] = lambda line: None,
) -> list[Json]:
    """Run a model over annotated documents with different settings, and measure the time of each.

    Args:
        source: The model. An exported model also runs with onnxruntime.
        documents: The model is scored on them too.
        device: `cpu` or `cuda`, for torch. By default a GPU if there is one.
        rounds: The best of this many rounds counts.
        log: Called with a line for every case.
    """
    from unire.inference.torch_engine import choose_device
    from unire.models.unire import UniRE

    folder = ModelDir.open(source)
    check_labels(source, folder.labels, documents)
    model = UniRE.from_pretrained(folder.path).to(choose_device(device)).eval()
    rows = []
    for name, case in _cases(folder, model):
        engine = _engine(folder, model, case)
        settings = use_decoder(folder.config, case.decoder).with_(layout=case.layout, window=case.window)
        rows.append(
            {
                "model": Path(source).name,
                "name": name,
                **asdict(case),
                "pieces": engine.max_batch_tokens,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                **_measure(engine, model, settings, documents, rounds),
            }
        )
        log(f"{Path(source).name}, {name}: {rows[-1]['sentences_per_second']:,.0f} sentences/s")
    return rows


def collect_rows(rows: Sequence[Json], documents: Sequence[Document], device: str | None) -> Json:
    """The result of the study: the rows of all models, and the machine."""
    from unire.inference.torch_engine import choose_device

    return {
        "study": "speed",
        "sentences": count_sentences(documents),
        **describe_machine(choose_device(device)),
        "rows": list(rows),
    }


def describe_machine(device: torch.device) -> Json:
    """The hardware and the version of torch."""
    import torch

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {"machine": gpu or f"{platform.machine()} CPU, {cpu_count()} cores", "torch": torch.__version__}


def tables(result: Json) -> list[ResultTable]:
    rows = [
        (
            name,
            format_millions(row["parameters"]),
            f"{row['sentences_per_second']:,.0f}",
            *(f"{milliseconds:.3f}" for milliseconds in _stages(row, result["sentences"]).values()),
            format_percent(row["ent"]),
            format_percent(row["rel"]),
        )
        for name, row in zip(_names(result), result["rows"], strict=True)
    ]
    stages = _stages(result["rows"][0], result["sentences"])
    columns = ("", "size", "sent/s", *stages, "Ent F1", "Rel F1")
    title = f"Speed: {_counted(result)}; stages in ms per sentence"
    return [ResultTable(title, columns, rows), paper_table()]


def paper_table() -> ResultTable:
    columns = ("", "size", "W", "Rel F1", "sent/s")
    return ResultTable("Published speed on SciERC (Table 5 of the UniRE paper)", columns, PAPER)


def charts(result: Json) -> dict[str, str]:
    rates = [row["sentences_per_second"] for row in result["rows"]]
    counted = f"n = {_counted(result)}"
    stages: dict[str, list[float]] = {}
    for row in result["rows"]:
        for stage, milliseconds in _stages(row, result["sentences"]).items():
            stages.setdefault(stage, []).append(milliseconds)
    both = "\nonnxruntime measures encoder and biaffine together, as encoder"
    note = counted + both * any(row["engine"] == "onnxruntime" for row in result["rows"])
    return {
        "speed": draw.bars(
            _names(result), rates, [f"{rate:,.0f}" for rate in rates], x="sentences per second", note=counted
        ),
        "stages": draw.stacks(
            _names(result), stages, x="milliseconds per sentence, one stage after the other", note=note
        ),
    }


def _counted(result: Json) -> str:
    """Number of sentences, repetitions and hardware."""
    often = describe_repeats(row.get("repeats", 1) for row in result["rows"])
    return f"{result['sentences']:,} sentences{often} on {result['machine']}"


def _names(result: Json) -> list[str]:
    several = len({row["model"] for row in result["rows"]}) > 1
    return [f"{row['model']}: {row['name']}" if several else row["name"] for row in result["rows"]]


def _stages(row: Json, sentences: int) -> dict[str, float]:
    return {stage: 1000 * seconds / max(sentences, 1) for stage, seconds in row["seconds"].items()}


def _cases(folder: ModelDir, model: UniRE) -> Iterator[tuple[str, SpeedCase]]:
    """The trained settings first, then one change at a time."""
    from unire.inference.torch_engine import TorchEngine

    settings = folder.config
    best = TorchEngine(model)
    precision = "bf16" if best.bf16 else "fp32"
    own = SpeedCase("torch", precision, settings.layout, settings.window, settings.decoder, best.max_batch_tokens)
    # shared windows do not depend on W
    in_words = replace(own, layout="in-place") if own.layout == "shared" else own
    cases = [
        own,
        *(replace(in_words, window=window) for window in WINDOWS),
        *(replace(own, layout=layout) for layout in LAYOUTS),
        *(replace(own, decoder=decoder) for decoder in DECODERS),
        replace(own, precision="fp32"),
        *(replace(own, pieces=pieces) for pieces in BATCH_TOKENS),
    ]
    if folder.has_graph and find_spec("onnxruntime") is not None:
        exported = settings.provenance.get("export", {}).get("precision", "unknown precision")
        cases.append(replace(own, engine="onnxruntime", precision=exported))
    for case in dict.fromkeys(cases):
        yield case.describe(own), case


def _engine(folder: ModelDir, model: UniRE, case: SpeedCase) -> Engine:
    if case.engine == "torch":
        from unire.inference.torch_engine import TorchEngine

        bf16 = case.precision == "bf16"  # keep the fp32 model for other cases
        return TorchEngine.for_inference(deepcopy(model) if bf16 else model, bf16=bf16, max_batch_tokens=case.pieces)
    from unire.inference.onnx_engine import OnnxEngine

    return OnnxEngine(folder.path)


def _measure(engine: Engine, model: UniRE, settings: ModelConfig, documents: Sequence[Document], rounds: int) -> Json:
    """The best round end to end, and the best round stage by stage."""
    from unire.inference.torch_engine import TorchEngine

    extractor = Extractor(engine, model.tokenizer, settings, model.labels)
    found, seconds, repeats = measure({"all": lambda some: list(extractor.annotate(some))}, documents, rounds)
    run = engine.model if isinstance(engine, TorchEngine) else model
    stages, n_batches = measure_best_stages(engine, run, settings, documents, repeats, rounds)
    scores = score(documents, found, model.labels)
    n = count_sentences(documents)
    return {
        "sentences_per_second": n / seconds["all"],
        "sentences_per_batch": n * repeats / max(n_batches, 1),
        "repeats": repeats,
        "seconds": stages._asdict(),
        "ent": scores.entities.f1,
        "rel": scores.relations.f1,
    }
