"""Speed of masked-language-model adaptation on one GPU: settings, attention kernels, and where a step spends its time.

    python benchmarks/adapt.py [--encoder DIR] [--seconds 90] [--json FILE]

Without an encoder: one of MPNet-base's shape with random weights. The text is random tokens, as frequent as words are.
Settings that do not fit into the time are left out; the most interesting come first. On a CPU it only shows that it
runs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from unire.models.encoder import build_encoder, load_encoder
from unire.training.adaptation.masked_lm import MaskedLM, MaskedLMTask, WholeWordMasking
from unire.training.config import AdaptationConfig
from unire.training.trainer import Trainer

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
PEAK = 790e12
"""Floating-point operations per second of a large bf16 matrix product on an H200."""

CUDNN_FIRST = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


@dataclass(frozen=True)
class Setting:
    length: int
    batch_tokens: int
    variant: str = "as is"
    """`cudnn` prefers its attention; `eager` compiles nothing, `whole` the model as one, `tuned` tries kernels out."""


SETTINGS = (
    Setting(256, 65_536),
    Setting(256, 65_536, "cudnn"),
    Setting(256, 65_536, "eager"),
    Setting(128, 65_536),
    Setting(512, 65_536),
    Setting(256, 32_768),
    Setting(256, 131_072),
    Setting(256, 65_536, "whole"),
    Setting(256, 65_536, "tuned"),
)


def seconds_of(function: Callable[[], Any], repeats: int = 20) -> float:
    """Mean time of a call once warm."""
    for _ in range(3):
        function()
    _wait()
    started = time.perf_counter()
    for _ in range(repeats if GPU else 1):
        function()
    _wait()
    return (time.perf_counter() - started) / (repeats if GPU else 1)


def _wait() -> None:
    if GPU:
        torch.cuda.synchronize()


def encoder_of(folder: str | None) -> Any:
    if folder:
        return load_encoder(folder)[0]
    size = {} if GPU else {"hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 96}
    return build_encoder(transformers.MPNetConfig(max_position_embeddings=514, **size).to_dict())


def build_task(folder: str | None, variant: str) -> MaskedLMTask:
    encoder = encoder_of(folder)
    tokens = {f"{'##' if i % 4 == 0 else ''}{i}": i for i in range(encoder.config.vocab_size)}
    tokenizer = Tokenizer(models.WordPiece(tokens, unk_token="0"))
    masking = WholeWordMasking(tokenizer, mask_id=4, special_ids=range(5), rate=0.2)
    compiled = GPU and variant not in ("eager", "whole")
    config = AdaptationConfig(max_steps=10**6, lr=1e-4)
    task = MaskedLMTask(MaskedLM(encoder, masking), config, DEVICE, compiled=compiled)
    if variant == "whole":
        task.model.forward = torch.compile(task.model.forward, dynamic=False)
    return task


def rows_of(setting: Setting, n_tokens: int) -> np.ndarray:
    """Tokens with frequencies like those of words (Zipf)."""
    weights = 1 / np.arange(10, n_tokens + 5)
    shape = (setting.batch_tokens // setting.length, setting.length)
    return (5 + np.random.default_rng(0).choice(len(weights), shape, p=weights / weights.sum())).astype(np.int32)


def take_step(task: MaskedLMTask, rows: np.ndarray, seed: int = 0) -> None:
    Trainer(task)._take_step((seed, rows), lambda: False)


def operations(encoder: Any, setting: Setting) -> float:
    """Floating-point operations of a step: forward, and twice that backward."""
    config = encoder.config
    matrices = sum(p.numel() for name, p in encoder.named_parameters() if p.dim() == 2 and "embeddings" not in name)
    attention = 2 * setting.length * config.hidden_size * config.num_hidden_layers
    head = 0.2 * config.hidden_size * (config.hidden_size + config.vocab_size)
    return 6 * setting.batch_tokens * (matrices + attention + head)


def measure(folder: str | None, setting: Setting) -> tuple[dict[str, Any], MaskedLMTask, np.ndarray]:
    torch._dynamo.reset()
    if GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    task = build_task(folder, setting.variant)
    rows = rows_of(setting, task.model.encoder.config.vocab_size)
    started = time.perf_counter()
    with ExitStack() as stack:
        if setting.variant == "tuned":
            stack.enter_context(torch._inductor.config.patch(max_autotune=True))
        if setting.variant == "cudnn":
            stack.enter_context(sdpa_kernel(CUDNN_FIRST, set_priority=True))
        task.warm_up(*rows.shape)
        warm_up = time.perf_counter() - started
        step = seconds_of(lambda: take_step(task, rows))
    speed = rows.size / step
    row = {
        "length": setting.length,
        "batch_tokens": setting.batch_tokens,
        "variant": setting.variant,
        "warm_up_s": warm_up,
        "step_ms": 1e3 * step,
        "tokens_per_second": speed,
        "utilisation": operations(task.model.encoder, setting) / step / PEAK,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if GPU else 0.0,
    }
    print(
        f"length {setting.length:3}  batch {setting.batch_tokens:6}  {setting.variant:5}  "
        f"warm-up {warm_up:5.1f} s  step {row['step_ms']:7.2f} ms  {speed:9,.0f} tokens/s  "
        f"{100 * row['utilisation']:4.1f}% of peak  {row['peak_gb']:5.1f} GB",
        flush=True,
    )
    return row, task, rows


def shares(task: MaskedLMTask, rows: np.ndarray) -> dict[str, float]:
    """Milliseconds of a step by part; what the others leave is the encoder's."""
    model = task.model
    ids = torch.from_numpy(rows).to(DEVICE).long()
    whole = seconds_of(lambda: take_step(task, rows))
    masking = seconds_of(lambda: model.masking(ids))
    _, positions, tokens = model.masking(ids)
    kind = torch.bfloat16 if task.bf16 else torch.float32
    vectors = torch.randn(*ids.shape, model.head.dense.in_features, device=DEVICE, dtype=kind, requires_grad=True)

    def head() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=task.bf16):
            outcome = model.head(vectors, positions, tokens, model.encoder.get_input_embeddings().weight)
        outcome[0].backward()
        model.zero_grad()

    def optimiser() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), task.clip)
        task.optimizer.step()

    parts = {"masking": masking, "head": seconds_of(head)}
    task.find_gradients(rows, seed=0)
    parts["optimiser"] = seconds_of(optimiser)
    task.optimizer.zero_grad()
    parts["encoder"] = whole - sum(parts.values())
    print("  ".join(f"{name} {1e3 * part:.2f} ms ({part / whole:.0%})" for name, part in parts.items()), flush=True)
    return {name: 1e3 * part for name, part in parts.items()}


def profile(task: MaskedLMTask, rows: np.ndarray, steps: int = 3, shown: int = 20) -> None:
    """The kernels that take most of the device's time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
        for seed in range(steps):
            take_step(task, rows, seed)
        _wait()
    events = sorted(recorded.key_averages(), key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in events)
    print(f"kernels: {total / steps / 1e3:.2f} ms of a step, {sum(event.count for event in events) // steps} launches")
    for event in events[:shown]:
        took = event.self_device_time_total
        print(f"{took / steps / 1e3:8.2f} ms {took / total:5.1%} {event.count // steps:4} × {event.key[:110]}")


def attention_kernels(
    length: int = 256, batch_tokens: int = 65_536, heads: int = 12, size: int = 64
) -> dict[str, float]:
    """Milliseconds of one layer's attention, forward and backward, and the error against float32."""
    kind = torch.bfloat16 if GPU else torch.float32
    shape = (batch_tokens // length, heads, length, size)
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=kind, requires_grad=True) for _ in range(3))
    grad = torch.randn(shape, device=DEVICE, dtype=kind)
    bias = torch.randn(1, heads, length, length, device=DEVICE, dtype=kind)
    learnt = bias.clone().requires_grad_()

    def fused(mask: torch.Tensor | None, backend: SDPBackend) -> Callable[[], torch.Tensor]:
        def call() -> torch.Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, attn_mask=mask)

        return call

    def flexible() -> Callable[[], torch.Tensor]:
        from torch.nn.attention.flex_attention import flex_attention

        compiled = torch.compile(flex_attention, dynamic=False)
        table = bias[0]
        return lambda: compiled(q, k, v, score_mod=lambda score, _, head, at, to: score + table[head, at, to])

    kernels: dict[str, Callable[[], Callable[[], torch.Tensor]]] = {
        "bias, PyTorch's choice": lambda: lambda: scaled_dot_product_attention(q, k, v, attn_mask=bias),
        "bias, cuDNN": lambda: fused(bias, SDPBackend.CUDNN_ATTENTION),
        "bias, efficient": lambda: fused(bias, SDPBackend.EFFICIENT_ATTENTION),
        "bias, flex": flexible,
        "bias with gradient, efficient": lambda: fused(learnt, SDPBackend.EFFICIENT_ATTENTION),
        "no bias, flash": lambda: fused(None, SDPBackend.FLASH_ATTENTION),
        "no bias, cuDNN": lambda: fused(None, SDPBackend.CUDNN_ATTENTION),
    }
    found: dict[str, float] = {}
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        rows = slice(0, 4)
        reference = scaled_dot_product_attention(q[rows].float(), k[rows].float(), v[rows].float(), bias.float())
    for name, make in kernels.items():
        try:
            call = make()
            error = (call()[:4].float() - reference).norm() / reference.norm()
            inputs = (q, k, v, learnt) if "gradient" in name else (q, k, v)
            found[name] = 1e3 * seconds_of(lambda: torch.autograd.grad(call(), inputs, grad), repeats=10)  # noqa: B023
        except Exception as problem:
            print(f"{name:30}    not here: {str(problem).splitlines()[0][:90]}", flush=True)
        else:
            off = "" if name.startswith("no") else f"  error {error:.1e}"
            print(f"{name:30} {found[name]:7.3f} ms a layer{off}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    started = time.perf_counter()
    record: dict[str, Any] = {"settings": []}
    for place, setting in enumerate(SETTINGS):
        if time.perf_counter() - started > arguments.seconds:
            print(f"no time left for {len(SETTINGS) - place} more")
            break
        if not GPU:
            setting = Setting(setting.length, 1024, setting.variant)
        row, task, rows = measure(arguments.encoder, setting)
        record["settings"].append(row)
        if place == 0:
            record["shares_ms"] = shares(task, rows)
            if GPU:
                profile(task, rows)
                record["attention_ms"] = attention_kernels()
        del task
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
