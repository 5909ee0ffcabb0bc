"""How fast is extraction? Ratios, all from one run.

    python benchmarks/extraction.py cpu SCIERC_TEST [--model science] [--json FILE]
    taskset -c 0 python benchmarks/extraction.py models SCIERC_TEST CONLL04_TEST [--json FILE]
    python benchmarks/extraction.py gpu SCIERC_TEST [--trained FOLDER] [--sentences 20000] [--json FILE]

`cpu`: from raw text (SciERC's abstracts restored to ordinary text) to documents, by a bundled model, against the method
of the paper's authors on the same cores: a BERT-base in PyTorch, fp32, a window of 200 words for each sentence,
words given. The weights of the BERT-base are random, which does not affect its speed.

`models`: `science` and `news` from the raw text of their test sets, in turns and in CPU time. On one core, the ratio of
the two hardly depends on what else the machine does.

`gpu`: from words to documents, a BERT-base with random weights, which cut about as often as the annotation does, and
find about as many entities and relations. With a window per sentence, against the forward pass of its encoder alone on
the same batches; and in shared windows. Or a trained model instead, with the layout and the decoder that it has.
Stages, decoding among them, are timed one after the other on the batches of such a stream, with the GPU waited for.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import BertConfig

from timing import race, seconds
from unire import Document, Extractor, LabelSpace, formats, pretrained
from unire.cli.extract import tune_gc
from unire.config import Layout, ModelConfig
from unire.decoding import decoders
from unire.inference.streaming import iter_chunks
from unire.inference.torch_engine import TorchEngine
from unire.models.batch import TensorBatch
from unire.models.unire import UniRE
from unire.segmentation import detokenize
from unire.studies.profiling import measure_stages

LABELS = LabelSpace.load("scierc")
LARGE = 30.0
"""A logit beyond which there is nothing to find, or nothing else."""


def bert_base(like: str, layout: Layout, device: str) -> Extractor:
    """A model of BERT-base's shape with random weights, and the tokenizer of a bundled model."""
    tokenizer = Tokenizer.from_file(str(pretrained.find(like) / "tokenizer.json"))
    settings = ModelConfig(ModelConfig.load(pretrained.find(like)).spec, BertConfig().to_dict(), layout=layout)
    torch.manual_seed(0)
    model = UniRE(settings, LABELS, tokenizer).to(device)
    torch.nn.init.normal_(model.biaffine.U, std=0.02)  # something to decode
    return Extractor(TorchEngine.for_inference(model), tokenizer, settings, LABELS)


def like_gold(extractor: Extractor, gold: Sequence[Document]) -> Extractor:
    """Have random weights cut about as often as gold annotation does, and find about as many entities and relations."""
    bias = extractor.engine.model.biaffine.U.data[:, -1, -1]
    entities, relations = (sum(len(getattr(d, kind)) for d in gold) for kind in ("entities", "relations"))
    bias[LABELS.relation_ids] = -LARGE  # so that pairs are few while entities are sought
    for _ in range(2):  # what is found moves the distances, and they move what is found
        extractor = extractor.with_alpha(_distance_of_cut(extractor, gold, 2 * entities))
        for labels, kind, wanted in (
            (LABELS.entity_ids, "entities", entities),
            (LABELS.relation_ids, "relations", relations),
        ):
            few, many = -LARGE, LARGE
            for _ in range(12):
                bias[labels] = (few + many) / 2
                found = sum(len(getattr(document, kind)) for document in extractor.annotate(gold))
                few, many = (few, (few + many) / 2) if found > wanted else ((few + many) / 2, many)
            bias[labels] = few
    return extractor


def _distance_of_cut(extractor: Extractor, documents: Sequence[Document], cuts: int) -> float:
    """The distance that this number of neighbouring words exceed."""
    found = [
        decoders.BoundaryDecoder(P, batch.lengths, LABELS).distances for batch, P in extractor.predict_tables(documents)
    ]
    distances = np.sort(np.concatenate([some[~np.isnan(some)] for some in found]))
    return float(distances[-min(cuts + 1, len(distances))])


def n_sentences(documents: Sequence[Document]) -> int:
    return sum(len(document.sentences) for document in documents)


def on_cpu(documents: list[Document], model: str) -> dict[str, float]:
    texts = [detokenize(document).text for document in documents]
    small = Extractor.load(model, device="cpu")
    large = bert_base(model, "in-place", "cpu")
    few = documents[: max(1, len(documents) // 10)]
    times = race({"ours": lambda: small.extract(texts), "theirs": lambda: list(large.annotate(few))}, 3)
    ours, theirs = n_sentences(documents) / min(times["ours"]), n_sentences(few) / min(times["theirs"])
    print(f"{model}, raw text to documents:              {ours:8.1f} sentences/s")
    print(f"BERT-base, fp32, a window per sentence:    {theirs:8.1f} sentences/s")
    print(f"ratio                                      {ours / theirs:8.1f}")
    return {"ours": ours, "theirs": theirs, "ratio": ours / theirs}


def compare_models(data: Mapping[str, list[Document]]) -> dict[str, float]:
    """Sentences per second of CPU time by model: medians of eight rounds, and their ratio."""
    extractors = {model: Extractor.load(model, device="cpu") for model in data}
    texts = {model: [detokenize(document).text for document in documents] for model, documents in data.items()}
    runs = {model: lambda model=model: extractors[model].extract(texts[model]) for model in data}
    times = race(runs, 8, time.process_time)
    rates = {model: n_sentences(documents) / median(times[model]) for model, documents in data.items()}
    for model, rate in rates.items():
        print(f"{model}, raw text to documents: {rate:.1f} sentences per second of CPU time")
    ratio = rates["news"] / rates["science"]
    print(f"ratio {ratio:.2f}")
    return {**rates, "ratio to science": ratio}


def at_random(documents: Sequence[Document], like: str) -> Iterator[Extractor]:
    """A model for each layout that finds about as much as there is."""
    layouts: tuple[Layout, ...] = ("in-place", "shared")
    for layout in layouts:
        yield like_gold(bert_base(like, layout, "cuda"), documents)


def on_gpu(documents: list[Document], extractors: Iterable[Extractor], sentences: int) -> dict[str, float]:
    repeated = list(
        itertools.islice(itertools.cycle(documents), -(-sentences * len(documents) // n_sentences(documents)))
    )
    count = n_sentences(repeated)
    found: dict[str, float] = {}
    for extractor in extractors:
        engine, settings = extractor.engine, extractor.config
        layout = settings.layout if settings.window else "by itself"
        gc.collect()
        tune_gc()  # as the command does
        passes = [seconds(lambda extractor=extractor: deque(extractor.annotate(repeated), maxlen=0)) for _ in range(4)]
        whole = min(passes)
        batches = [
            batch
            for chunk in iter_chunks(repeated, engine.max_batch_tokens)
            for batch in extractor.build_batches(chunk)
        ]
        moved = [(TensorBatch.from_batch(batch, "cuda"), list(engine.iter_slices(batch))) for batch in batches]

        @torch.inference_mode()
        def encode(model: UniRE = engine.model, moved: list[tuple[TensorBatch, Any]] = moved) -> None:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                for batch, slices in moved:
                    model.encode(batch, slices)
            torch.cuda.synchronize()

        encoder = min(seconds(encode) for _ in range(3))
        watched = (measure_stages(engine, engine.model, extractor.config, repeated)[0] for _ in range(3))
        stages = min(watched, key=sum)
        once = list(extractor.annotate(documents))
        found |= {f"{layout} sentences/s": count / whole, f"{layout} encoder alone": count / encoder}
        found[f"{layout} first pass"] = count / passes[0]  # its batches have shapes that are new
        padded = sum((some.stop - some.start) * n for batch in batches for some, n in batch.slices)
        found[f"{layout} padded"] = padded / sum(int(batch.row_lengths.sum()) for batch in batches)
        found |= {f"{layout} {stage}": seconds / whole for stage, seconds in stages._asdict().items()}
        for kind in ("entities", "relations"):
            found[f"{layout} {kind}"] = sum(len(getattr(d, kind)) for d in once) / n_sentences(once)
        print(
            f"{layout:>8}: {count / whole:8.0f} sentences/s, {encoder / whole:.0%} of the encoder alone "
            f"({count / encoder:.0f}), decoding {stages.decoder / whole:.1%} of the time; "
            f"in the first pass {count / passes[0]:.0f} sentences/s"
        )
        print(*(f"{stage} {1e6 * seconds / count:.0f} µs" for stage, seconds in stages._asdict().items()), sep=", ")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", choices=("cpu", "models", "gpu"))
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--model", default="science")
    parser.add_argument("--trained", help="of `gpu`: a model in place of random weights")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    documents, *others = (list(formats.read(file)) for file in arguments.data)
    if arguments.where == "models":
        found = compare_models({"science": documents, "news": others[0]})
    elif arguments.where == "cpu":
        found = on_cpu(documents, arguments.model)
    else:
        trained = arguments.trained and [Extractor.load(arguments.trained, device="cuda")]
        found = on_gpu(documents, trained or at_random(documents, arguments.model), arguments.sentences)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
