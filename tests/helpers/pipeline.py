"""Tiny parts of the pipeline."""

from __future__ import annotations

import torch

from unire.labels import LabelSpace
from unire.models.encoder import load_encoder
from unire.studies.pipeline.entities import EntityClassifier, SpanModel
from unire.studies.pipeline.study import PipelineConfig
from unire.training.markers.classifier import RelationClassifier
from unire.training.markers.data import SentenceReader, count_text_markers
from unire.training.markers.model import MarkerModel

QUICK = PipelineConfig(
    entity_epochs=100,
    relation_epochs=40,
    sentences=3,
    pairs=12,
    entity_lr=3e-3,
    relation_lr=3e-3,
    entity_head_lr=6e-3,
    relation_head_lr=6e-3,
)


def span_stage(encoder: str, labels: LabelSpace, config: PipelineConfig = QUICK) -> EntityClassifier:
    torch.manual_seed(0)
    loaded, tokenizer, spec = load_encoder(encoder)
    model = SpanModel(loaded, len(labels.entity_types), config)
    return EntityClassifier(model, SentenceReader(tokenizer, spec, config.entity_window), labels, False, 4096)


def marker_stage(encoder: str, labels: LabelSpace, approximate: bool) -> RelationClassifier:
    torch.manual_seed(0)
    loaded, tokenizer, spec = load_encoder(encoder)
    model = MarkerModel(loaded, len(labels.entity_types), len(labels.relation_types), approximate=approximate)
    reader = SentenceReader(tokenizer, spec, QUICK.relation_window, reserved=count_text_markers(approximate))
    return RelationClassifier(model.eval(), reader, labels, False, 4096)
