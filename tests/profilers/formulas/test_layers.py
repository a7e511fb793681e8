"""Every operator that torch.nn's layers, losses and optimizers show is covered, forward and backward."""

# ruff: noqa: PLW0108  (methods inlined would be bound before the recorder looks)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from wcbench.profilers.formulas import Call

Record = Callable[..., Any]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def layers() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    made: dict[str, tuple[Callable[..., Any], list[Any]]] = {}
    for axes in (1, 2, 3):
        picture = (2, 4, *(8,) * axes)
        for kind in ("Conv", "ConvTranspose"):
            made[f"{kind}{axes}d"] = (
                getattr(nn, f"{kind}{axes}d")(4, 6, 3, padding=1, stride=2, groups=2),
                [x(*picture)],
            )
        for kind in ("MaxPool", "AvgPool", "ReflectionPad", "ReplicationPad", "ZeroPad"):
            made[f"{kind}{axes}d"] = getattr(nn, f"{kind}{axes}d")(2), [x(*picture)]
        for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
            made[f"{kind}{axes}d"] = getattr(nn, f"{kind}{axes}d")(3), [x(*picture)]
        for kind in ("BatchNorm", "InstanceNorm"):
            made[f"{kind}{axes}d"] = getattr(nn, f"{kind}{axes}d")(4, affine=True), [x(*picture)]
    names = "ReLU ReLU6 GELU SiLU ELU SELU CELU Mish Hardswish Hardsigmoid Hardtanh Tanh Sigmoid LogSigmoid Softplus"
    names += " Softshrink Hardshrink Tanhshrink Softsign LeakyReLU PReLU RReLU GLU Dropout Dropout2d AlphaDropout"
    for name in names.split():
        made[name] = getattr(nn, name)(), [x(4, 8, 3, 4)]
    made |= {
        "Softmax": (nn.Softmax(-1), [x(4, 8)]),
        "LogSoftmax": (nn.LogSoftmax(-1), [x(4, 8)]),
        "LayerNorm": (nn.LayerNorm(8), [x(4, 8)]),
        "RMSNorm": (nn.RMSNorm(8), [x(4, 8)]),
        "GroupNorm": (nn.GroupNorm(2, 4), [x(2, 4, 5, 5)]),
        "LocalResponseNorm": (nn.LocalResponseNorm(2), [x(2, 4, 5, 5)]),
        "Linear": (nn.Linear(8, 3), [x(2, 4, 8)]),
        "Bilinear": (nn.Bilinear(3, 4, 5), [x(2, 3), x(2, 4)]),
        "weight norm": (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), [x(2, 4)]),
        "spectral norm": (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), [x(2, 4)]),
        "Embedding": (nn.Embedding(10, 4), [torch.tensor([[1, 2], [3, 1]])]),
        "Embedding max_norm": (nn.Embedding(10, 4, max_norm=1.0), [torch.tensor([[1, 2], [3, 1]])]),
        "EmbeddingBag": (nn.EmbeddingBag(10, 4), [torch.tensor([[1, 2], [3, 1]])]),
        "EmbeddingBag sum": (nn.EmbeddingBag(10, 4, mode="sum", sparse=True), [torch.tensor([[1, 2], [3, 1]])]),
        "EmbeddingBag max": (nn.EmbeddingBag(10, 4, mode="max"), [torch.tensor([[1, 2], [3, 1]])]),
        "LSTM": (nn.LSTM(4, 5, 2, bidirectional=True), [x(3, 2, 4)]),
        "LSTM projected": (nn.LSTM(4, 5, 2, proj_size=3), [x(3, 2, 4)]),
        "GRU": (nn.GRU(4, 5), [x(3, 2, 4)]),
        "RNN": (nn.RNN(4, 5), [x(3, 2, 4)]),
        "LSTMCell": (nn.LSTMCell(4, 5), [x(2, 4)]),
        "GRUCell": (nn.GRUCell(4, 5), [x(2, 4)]),
        "MultiheadAttention": (nn.MultiheadAttention(8, 2), [x(3, 2, 8)] * 3),
        "TransformerEncoderLayer": (nn.TransformerEncoderLayer(8, 2, 16), [x(3, 2, 8)]),
        "TransformerDecoderLayer": (nn.TransformerDecoderLayer(8, 2, 16), [x(3, 2, 8)] * 2),
        "PixelShuffle": (nn.PixelShuffle(2), [x(1, 4, 3, 3)]),
        "Fold": (nn.Fold((4, 4), 2, stride=2), [x(1, 8, 4)]),
        "Unfold": (nn.Unfold(2), [x(1, 2, 4, 4)]),
        "CosineSimilarity": (nn.CosineSimilarity(), [x(3, 4), x(3, 4)]),
        "FractionalMaxPool2d": (nn.FractionalMaxPool2d(2, output_size=2), [x(1, 2, 4, 4)]),
        "linear": (nn.Upsample(scale_factor=2, mode="linear"), [x(1, 2, 4)]),
        "trilinear": (nn.Upsample(scale_factor=2, mode="trilinear"), [x(1, 2, 4, 4, 4)]),
        "antialias": (lambda a: F.interpolate(a, size=(3, 3), mode="bilinear", antialias=True), [x(1, 2, 8, 8)]),
        "grid_sample": (lambda a, g: F.grid_sample(a, g, align_corners=False), [x(1, 2, 5, 5), x(1, 4, 4, 2)]),
        "grid_sample 3d": (lambda a, g: F.grid_sample(a, g, align_corners=False), [x(1, 1, 4, 4, 4), x(1, 2, 2, 2, 3)]),
        "sdpa dropout": (lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.1), [x(1, 2, 8, 4)]),
        "sdpa mask": (lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(8, 8)), [x(1, 2, 8, 4)]),
        "stft": (lambda a: torch.stft(a, 64, return_complex=True, window=torch.hann_window(64)).abs(), [x(1, 400)]),
        "cdist": (lambda a, b: torch.cdist(a, b), [x(3, 4), x(5, 4)]),
        "solve": (lambda a, b: torch.linalg.solve(a @ a.T + 5 * torch.eye(3), b), [x(3, 4), x(3, 2)]),
    }
    for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact"):
        made[mode] = nn.Upsample(scale_factor=2, mode=mode), [x(1, 2, 4, 4)]
    return made


LAYERS = layers()


def scalar(out: Any) -> torch.Tensor:
    """A sum over every floating tensor of a result."""
    if isinstance(out, torch.Tensor):
        return out.sum() if out.is_floating_point() and out.requires_grad else torch.zeros(())
    return torch.stack([scalar(each) for each in out]).sum()


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_covered(record: Record, name: str, arguments_by_name: None) -> None:
    layer, inputs = LAYERS[name]
    recorded = record(lambda: scalar(layer(*inputs)).backward())
    assert recorded.calls
    assert recorded.notes() == []


@pytest.fixture
def arguments_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every argument that a formula takes by position and name stands there in the schema."""
    plain = Call.arg

    def checked(call: Call, index: int, name: str, default: Any = None) -> Any:
        overload = getattr(torch.ops, call.name.replace("::", ".").split(".")[0])
        packet = getattr(overload, call.name.split("::")[1])
        schema = getattr(packet, call.overload or "default")._schema
        # dual-use formulas ask for an argument that only some of their operators have
        if index < len(call.args):
            assert schema.arguments[index].name in (name, "self", "input", "x"), f"{schema}: {index} is not {name}"
        return plain(call, index, name, default)

    monkeypatch.setattr(Call, "arg", checked)


TARGET, CLASSES = torch.rand(4, 5), torch.tensor([1, 2, 3, 0])
LOSSES: dict[str, tuple[Callable[..., torch.Tensor], list[Any]]] = {
    "cross entropy": (nn.CrossEntropyLoss(label_smoothing=0.1), [x(4, 5), CLASSES]),
    "cross entropy weighted": (nn.CrossEntropyLoss(weight=torch.rand(5)), [x(4, 5), CLASSES]),
    "cross entropy 2d": (nn.CrossEntropyLoss(), [x(4, 5, 2, 2), torch.ones(4, 2, 2, dtype=torch.int64)]),
    "mse": (nn.MSELoss(), [x(4, 5), TARGET]),
    "l1": (nn.L1Loss(), [x(4, 5), TARGET]),
    "smooth l1": (nn.SmoothL1Loss(), [x(4, 5), TARGET]),
    "huber": (nn.HuberLoss(), [x(4, 5), TARGET]),
    "bce": (lambda a, b: F.binary_cross_entropy(a.sigmoid(), b), [x(4, 5), TARGET]),
    "bce with logits": (nn.BCEWithLogitsLoss(pos_weight=torch.rand(5)), [x(4, 5), TARGET]),
    "kl div": (nn.KLDivLoss(reduction="batchmean"), [x(4, 5), TARGET]),
    "ctc": (nn.CTCLoss(), [x(10, 2, 5), torch.ones(2, 3, dtype=torch.int64), (10, 10), (3, 3)]),
    "ctc tensors": (nn.CTCLoss(), [x(10, 2, 5), torch.ones(2, 3, dtype=torch.int64), *[torch.tensor([3, 3])] * 2]),
    "multi margin": (nn.MultiMarginLoss(), [x(4, 5), CLASSES]),
    "multilabel margin": (nn.MultiLabelMarginLoss(), [x(2, 4), torch.tensor([[1, 2, -1, 0], [0, 1, -1, 0]])]),
    "soft margin": (nn.SoftMarginLoss(), [x(2, 4), torch.ones(2, 4)]),
    "triplet": (nn.TripletMarginLoss(), [x(2, 4), x(2, 4), x(2, 4)]),
    "cosine": (nn.CosineEmbeddingLoss(), [x(2, 4), x(2, 4), torch.tensor([1, -1])]),
    "poisson": (nn.PoissonNLLLoss(), [x(4), torch.rand(4)]),
    "gaussian": (nn.GaussianNLLLoss(), [x(4), torch.rand(4), torch.rand(4)]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_covered(record: Record, name: str) -> None:
    loss, inputs = LOSSES[name]
    recorded = record(lambda: loss(*inputs).backward())
    assert recorded.notes() == []
    assert recorded.flops() > 0


def test_ctc_by_hand(record: Record) -> None:
    loss, inputs = LOSSES["ctc"]
    recorded = record(lambda: loss(*inputs).backward())
    # two sequences of 10 steps over 2*3 + 1 states, 11 each; back 15 each and 6 for each of 10*2*5 classes
    assert [w.flops_all for w in recorded.named("aten::_ctc_loss")] == [2 * 10 * 7 * 11]
    assert [w.flops_all for w in recorded.named("aten::_ctc_loss_backward")] == [2 * 10 * 7 * 15 + 600]


FUSED = ("SGD", "Adam", "AdamW", "Adagrad")  # have a fused form on a CPU
NAMES = ("RMSprop", "Adamax", "NAdam", "RAdam", "Adadelta", "ASGD", "Rprop", *FUSED)
WAYS = [(name, how) for name in NAMES for how in ("foreach", "loop", "fused") if how != "fused" or name in FUSED]


@pytest.mark.parametrize(("name", "how"), WAYS)
def test_optimizers_are_covered(record: Record, name: str, how: str) -> None:
    options: dict[str, Any] = {"foreach": how == "foreach"} if how != "fused" else {"fused": True}
    if name == "SGD":
        options |= {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}
    parameters = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5))]
    optimizer = getattr(torch.optim, name)(parameters, **options)

    def steps() -> None:
        for _ in range(2):
            optimizer.zero_grad()
            torch.stack([(p**2).sum() for p in parameters]).sum().backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()

    recorded = record(steps)
    assert recorded.notes() == []
    assert recorded.matrix() == 0


def test_torchvisions_operators(record: Record) -> None:
    import torchvision

    boxes = torch.tensor([[0.0, 0, 0, 3, 3], [0, 1, 1, 4, 4]])
    recorded = record(
        lambda: torchvision.ops.roi_align(x(1, 2, 8, 8), boxes, (2, 2), sampling_ratio=2).sum().backward()
    )
    assert recorded.notes() == []
    # 2 boxes * 2 channels * 4 bins: 4 samples of 8 and a division; backward 4 samples of 8 and a division
    assert [w.flops_all for w in recorded.named("torchvision::roi_align")] == [16 * 33]
    assert [w.flops_all for w in recorded.named("torchvision::_roi_align_backward")] == [16 * 33]
    adaptive = record(lambda: torchvision.ops.roi_align(x(1, 2, 8, 8), boxes, (2, 2)))
    assert len(adaptive.notes()) == 1
    assert "without a sampling_ratio" in str(adaptive.notes()[0])
    deformed = record(
        lambda: torchvision.ops.deform_conv2d(x(1, 2, 5, 5), x(1, 18, 3, 3), x(3, 2, 3, 3)).sum().backward()
    )
    assert deformed.notes() == []
    assert deformed.matrix() == 3 * 2 * 9 * 3 * 2 * 9
    suppressed = record(lambda: torchvision.ops.nms(boxes[:, 1:], torch.tensor([0.5, 0.6]), 0.5))
    assert [w.note for w in suppressed.named("torchvision::nms")] == ["every pair of boxes is compared: an upper bound"]


def test_what_iterates_is_listed_with_its_reason(record: Record) -> None:
    (note,) = record(lambda: torch.linalg.svd(torch.randn(3, 4))).notes()
    assert note == "aten::_linalg_svd: how often the algorithm iterates depends on the data"


def test_the_catalogues_own_ctc_operators_are_counted_as_torchs(record: Record) -> None:
    from wcbench.tasks.speech.ctc import ctc_loss

    log_probs, labels = x(10, 2, 5).log_softmax(2), torch.ones(2, 3, dtype=torch.int64)
    recorded = record(
        lambda: ctc_loss(log_probs, labels, *[torch.tensor(n) for n in ([10, 10], [3, 3])]).sum().backward()
    )
    assert [w.flops_all for w in recorded.named("wcbench::ctc_loss")] == [2 * 10 * 7 * 11]
    assert [w.flops_all for w in recorded.named("wcbench::ctc_loss_backward")] == [2 * 10 * 7 * 15 + 600]
