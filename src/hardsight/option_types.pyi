"""The options of every verb, as TypedDicts: made from their settings classes by docs/make_option_types.py."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from hardsight.domains.settings import Portions

class ArrayOptions(TypedDict, total=False):
    bias: Any
    logits: Any
    probs: Any
    pred_probs: Any
    ids: Any
    class_names: Any
    columns: dict[str, Any] | None
    allow_duplicates: bool

class LoadOptions(TypedDict, total=False):
    head: Any
    labels: Any
    features: Any
    class_names: Any

class AdaptOptions(TypedDict, total=False):
    methods: Sequence[str]
    method_options: Mapping[str, Mapping[str, Any]]
    rounds: int
    epochs: int
    source_epochs: int | None
    portion: Portions | str
    source_portion: Portions | str
    standardize: Literal["domain", "source", "none"]
    balance: bool
    flip_labels: bool
    target_augment: str | None
    batch_size: int
    optimizer: Literal["sgd", "adamw"] | None
    lr: float | None
    weight_decay: float | None
    seeds: int | Sequence[int] | str
    model: Any
    hidden: int
    optimizer_options: Mapping[str, Any]
    model_options: Mapping[str, Any]
    weights: Path | None | str
    pretrained: bool | str
    head_hidden: int | None
    size: int | None
    exact_decode: bool
    preprocessing: Mapping[str, Any]
    freeze_bn: bool
    schedule: Literal["constant", "step", "cosine"]
    schedule_options: Mapping[str, Any]
    precision: Literal["float32", "bfloat16", "float16"]
    augment: str
    device: Any
    workers: int | None
    limit: int | None

class AttackOptions(TypedDict, total=False):
    methods: Any
    epsilon: Any
    steps: int
    step_size: float | None
    random_start: bool
    seed: int
    trajectories: int
    path_steps: int
    data: Any
    split: str | None
    labels_from: Any
    limit: int | None
    first: int | None
    model: Any
    weights: Any
    num_classes: int | None
    head: str | None
    batch_size: int
    device: Any
    workers: int | None
    preprocessing: Mapping[str, Any]

class AuditOptions(TypedDict, total=False):
    least: int
    clusters: int | None
    seed: int
    top: int
    by: str
    split: str | None
    level: float
    head: Any
    labels: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    limit: int | None
    first: int | None

class CheckOptions(TypedDict, total=False):
    model: Any
    weights: Path | None | str
    embedder: str | None
    device: Any
    exact_decode: bool
    group: str | None
    seed: int
    fail_on: Sequence[str]
    head: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any

class CleanOptions(TypedDict, total=False):
    by: str | None
    split: str | None
    reference: Any
    neighbors: bool
    folds: int
    seed: int
    group: str | None
    probs: Any
    top: int
    head: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    limit: int | None
    first: int | None

class CorrelateOptions(TypedDict, total=False):
    by: str | None
    passes: Any
    epochs: bool
    epoch_tables: Any
    images: Any
    top: int
    against: str | None
    hard: str | None
    scores: Sequence[str] | None
    bins: float | Sequence[float] | None | str
    level: float
    replicates: int
    permutations: int
    splits: int
    seed: int
    split: str | None
    allow_missing: bool
    min_answers: int | None
    only: Any
    class_names: Sequence[str] | None
    head: Any
    labels: Any
    features: Any
    label: str | None
    allow_duplicates: bool
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    limit: int | None
    first: int | None
    maybe: float
    raters: Literal["equal", "dawid-skene"]

class CurriculumOptions(TypedDict, total=False):
    by: str | None
    epochs: int
    split: str | None
    seed: int
    order: Literal["easy-first", "hard-first", "self-paced", "random"] | None
    pacing: Literal["linear", "root", "geometric", "step"]
    pace_start: float
    pace_epochs: float | None
    head: Any
    labels: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any

class DriftOptions(TypedDict, total=False):
    unpaired: bool
    seed: int
    top: int
    head: Any
    labels: Any
    by: str
    split: str | None
    level: float
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    limit: int | None
    first: int | None

class ExploreOptions(TypedDict, total=False):
    port: int | None
    read_only: bool
    host: str
    allow_remote: bool
    allowed_hosts: Sequence[str]
    images: str | None
    human: Path | None | str
    allow_missing: bool
    subset: Path | None | str
    audit: Path | None | str
    drift: Path | None | str
    split: str | None
    head: Any
    labels: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any

class ExportOptions(TypedDict, total=False):
    images: str | None
    image_url: str | None
    push: str | None
    head: Any
    labels: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    limit: int | None
    first: int | None
    hardness: str | bool | None

class ExtractOptions(TypedDict, total=False):
    weights: Any
    pretrained: str | None
    num_classes: int | None
    head: str | None
    device: Any
    precision: str
    batch_size: Any
    workers: int | None
    limit: int | None
    first: int | None
    split: str | None
    labels_from: Any
    class_names: Any
    degradations: Any
    layers: Any
    passes: Any
    keep_head: bool
    fit_head: bool
    strict: bool
    size: int | None
    resize: str | None
    crop_pct: float | None
    scaling: str | None
    mean: float | Sequence[float] | None | str
    std: float | Sequence[float] | None | str
    interpolation: str | None
    channels: str | None
    exact_decode: bool

class GeneralizeOptions(TypedDict, total=False):
    losses: Sequence[str]
    loss_options: Mapping[str, Mapping[str, Any]]
    method_options: Mapping[str, Mapping[str, Any]]
    scales: float | Sequence[float] | str
    selection: Literal["validation", "last", "oracle"]
    held_out: float
    lists: Path | None | str
    keep_models: bool
    epochs: int | None
    batch_size: int
    standardize: bool
    seeds: int | Sequence[int] | str
    model: Any
    hidden: int
    optimizer_options: Mapping[str, Any]
    model_options: Mapping[str, Any]
    weights: Path | None | str
    pretrained: bool | str
    head_hidden: int | None
    size: int | None
    exact_decode: bool
    preprocessing: Mapping[str, Any]
    optimizer: Literal["sgd", "adamw"]
    lr: float | None
    weight_decay: float
    freeze_bn: bool
    schedule: Literal["constant", "step", "cosine"]
    schedule_options: Mapping[str, Any]
    precision: Literal["float32", "bfloat16", "float16"]
    augment: str
    device: Any
    workers: int | None
    limit: int | None

class MineOptions(TypedDict, total=False):
    k: int
    kind: str
    positive: str
    margin: float
    search: str
    split: str | None
    pairs: bool
    top: int
    head: Any
    class_names: Any
    labels: Any
    features: Any
    label: str | None
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    limit: int | None
    first: int | None

class PeopleOptions(TypedDict, total=False):
    split: str | None
    ask: int
    level: float
    seed: int
    head: Any
    labels: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    maybe: float
    raters: Literal["equal", "dawid-skene"]

class ReportOptions(TypedDict, total=False):
    images: str | None
    human: Path | None | str
    allow_missing: bool
    subset: Path | None | str
    audit: Path | None | str
    drift: Path | None | str
    split: str | None
    head: Any
    labels: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any

class ScoreOptions(TypedDict, total=False):
    scores: Any
    reference: Any
    models: Any
    images: Any
    by: str | None
    top: int
    shard: Any
    strict: bool
    allow_duplicates: bool
    summary_only: bool
    cluster: str | None
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any
    limit: int | None
    first: int | None
    hardness: str | bool | None

class SelectOptions(TypedDict, total=False):
    method: Literal["coverage", "hardest", "easiest", "balanced", "random", "kcenter", "d2", "margin", "entropy", "avc"]
    by: str | None
    per_class: bool
    split: str | None
    unlabeled: bool | None
    cut: float | None
    neighbors: int
    seed: int
    curve: bool | str
    head: Any
    labels: Any
    features: Any
    label: str | None
    class_names: Any
    logits: Any
    probs: Any
    pred_probs: Any
    bias: Any
    ids: Any
    columns: Any

class SelectionOptions(TypedDict, total=False):
    alpha: float
    threshold: float | None

class TrainOptions(TypedDict, total=False):
    loss: str
    loss_options: Mapping[str, Any]
    epochs: int
    watch: Mapping[str, Any] | None
    degradations: Sequence[str]
    every: int | None
    top_k: int | None
    crops: int
    at_start: bool
    seed: int
    split: str | None
    subset: Any
    curriculum: Any
    labels_from: str | None
    keep_epochs: bool | int | str
    snapshot: bool
    strict: bool
    tracker: str | None
    teacher: Any
    order: Literal["easy-first", "hard-first", "self-paced", "random"] | None
    pacing: Literal["linear", "root", "geometric", "step"]
    pace_start: float
    pace_epochs: float | None
    model_options: Mapping[str, Any]
    weights: Path | None | str
    pretrained: bool | str
    head_hidden: int | None
    size: int | None
    exact_decode: bool
    preprocessing: Mapping[str, Any]
    batch_size: int
    optimizer: Literal["sgd", "adamw"]
    lr: float | None
    weight_decay: float
    optimizer_options: Mapping[str, Any]
    freeze_bn: bool
    schedule: Literal["constant", "step", "cosine"]
    schedule_options: Mapping[str, Any]
    precision: Literal["float32", "bfloat16", "float16"]
    augment: str
    device: Any
    workers: int | None
    limit: int | None
