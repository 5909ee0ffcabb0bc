"""Does memory stay flat? `unire extract --lines` on as many one-sentence lines as you like.

    python benchmarks/streaming.py --model MODEL [--lines 1000000] [--text FILE] [--json FILE]

Writes the lines (sentences of `--text`, over and over; a few made-up ones without it) to a temporary folder, runs the
command on them, and reads its resident size off /proc twice a second. Prints the size every `--every` seconds while it
runs, then at every tenth of the lines, the largest, and the rate; and checks that there is a result for every line, in
order. `--model tiny` is one layer with random weights, which costs next to nothing: what streams then is all the rest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from unire.labels import LabelSpace
from unire.segmentation import segment

SENTENCES = [
    "We present a parser that is trained on the Penn Treebank and evaluated on dialogue.",
    "The method improves the F-score by 3.5% over a baseline without context (see Fig. 2).",
    "Word sense disambiguation helps machine translation, but speech recognition does not.",
]


def sentences_of(path: Path | None, most: int = 100_000) -> list[str]:
    if path is None:
        return SENTENCES
    found: list[str] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            spans = ((s.offsets[0][0], s.offsets[-1][1]) for s in segment(line).sentences)
            found += [" ".join(line[start:end].split()) for start, end in spans]
            if len(found) >= most:
                break
    return found


def resident(pid: int) -> float:
    """MB, now."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1e3


def tiny(folder: Path) -> Path:
    """A model that costs little, with the tokenizer, the labels and the settings of the bundled one."""
    import torch
    from transformers import BertConfig

    from unire.export.export import export_onnx
    from unire.hub.model_dir import ModelDir
    from unire.models.unire import UniRE

    bundled = ModelDir.open("science")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    settings = bundled.config.with_(
        encoder=BertConfig(**sizes).to_dict(), head=replace(bundled.config.head, d=8), provenance={}
    )
    torch.manual_seed(0)
    model = UniRE(settings, bundled.labels, bundled.tokenizer)
    torch.nn.init.normal_(model.biaffine.U, std=0.3)
    model.biaffine.U.data[LabelSpace.NONE, -1, -1] += 6  # about as much to find as in real tables
    model.save_pretrained(folder / "unexported")
    export_onnx(folder / "unexported", folder / "tiny")
    return folder / "tiny"


def watch(command: list[str], part: Path, every: float) -> tuple[list[tuple[int, float]], float]:
    """Bytes written and resident size, twice a second, and how long it took."""
    began = time.perf_counter()
    reported = 0.0
    process = subprocess.Popen(command)
    samples = []
    while process.poll() is None:
        seconds = time.perf_counter() - began
        with suppress(OSError, IndexError):  # not started yet, or just ended
            samples.append((part.stat().st_size, resident(process.pid)))
            if seconds - reported >= every:
                reported = seconds
                print(f"{seconds:7.0f} s {samples[-1][0] / 1e6:9.1f} MB written {samples[-1][1]:7.0f} MB resident")
        time.sleep(0.5)
    assert process.returncode == 0, "the command failed"
    return samples, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--text", type=Path, help="plain text to take the sentences from")
    parser.add_argument("--every", type=float, default=30, help="seconds between two sizes that are printed")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        lines, out = Path(folder) / "lines.txt", Path(folder) / "found.jsonl"
        with lines.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in islice(cycle(sentences_of(arguments.text)), arguments.lines))
        model = str(tiny(Path(folder))) if arguments.model == "tiny" else arguments.model
        command = [sys.executable, "-m", "unire", "extract", "--model", model, "--device", arguments.device]
        command += ["--lines", str(lines), "--out", str(out)]
        samples, seconds = watch(command, Path(f"{out}.part"), arguments.every)
        with out.open(encoding="utf-8") as found, lines.open(encoding="utf-8") as given:
            assert all(json.loads(f)["text"] == g.rstrip("\n") for f, g in zip(found, given, strict=True))
        size = out.stat().st_size
    reached = ([mb for written, mb in samples if written >= size * tenth / 10] for tenth in range(11))
    results: dict[str, Any] = {
        "lines": arguments.lines,
        "seconds": seconds,
        "lines per second": arguments.lines / seconds,
        "resident MB at every tenth": [round(sizes[0]) for sizes in reached if sizes],
        "largest MB": round(max(mb for _, mb in samples)),
    }
    for name, value in results.items():
        print(f"{name:<28} {value if isinstance(value, list) else f'{value:,.0f}'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
