"""FLOPs of the pass `operators` and parameters against hand arithmetic. 1 multiply-accumulate = 2 FLOP."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from wcbench.profilers.capture import Captured, capture
from wcbench.profilers.formulas import Work, work
from wcbench.profilers.operators import as_call
from wcbench.profilers.recorder import CallNote, Recorder
from wcbench.profilers.request import Request
from wcbench.tasks.base import Built, Config, Task

Run = Callable[..., Captured]


def recorded(run_: Callable[[], Any], *modules: nn.Module) -> list[tuple[CallNote, Work]]:
    """The operators of what a function does, with their work."""
    recorder = Recorder({f"model{i}": module for i, module in enumerate(modules)})
    with recorder.step(0):
        run_()
    return [(note, work(as_call(note))) for note in recorder.stream.calls]


def counted(run_: Callable[[], Any], *modules: nn.Module) -> dict[str, int]:
    """Matrix-class FLOPs by phase of what a function does."""
    flops: dict[str, int] = {}
    for note, done in recorded(run_, *modules):
        assert done.covered, done.note
        if done.flops_matrix:
            flops[note.phase] = flops.get(note.phase, 0) + done.flops_matrix
    return flops


def last_step(captured: Captured) -> pd.DataFrame:
    table = captured.tables["operators"].to_pandas()
    rows: pd.DataFrame = table[table["step"] == table["step"].max()]
    return rows


def by_phase(captured: Captured) -> dict[str, int]:
    """Matrix-class FLOPs by phase of the last recorded step."""
    sums = last_step(captured).groupby("phase", observed=True)["flops_matrix"].sum()
    return {str(phase): int(value) for phase, value in sums.items() if value}


def by_name(captured: Captured) -> pd.DataFrame:
    return last_step(captured).set_index("name")


@pytest.fixture
def no_onednn() -> Iterator[None]:
    """As the pass has it, so that recurrences show their products."""
    before = torch.backends.mkldnn.enabled
    setattr(torch.backends.mkldnn, "enabled", False)  # noqa: B010
    yield
    setattr(torch.backends.mkldnn, "enabled", before)  # noqa: B010


# --- by the pass ----------------------------------------------------------------------------------------------------


def test_mlp_16_32_8_at_batch_4(run: Run, mlp: Task) -> None:
    flops = by_phase(run(mlp, "operators"))
    assert flops["forward"] == 6144  # 2*4*16*32 + 2*4*32*8
    assert flops["backward"] == 8192  # both weights' gradients, and the input's of the second layer alone
    assert sum(flops.values()) == 14336


def test_conv_3_to_8_padded_on_two_images(run: Run, conv: Task) -> None:
    """METHOD 4.3's 86,400 is the padded case: 2 images * 8*10*10 outputs * 27 products * 2; unpadded it is 55,296."""
    flops = by_phase(run(conv, "operators", batch_size=2))
    assert flops["forward"] == 2 * 2 * 8 * 10 * 10 * 3 * 9 == 86_400
    assert flops["backward"] == 2 * 86_400  # gradients of input and weight
    unpadded = nn.Conv2d(3, 8, 3)
    assert counted(lambda: unpadded(torch.ones(2, 3, 10, 10)), unpadded)["forward"] == 2 * 2 * 8 * 8 * 8 * 27 == 55_296


def test_it_is_counted_on_fake_tensors_of_the_paper(mlp: Task) -> None:
    info = capture(mlp, Request(passes=["operators"])).passes["operators"]
    assert (info.preset, info.tensors, info.device, info.steps, info.warmup) == ("paper", "fake", "cpu", 2, 1)


def test_a_model_that_fits_no_memory(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        model = nn.Linear(1 << 20, 1 << 20, bias=False)  # 4 TiB
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Built(step, lambda i: torch.ones(1, 1 << 20), {"model": model}, 1, {"sgd": optimizer})

    captured = run(task_of(build), "operators")
    assert by_phase(captured) == {"forward": 2 << 40, "backward": 2 << 40}
    assert captured.tables["parameters"]["numel"].to_pylist() == [1 << 40]


def test_case_39_counting_twice_gives_the_same(run: Run, mlp: Task) -> None:
    first, second = run(mlp, "operators"), run(mlp, "operators")
    for name in ("operators", "storages", "parameters"):
        assert first.tables[name].equals(second.tables[name])
    assert by_phase(run(mlp, "operators", steps=5)) == by_phase(first)  # --steps is of timed passes


@pytest.mark.usefixtures("torch_unchanged")
def test_onednn_is_off_inside_and_back_afterwards(run: Run, task_of: Any) -> None:
    seen = []

    def build(config: Config) -> Built:
        model = nn.LSTM(16, 32)
        step = lambda x: seen.append(torch.backends.mkldnn.enabled) or model(x)[0].sum().detach()  # noqa: E731
        return Built(step, lambda i: torch.ones(5, 4, 16), {"lstm": model}, 4)

    before = torch.backends.mkldnn.enabled
    captured = run(task_of(build), "operators")
    assert seen == [False] * (3 + 2 + 2)  # and at twice and four times the batch
    assert torch.backends.mkldnn.enabled is before
    # 5 steps * 4 sequences * (16 + 32 inputs) * 4 gates of 32, twice
    assert by_phase(captured)["forward"] == 2 * 5 * 4 * (16 + 32) * 4 * 32 == 245_760


def test_a_step_that_looks_at_data_is_counted_on_real_tensors_and_says_so(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        model = nn.Linear(8, 4)

        def step(x: Tensor) -> Tensor:
            y: Tensor = model(x)
            return y.sum().detach() * (1 if y.sum().item() > 0 else 2)

        return Built(step, lambda i: torch.ones(4, 8), {"model": model}, 4)

    captured = run(task_of(build), "operators")
    assert captured.passes["operators"].tensors == "real"
    assert captured.passes["operators"].preset == "tiny"
    assert by_phase(captured) == {"forward": 2 * 4 * 8 * 4}
    (note,) = captured.notes
    assert note.about == "operators"
    assert "not possible on fake tensors" in note.text
    assert "real tensors at preset tiny" in note.text
    assert "_local_scalar_dense" not in " ".join(captured.tables["operators"]["name"].to_pylist())


def test_the_first_step_is_never_the_counted_one(run: Run, task_of: Any) -> None:
    """It creates the optimizer's state; also without a warm-up, and also on real tensors."""
    for looks in (False, True):

        def build(config: Config, looks: bool = looks) -> Built:
            model = nn.Linear(8, 4)
            seen = []

            def step(x: Tensor) -> Tensor:
                y: Tensor = model(x) if seen else model(model.weight) + model(x)[:, :1].sum()
                seen.append(y.sum().item() if looks else 0)
                return y.sum().detach()

            return Built(step, lambda i: torch.ones(4, 8), {"model": model}, 4)

        assert by_phase(run(task_of(build), "operators", warmup=0)) == {"forward": 2 * 4 * 8 * 4}


# --- convolutions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("input_gradient", [True, False])
def test_case_3_depthwise(input_gradient: bool) -> None:
    conv = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)
    x = torch.ones(1, 4, 8, 8, requires_grad=input_gradient)
    flops = counted(lambda: conv(x).sum().backward(), conv)
    # 4 channels * 64 outputs * 9 products, twice: forward, input gradient and weight gradient alike
    assert flops == {"forward": 4608, "backward": 4608 * (1 + input_gradient)}


def test_case_4_transposed_uses_the_inputs_extent() -> None:
    conv = nn.ConvTranspose2d(192, 384, 2, stride=2)
    x = torch.ones(6, 192, 30, 96, device="meta", requires_grad=True)
    conv.to("meta")
    flops = counted(lambda: conv(x).sum().backward(), conv)
    assert flops["forward"] == 2 * 6 * 30 * 96 * 192 * 384 * 4 == 10_192_158_720  # 5.096 TFLOP in 500 iterations
    assert flops["backward"] == 2 * flops["forward"]


def products(conv: nn.Module, x: Tensor) -> int:
    """FLOPs of a convolution without padding, counted by arithmetic: with ones everywhere, outputs count products."""
    for parameter in conv.parameters():
        nn.init.ones_(parameter)
    with torch.no_grad():
        return 2 * int(conv(torch.ones_like(x)).double().sum())


@pytest.mark.parametrize(
    ("conv", "shape"),
    [
        (nn.Conv1d(4, 6, 3, bias=False), (2, 4, 11)),
        (nn.Conv2d(8, 16, 3, stride=2, groups=2, bias=False), (2, 8, 9, 7)),
        (nn.Conv2d(4, 8, (1, 3), dilation=2, groups=4, bias=False), (3, 4, 6, 9)),
        (nn.Conv3d(2, 3, 2, bias=False), (1, 2, 4, 5, 6)),
        (nn.ConvTranspose2d(8, 6, 3, stride=2, groups=2, bias=False), (2, 8, 5, 5)),
        (nn.ConvTranspose1d(3, 5, 4, bias=False), (2, 3, 7)),
    ],
    ids=lambda value: str(value) if isinstance(value, tuple) else type(value).__name__,
)
def test_any_convolution_by_counting_its_products(conv: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.ones(*shape, requires_grad=True)
    expected = products(conv, x)
    assert counted(lambda: conv(x).sum().backward(), conv) == {"forward": expected, "backward": 2 * expected}


# --- products -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flops", "product"),
    [
        (1024, lambda: F.linear(torch.ones(4, 8), torch.ones(16, 8), torch.ones(16))),
        (320, lambda: torch.addmm(torch.ones(5), torch.ones(4, 8), torch.ones(8, 5))),
        (1920, lambda: torch.ones(2, 1, 4, 8) @ torch.ones(3, 8, 5)),
        (320, lambda: torch.ones(4, 8) @ torch.ones(8, 5)),
        (320, lambda: torch.einsum("ij,jk->ik", torch.ones(4, 8), torch.ones(8, 5))),
        (320, lambda: torch.tensordot(torch.ones(4, 8), torch.ones(8, 5), 1)),
        (320, lambda: torch.ones(1, 4, 8).bmm(torch.ones(1, 8, 5))),
        (320, lambda: torch.baddbmm(torch.ones(1, 4, 5), torch.ones(1, 4, 8), torch.ones(1, 8, 5))),
    ],
)
@pytest.mark.usefixtures("no_onednn")
def test_case_41_spellings_of_a_product(flops: int, product: Callable[[], Tensor]) -> None:
    """Multiplications and additions of the product; the addition of a bias is no part of it."""
    assert counted(product) == {"forward": flops}


@pytest.mark.parametrize("factor", [1, 2])
def test_case_2_attention_on_a_cpu(factor: int) -> None:
    q, k, v = (torch.ones(factor, 12, 64, 64, requires_grad=True) for _ in range(3))
    flops = counted(lambda: F.scaled_dot_product_attention(q, k, v).sum().backward())
    assert flops["forward"] == 12_582_912 * factor  # 4 * B * H * S^2 * D
    assert flops["backward"] == flops["forward"] * 5 // 2  # five products instead of two


@pytest.mark.usefixtures("no_onednn")
def test_case_2_attention_with_dropout_in_train_mode() -> None:
    q, k, v = (torch.ones(1, 12, 64, 64, requires_grad=True) for _ in range(3))
    flops = counted(lambda: F.scaled_dot_product_attention(q, k, v, dropout_p=0.1).sum().backward())
    assert flops == {"forward": 12_582_912, "backward": 2 * 12_582_912}  # the scores are kept, not made again


def test_case_29_attention_is_not_counted_twice() -> None:
    q = torch.ones(2, 5, 9, 4)
    assert counted(lambda: F.scaled_dot_product_attention(q, q, q)) == {"forward": 4 * 2 * 5 * 9 * 9 * 4}
    assert 4 * 2 * 5 * 9 * 9 * 4 == 12_960


@pytest.mark.parametrize("kv_heads", [1, 8, 32])
@pytest.mark.usefixtures("no_onednn")
def test_case_26_grouped_queries_count_the_querys_heads(kv_heads: int) -> None:
    q, k = torch.ones(1, 32, 16, 8), torch.ones(1, kv_heads, 16, 8)
    flops = counted(lambda: F.scaled_dot_product_attention(q, k, k, enable_gqa=True))
    assert flops == {"forward": 4 * 32 * 16 * 16 * 8}


@pytest.mark.usefixtures("no_onednn")
def test_cross_attention_takes_both_lengths() -> None:
    q, k = torch.ones(2, 3, 10, 8), torch.ones(2, 3, 20, 8)
    assert counted(lambda: F.scaled_dot_product_attention(q, k, k)) == {"forward": 4 * 2 * 3 * 10 * 20 * 8}


@pytest.mark.usefixtures("no_onednn")
def test_an_lstm_forward_and_backward() -> None:
    lstm = nn.LSTM(16, 32)
    flops = counted(lambda: lstm(torch.ones(5, 4, 16))[0].sum().backward(), lstm)
    gates = 4 * 32
    assert flops["forward"] == 2 * 20 * (16 + 32) * gates
    # weights' gradients of all 5 steps, and the state's of the 4 steps that have one before them
    assert flops["backward"] == 2 * 20 * (16 + 32) * gates + 2 * 16 * 32 * gates == 376_832


@pytest.mark.usefixtures("no_onednn")
def test_case_30_the_same_count_whether_autograd_is_on_or_not() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(800, 10))
    x = torch.ones(2, 3, 10, 10)
    expected = {"forward": 86_400 + 2 * 2 * 800 * 10}
    for mode in (contextlib.nullcontext, torch.no_grad, torch.inference_mode):
        with mode():
            assert counted(lambda: model(x), model) == expected


def test_case_7_a_layer_used_three_times_counts_three_times(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        layer = nn.Linear(100, 100)
        step = lambda x: sum(layer(part).sum() for part in x.split(100, dim=1)).detach()  # noqa: E731
        return Built(step, lambda i: torch.ones(1, 300), {"model": layer}, 1)

    captured = run(task_of(build), "operators")
    assert by_phase(captured) == {"forward": 60_000}
    assert captured.tables["parameters"]["numel"].to_pylist() == [10_000, 100]


# --- phases ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_onednn")
def test_recomputation_counts_as_backward() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
    plain = counted(lambda: model(torch.ones(4, 16)).sum().backward(), model)
    again = counted(lambda: checkpoint(model, torch.ones(4, 16), use_reentrant=False).sum().backward(), model)  # type: ignore[union-attr]
    assert plain == {"forward": 6144, "backward": 8192}
    # torch stops recomputing once it has all that backward needs: the last product is not made again
    assert again["forward"] == 6144
    assert again["backward"] in (8192 + 4096, 8192 + 6144)


@pytest.mark.usefixtures("no_onednn")
def test_each_phase_counts_its_own_calls() -> None:
    model, teacher = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        with torch.no_grad():
            target = teacher(torch.ones(4, 8))
        (model(torch.ones(4, 8)) - target).abs().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    recorder = Recorder({"model": model, "teacher": teacher}, {"adam": optimizer})
    with recorder.step(0):
        step()
    calls = Counter((note.info.name, note.phase) for note in recorder.stream.calls)
    assert calls["aten::mm", "forward"] == 2  # the teacher's too
    assert calls["aten::mm", "backward"] == 1
    assert {name for name, phase in calls if phase == "optimizer" and "sqrt" in name} == {"aten::_foreach_sqrt"}
    assert any("norm" in name for name, phase in calls if phase == "other")
    assert {phase for name, phase in calls if "foreach_sqrt" in name} == {"optimizer"}


def test_an_optimizers_closure_is_forward_and_backward() -> None:
    model = nn.Linear(8, 1, bias=False)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(torch.ones(4, 8)).square().sum()
        loss.backward()
        return loss

    flops = counted(lambda: optimizer.step(closure), model)  # type: ignore[arg-type]
    assert flops["forward"] == 2 * 4 * 8
    assert flops["backward"] == 2 * 4 * 8


# --- coverage -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def custom_ops() -> tuple[Any, Any]:
    """Two products hidden in custom operators: one whose name says what it is, one whose name does not."""

    @torch.library.custom_op("wcbench_test::custom_gemm", mutates_args=())
    def gemm(a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    @gemm.register_fake
    def _(a: Tensor, b: Tensor) -> Tensor:
        return a.new_empty(a.shape[0], b.shape[1])

    @torch.library.custom_op("wcbench_test::riddle", mutates_args=())
    def riddle(a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    @riddle.register_fake
    def _(a: Tensor, b: Tensor) -> Tensor:
        return a.new_empty(a.shape[0], b.shape[1])

    return gemm, riddle


def test_case_31_custom_operators_are_not_silently_zero(run: Run, task_of: Any, custom_ops: tuple[Any, Any]) -> None:
    gemm, riddle = custom_ops

    def build(config: Config) -> Built:
        a, b = torch.ones(4, 8), torch.ones(8, 8)
        step = lambda x: (gemm(x, b) + riddle(x, b) + x @ b).sum()  # noqa: E731
        return Built(step, lambda i: a.clone(), {}, 4)

    captured = run(task_of(build), "operators")
    table = by_name(captured)
    assert by_phase(captured) == {"forward": 2 * 4 * 8 * 8}
    for name in ("wcbench_test::custom_gemm", "wcbench_test::riddle"):
        assert not table.loc[name, "covered"]
        assert pd.isna(table.loc[name, "flops_matrix"])
        assert pd.isna(table.loc[name, "flops_all"])
        assert table.loc[name, "bytes_read"] == 4 * (4 * 8 + 8 * 8)  # its operands are known without a formula
        assert any(name in note.text and "missing from every total" in note.text for note in captured.notes)


def test_other_classes_have_flops_of_their_own() -> None:
    done = [work_ for _, work_ in recorded(lambda: F.relu(torch.ones(4, 4)).exp().sum())]
    assert {w.flops_matrix for w in done} == {0}
    # relu compares, exp is 1 an output element, a sum 1 an input element; ones fill
    assert sum(w.flops_all for w in done) == 16 + 16


# --- parameters -----------------------------------------------------------------------------------------------------


def parameters(captured: Captured) -> pd.DataFrame:
    return captured.tables["parameters"].to_pandas()


def still(modules: dict[str, nn.Module], optimizers: dict[str, torch.optim.Optimizer] | None = None) -> Built:
    return Built(lambda x: x.sum(), lambda i: torch.ones(4), modules, 4, optimizers or {})


def test_case_8_shared_and_tied_parameters_count_once(run: Run, task_of: Any) -> None:
    made = {}

    def build(config: Config) -> Built:
        shared = nn.Linear(10, 10)
        model = nn.ModuleDict(
            {
                "embedding": nn.Embedding(50, 10),
                "blocks": nn.ModuleList([nn.Sequential(shared, nn.ReLU()), nn.ModuleList([shared])]),
                "head": nn.Linear(10, 50, bias=False),
            }
        )
        model["head"].weight = model["embedding"].weight  # type: ignore[assignment]
        made["total"] = sum(p.numel() for p in model.parameters())
        return still({"model": model, "view": model["embedding"]})

    table = parameters(run(task_of(build), "operators"))
    once = table[table["shared_with"].isna()]
    assert made["total"] == 50 * 10 + 110
    assert once["numel"].sum() == 610
    again = table[table["shared_with"].notna()]
    assert dict(
        zip(again["model"].astype(str) + "." + again["name"].astype(str), again["shared_with"], strict=True)
    ) == {
        "model.blocks.1.0.weight": "model.blocks.0.0.weight",
        "model.blocks.1.0.bias": "model.blocks.0.0.bias",
        "model.head.weight": "model.embedding.weight",
        "view.weight": "model.embedding.weight",
    }
    assert table["nbytes"].tolist() == [4 * n for n in table["numel"]]


def test_frozen_half_and_optimizer_only_parameters(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2).to(torch.bfloat16))
        model[0].requires_grad_(False)
        loose = nn.Parameter(torch.zeros(7))
        optimizer = torch.optim.SGD([{"params": model[1].parameters()}, {"params": [loose]}], lr=0.1)
        return still({"net": model}, {"sgd": optimizer})

    table = parameters(run(task_of(build), "operators"))
    columns = ["model", "name", "shape", "dtype", "numel", "nbytes", "trainable"]
    rows = [
        tuple(v.tolist() if hasattr(v, "tolist") else v for v in row) for row in table[columns].itertuples(index=False)
    ]
    assert rows == [
        ("net", "0.weight", [3, 4], "float32", 12, 48, False),
        ("net", "0.bias", [3], "float32", 3, 12, False),
        ("net", "1.weight", [2, 3], "bfloat16", 6, 12, True),
        ("net", "1.bias", [2], "bfloat16", 2, 4, True),
        ("sgd", "group1.0", [7], "float32", 7, 28, True),
    ]


def test_a_task_without_parameters(run: Run, task_of: Any) -> None:
    captured = run(task_of(lambda c: still({})), "operators")
    assert "parameters" not in captured.tables or captured.tables["parameters"].num_rows == 0


# --- steps that differ, parameters that come late -------------------------------------------------------------------


def test_a_task_of_several_kinds_of_steps_is_told_how_they_are_weighed(
    run: Run, mlp: Task, task_of: Callable[..., Task]
) -> None:
    import dataclasses

    plain = mlp.build(mlp.configure("tiny"))
    two = dataclasses.replace(plain, kind=lambda index: "critic" if index % 6 else "generator")
    found = [note.text for note in run(task_of(lambda config: two), "operators").notes]
    told = "figures of an average step weigh each kind by its share in training: 0.167 generator, 0.833 critic."
    assert f"Steps differ in kind; {told}" in found
    assert not any("kinds" in note.text for note in run(mlp, "operators").notes)


def test_parameters_made_in_the_first_step_count(run: Run, task_of: Callable[..., Task]) -> None:
    def build(config: Config) -> Built:
        model = nn.LazyLinear(5)

        def step(batch: Tensor) -> Tensor:
            return model(batch).sum().detach()

        return Built(step, lambda index: torch.ones(4, 7), {"model": model}, 4)

    parameters = run(task_of(build), "operators").tables["parameters"].to_pandas()
    assert parameters["numel"].sum() == 7 * 5 + 5


# --- CASE 49: sums over modules, parameter bytes, a layer used many times --------------------------------------------


def test_case_49_resnet18_is_counted_once_not_once_a_module(run: Run, task_of: Callable[..., Task]) -> None:
    """torchvision publishes 1.814 GMAC for 224 x 224; adding non-leaf modules gave others 11.71 G."""
    import torchvision

    def build(config: Config) -> Built:
        with torch.device(config.device):
            model = torchvision.models.resnet18(weights=None)

        def step(batch: Tensor) -> Tensor:
            loss = model(batch).sum()
            loss.backward()
            return loss.detach()

        return Built(step, lambda index: torch.zeros(2, 3, 224, 224), {"model": model}, 2)

    captured = run(task_of(build), "operators")
    operators = captured.tables["operators"].to_pandas()
    forward = operators[(operators["step"] == 1) & (operators["phase"] == "forward")]["flops_matrix"].sum()
    assert forward / 2 / 2 == pytest.approx(1.814e9, rel=1e-3)  # two images, 2 FLOP a MAC
    parameters = captured.tables["parameters"].to_pandas()
    assert parameters["numel"].sum() == 11_689_512  # torchvision's own figure
    assert parameters["nbytes"].sum() == 4 * 11_689_512


def test_case_49_a_layer_used_a_hundred_times_keeps_a_hundred_activations(
    run: Run, task_of: Callable[..., Task]
) -> None:
    """Linear(64, 64) applied 100 times to (32, 64): its weight once, and each of the 100 inputs kept for the backward
    pass: the first is the batch, the others are activations of 32 x 64 x 4 = 8,192 B; the last output is alive beside
    them, as the step still names it."""

    def build(config: Config) -> Built:
        with torch.device(config.device):
            layer = nn.Linear(64, 64, bias=False)

        def step(batch: Tensor) -> Tensor:
            x = batch
            for _ in range(100):
                x = layer(x)
            loss = x.sum()
            loss.backward()
            layer.weight.grad = None
            return loss.detach()

        return Built(step, lambda index: torch.zeros(32, 64), {"layer": layer}, 32)

    captured = run(task_of(build), "operators")
    assert captured.tables["parameters"].to_pandas()["numel"].sum() == 64 * 64
    operators, storages = captured.tables["operators"].to_pandas(), captured.tables["storages"].to_pandas()
    first = operators.loc[operators["step"] == 1, "order"].min()
    kept = storages[(storages["role"] == "activation") & (storages["born"] >= first) & (storages["nbytes"] == 8192)]
    assert len(kept) == 99 + 1
    forward = operators[(operators["step"] == 1) & (operators["phase"] == "forward")]["flops_matrix"].sum()
    assert forward == 100 * 2 * 32 * 64 * 64
