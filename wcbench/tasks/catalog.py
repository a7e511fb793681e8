"""THE list of tasks, importable without torch: what each is at the reference's scale, and where its code lives.

Numbers are per sample at the `paper` preset; 1 multiply-accumulate = 2 FLOP. A task is added by one file and one
row here (CONTRIBUTING.md, "Add a task").
"""

from __future__ import annotations

from dataclasses import dataclass

from wcbench.errors import UnknownNameError
from wcbench.registry import Registry, Row

AIBENCH = "aibench-training-v1.1"
MLPERF = "mlperf-training-v0.7"


@dataclass(frozen=True, kw_only=True)
class TaskRow(Row):
    """A row of the catalogue.

    Attributes
    ----------
    model, domain, dataset : in the suite's words.
    metric, quality : what training is judged by, and the target with its source; None where none was found.
    suites : ids of the suites that hold it.
    parameters : trainable parameters at the `paper` preset.
    forward_flops : matrix-class FLOPs (convolutions and matrix products) of the forward pass of one sample.
    sample : what one sample is.
    """

    model: str
    domain: str
    dataset: str
    metric: str | None
    quality: str | None
    suites: tuple[str, ...]
    parameters: int
    forward_flops: int
    sample: str


ROWS = (
    TaskRow(
        name="image-classification",
        aliases=("DC-AI-C1",),
        keywords=("resnet", "resnet50", "imagenet"),
        target="wcbench.tasks.vision.image_classification:ImageClassification",
        model="ResNet-50 v1.5",
        domain="vision",
        dataset="ImageNet (synthetic stand-in)",
        metric="top-1 accuracy",
        quality="0.749 (AIBench), 0.759 (MLPerf v0.7)",
        suites=(AIBENCH, MLPERF),
        parameters=25_557_032,
        forward_flops=8_178_368_512,
        sample="image 3x224x224",
    ),
    TaskRow(
        name="recommendation",
        aliases=("DC-AI-C10",),
        keywords=("neumf", "ncf", "movielens"),
        target="wcbench.tasks.commerce.recommendation:Recommendation",
        model="NeuMF (NCF)",
        domain="commerce",
        dataset="MovieLens ml-20m (synthetic stand-in)",
        metric="HR@10",
        quality=None,
        suites=(AIBENCH,),
        parameters=31_832_577,
        forward_flops=213_248,
        sample="user-item pair",
    ),
    TaskRow(
        name="spatial-transformer",
        aliases=("DC-AI-C15",),
        keywords=("stn", "mnist"),
        target="wcbench.tasks.vision.spatial_transformer:SpatialTransformer",
        model="STN",
        domain="vision",
        dataset="MNIST (handwritten digits of scikit-learn, distorted)",
        metric="top-1 accuracy",
        quality=None,
        suites=(AIBENCH,),
        parameters=27_360,
        forward_flops=1_542_600,
        sample="image 1x28x28",
    ),
    TaskRow(
        name="natural-language",
        aliases=("DC-AI-C19",),
        keywords=("bert", "nlp", "wikipedia"),
        target="wcbench.tasks.language.natural_language:NaturalLanguage",
        model="BERT-base (proposed size)",
        domain="language",
        dataset="Wikipedia (synthetic stand-in)",
        metric="masked-LM accuracy",
        quality=None,
        suites=(AIBENCH,),
        parameters=110_106_428,
        forward_flops=28_500_298_752,
        sample="sequence of 128 tokens",
    ),
)

TASKS = Registry("task", ROWS, group="wcbench.tasks")


def split_variant(name: str) -> tuple[str, str | None]:
    """``task@variant`` as (task, variant or None)."""
    task, _, variant = name.partition("@")
    return task, variant or None


def canonical(name: str) -> str:
    """The catalogue's own name of a task given by name or alias; other names (``module:Class``) are kept."""
    return TASKS.row(name).name if name in TASKS else name


def suites_of(name: str) -> tuple[str, ...]:
    """Ids of the suites that a task belongs to; none for a task from elsewhere."""
    row = TASKS.row(name) if name in TASKS else None
    return row.suites if isinstance(row, TaskRow) else ()


def check_name(name: str) -> None:
    """Raise UnknownNameError, with the nearest names, unless it is a catalogue name, an alias or ``module:Class``."""
    if name not in TASKS and ":" not in name:
        hint = "`wcbench list` shows all; your own is given as module:Class."
        raise UnknownNameError("task", name, TASKS.words(), hint)
