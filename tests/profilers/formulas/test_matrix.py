"""Matrix-class FLOPs: public reports (shared/CASES.md, by number) with their right values, and loops that count."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from wcbench.profilers.formulas import Call, T, work

Record = Callable[..., Any]


def dense(*shape: int, dtype: str = "float32", storage: int | None = None) -> T:
    """A contiguous tensor in memory of its own."""
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= size
    dense.count += 1  # type: ignore[attr-defined]
    return T(storage or dense.count, 0, 0, shape, tuple(reversed(stride)), dtype)  # type: ignore[attr-defined]


dense.count = 0  # type: ignore[attr-defined]


def test_case_2_attention_on_a_cpu_forward_and_in_training(record: Record) -> None:
    q, k, v = (torch.randn(1, 12, 64, 64, requires_grad=True) for _ in range(3))
    recorded = record(lambda: F.scaled_dot_product_attention(q, k, v).sum().backward())
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    # forward 4*B*H*S^2*D = 4*12*64*64*64; backward five products instead of two: 10*12*64*64*64
    assert [w.flops_matrix for w in recorded.named(name)] == [12_582_912]
    assert [w.flops_matrix for w in recorded.named(f"{name}_backward")] == [31_457_280]
    assert recorded.matrix() == 12_582_912 + 31_457_280


def test_case_3_grouped_convolution(record: Record) -> None:
    net, x = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), torch.randn(1, 4, 8, 8, requires_grad=True)
    recorded = record(lambda: net(x).sum().backward())
    # 64 pixels * 4 channels * 9 taps * 1 input channel * 2 = 4608, once forward and once for each gradient
    assert [w.flops_matrix for w in recorded.named("aten::convolution")] == [4608]
    assert [w.flops_matrix for w in recorded.named("aten::convolution_backward")] == [4608 + 4608]
    for mask, expected in (([True, False, False], 4608), ([False, True, False], 4608), ([False, False, True], 0)):
        call = next(c for c in recorded.calls if c.name == "aten::convolution_backward")
        masked = Call(call.name, "", (*call.args[:10], mask), {}, call.out)
        assert work(masked).flops_matrix == expected


def test_case_4_transposed_convolution_takes_the_inputs_pixels(record: Record) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net, x = nn.ConvTranspose2d(192, 384, 2, stride=2), torch.randn(6, 192, 30, 96, requires_grad=True)
        recorded = record(lambda: net(x).sum().backward())
    # 2 * 6 * (30*96) * (192*384*2*2) = 10.192 GFLOP; 500 iterations 5.096 TFLOP; backward twice as much
    forward = 2 * 6 * 30 * 96 * 192 * 384 * 4
    assert round(forward / 1e9, 3) == 10.192
    assert [w.flops_matrix for w in recorded.named("aten::convolution")] == [forward]
    assert [w.flops_matrix for w in recorded.named("aten::convolution_backward")] == [2 * forward]


@pytest.mark.parametrize(
    ("function", "matrix", "every"),
    [
        # linear: 4*16*8 MAC = 1024 FLOP, and 64 additions of the bias
        (lambda: F.linear(torch.randn(4, 8), torch.randn(16, 8), torch.randn(16)), 1024, 1088),
        (lambda: torch.randn(8) @ torch.randn(8), 2 * 8, 2 * 8),
        (lambda: torch.randn(4, 8) @ torch.randn(8), 2 * 32, 2 * 32),
        # broadcast batch (2, 3), each 4x8 by 8x5: 2*3*160 = 960 MAC
        (lambda: torch.randn(2, 1, 4, 8) @ torch.randn(3, 8, 5), 2 * 960, 2 * 960),
        # bias of 5 broadcast to (4, 5): 320 + 20
        (lambda: torch.addmm(torch.randn(5), torch.randn(4, 8), torch.randn(8, 5)), 320, 340),
    ],
    ids=["linear", "vector by vector", "matrix by vector", "broadcast", "addmm"],
)
@pytest.mark.parametrize("inference", [False, True])
def test_case_5_the_matmul_family(
    record: Record, function: Callable[[], Any], matrix: int, every: int, inference: bool
) -> None:
    with torch.inference_mode(inference):
        recorded = record(function)
    assert (recorded.matrix(), recorded.flops()) == (matrix, every)


@pytest.mark.parametrize(
    ("options", "every"),
    [
        ({}, 320 + 20),
        ({"alpha": 2}, 320 + 20 + 20),  # each output is scaled
        ({"beta": 3}, 320 + 20 + 5),  # each element of the bias is scaled
        ({"alpha": 2, "beta": 3}, 320 + 20 + 20 + 5),
        ({"beta": 0}, 320),  # the added tensor is ignored
    ],
)
def test_beta_and_alpha(record: Record, options: dict[str, Any], every: int) -> None:
    bias, a, b = torch.randn(5), torch.randn(4, 8), torch.randn(8, 5)
    (done,) = record(lambda: torch.addmm(bias, a, b, **options)).works()
    assert (done.flops_matrix, done.flops_all) == (320, every)
    assert done.bytes_read == 4 * (32 + 40 + (0 if options.get("beta") == 0 else 5))


def test_case_7_a_shared_layer_counts_each_time_it_is_called(record: Record) -> None:
    layer, x = nn.Linear(100, 100, bias=False), torch.randn(1, 300)
    with torch.no_grad():
        recorded = record(lambda: [layer(part) for part in x.split(100, dim=1)])
    assert recorded.matrix() == 3 * 2 * 100 * 100 == 60_000


@pytest.mark.parametrize("kv_heads", [8, 2, 1])
def test_case_26_grouped_queries_count_the_querys_heads(record: Record, kv_heads: int) -> None:
    q, k, v = (torch.randn(1, heads, 256, 64) for heads in (8, kv_heads, kv_heads))
    recorded = record(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    assert recorded.matrix() == 134_217_728  # 4 * 8 * 256^2 * 64
    q_, k_, v_ = dense(1, 8, 256, 64), dense(1, kv_heads, 256, 64), dense(1, kv_heads, 256, 64)
    flash = Call("aten::_scaled_dot_product_flash_attention", "", (q_, k_, v_), {}, (dense(1, 8, 256, 64),))
    assert work(flash).flops_matrix == 134_217_728
    raw = tuple(dense(1, 256, heads, 64) for heads in (8, kv_heads, kv_heads))
    kernel = Call("aten::_flash_attention_forward", "", (*raw, None, None, 256, 256, 0.0, False, False), {}, raw[:1])
    assert work(kernel).flops_matrix == 134_217_728


def test_case_28_causal_attention_in_full_and_in_half(record: Record) -> None:
    q, k, v = (torch.randn(1, 2, 8, 4, requires_grad=True) for _ in range(3))
    recorded = record(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward())
    full, half = 2 * 2 * 64 * 2 * 4 + 2 * 2 * 64 * 5 * 4, 2 * 64 * 2 * 4 + 2 * 64 * 5 * 4
    assert (recorded.matrix(), recorded.matrix(causal="full"), recorded.matrix(causal="half")) == (full, full, half)
    assert recorded.flops(causal="half") < recorded.flops()
    notes = [w.note for w in recorded.works() if w.note]
    assert notes == ["causal attention, all scores counted"] * 2
    plain = record(lambda: F.scaled_dot_product_attention(q, k, v))
    assert plain.matrix(causal="half") == plain.matrix()
    with pytest.raises(ValueError, match="'full' or 'half'"):
        recorded.matrix(causal="some")


def test_case_29_attention_is_counted_once(record: Record) -> None:
    q, k, v = (torch.randn(2, 5, 9, 4) for _ in range(3))
    assert record(lambda: F.scaled_dot_product_attention(q, k, v)).matrix() == 12_960  # 4 * 2*5 * 81 * 4
    with torch.inference_mode():
        assert record(lambda: F.scaled_dot_product_attention(q, k, v)).matrix() == 12_960


def test_attention_by_separate_operators_equals_the_fused_forward(record: Record) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(2, 3, 9, 4) for _ in range(3))
    with sdpa_kernel(SDPBackend.MATH):
        recorded = record(lambda: F.scaled_dot_product_attention(q, k, v))
    assert not recorded.named("aten::_scaled_dot_product_flash_attention_for_cpu")
    assert recorded.matrix() == 4 * 2 * 3 * 81 * 4


def test_case_30_inference_mode_counts_what_no_grad_counts(record: Record) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        expected = record(lambda: net(x))
    with torch.inference_mode():
        whole, parts = record(lambda: net(x)), record(lambda: net(x), decompose=True)
    # conv 2*2*36*(4*27), linear 2*2*144*5
    assert expected.matrix() == whole.matrix() == parts.matrix() == 2 * 2 * 36 * 108 + 2 * 2 * 144 * 5
    assert expected.flops() == parts.flops()
    assert expected.notes() == parts.notes() == []


def test_case_31_a_custom_operator_is_named_and_its_operands_are_moved(record: Record) -> None:
    @torch.library.custom_op("wcbench_test::hidden_mm", mutates_args=())
    def hidden_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.mm(b)

    recorded = record(lambda: hidden_mm(torch.ones(4, 8), torch.ones(8, 2)))
    (hidden,) = recorded.named("wcbench_test::hidden_mm")
    assert not hidden.covered
    assert hidden.note == "wcbench_test::hidden_mm: no formula"
    assert (hidden.bytes_read, hidden.bytes_written) == (4 * (32 + 16), 4 * 8)


def test_case_32_a_higher_order_operator_is_listed_not_a_crash() -> None:
    q = dense(1, 2, 8, 4)
    call = Call("higher_order::flex_attention", "", (q, q, q, max, (8, 8, object()), 0.5, {"BLOCK": 1}, (), ()), {}, q)
    done = work(call)
    assert (done.covered, done.flops_all) == (False, 0)
    assert done.note == "higher_order::flex_attention: no formula"


def test_case_36_a_convolutional_nets_step_is_about_three_forwards(record: Record) -> None:
    import torchvision
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net, x = torchvision.models.resnet18(num_classes=10), torch.randn(1, 3, 224, 224)
        forward = record(lambda: net(x)).matrix()
        step = record(lambda: net(x).sum().backward()).matrix()
    # the report's 3,627,132,948 has 20 more than convolutions and the last layer's product, for its 10 biases
    assert forward == 3_627_132_948 - 20
    first = 2 * 112 * 112 * 64 * 3 * 49  # whose input needs no gradient
    assert step == 3 * forward - first
    assert step / forward == pytest.approx(3, abs=0.1)


SPELLINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "@": lambda a, b: a @ b,
    "mm": torch.mm,
    "matmul": torch.matmul,
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "tensordot": lambda a, b: torch.tensordot(a, b, dims=1),
    "linear": lambda a, b: F.linear(a, b.t()),
    "addmm": lambda a, b: torch.addmm(torch.zeros(6), a, b),
    "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    "baddbmm": lambda a, b: torch.baddbmm(torch.zeros(1, 5, 6), a[None], b[None]),
    "addbmm": lambda a, b: torch.addbmm(torch.zeros(5, 6), a[None], b[None]),
    "mv": lambda a, b: [torch.mv(a, column) for column in b.t()],
    "addmv": lambda a, b: [torch.addmv(torch.zeros(5), a, column) for column in b.t()],
    "dot": lambda a, b: [torch.dot(row, column) for row in a for column in b.t()],
    "inner": lambda a, b: torch.inner(a, b.t()),
    "multi_dot": lambda a, b: torch.linalg.multi_dot([a, b]),
    "out": lambda a, b: torch.mm(a, b, out=torch.empty(5, 6)),
    "in place": lambda a, b: torch.zeros(5, 6).addmm_(a, b),
    "conv1d": lambda a, b: F.conv1d(a[:, :, None], b.t()[:, :, None]),
}


COMPOSITES = (
    "einsum",
    "tensordot",
    "multi_dot",
)  # take other paths by their arguments; inference_mode shows them whole


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("inference", [False, True])
def test_case_41_every_spelling_of_a_product_is_one_number(record: Record, spelling: str, inference: bool) -> None:
    a, b = torch.randn(5, 7), torch.randn(7, 6)
    with torch.inference_mode(inference):
        recorded = record(lambda: SPELLINGS[spelling](a, b), decompose=inference and spelling in COMPOSITES)
    assert recorded.matrix() == 2 * 5 * 7 * 6
    assert recorded.notes() == []


def test_case_41_gelu_counts(record: Record) -> None:
    assert record(lambda: F.gelu(torch.ones(2, 3))).flops() == 5 * 6


def test_case_44_experts_count_the_tokens_that_they_see(record: Record) -> None:
    experts = [nn.Linear(8, 4, bias=False) for _ in range(5)]
    tokens, choice = torch.randn(6, 8), torch.tensor([0, 3, 3, 1, 0, 3])
    with torch.no_grad():
        recorded = record(lambda: [experts[e](tokens[choice == e]) for e in range(5) if (choice == e).any()])
    assert recorded.matrix() == 2 * 6 * 8 * 4  # as many as one dense layer of one expert's size
    grouped = Call("aten::_grouped_mm", "", (dense(6, 8), dense(5, 8, 4), dense(5, dtype="int32")), {}, dense(6, 4))
    assert work(grouped).flops_matrix == 2 * 6 * 8 * 4
    weight_gradient = Call("aten::_grouped_mm", "", (dense(8, 6), dense(6, 4), dense(5)), {}, dense(5, 8, 4))
    assert work(weight_gradient).flops_matrix == 2 * 6 * 8 * 4


def counted_macs(x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], groups: int, transposed: bool) -> int:
    """Multiply-accumulates by walking the loops: each place, each pair of channels of one group, each tap."""
    pixels = x[2:] if transposed else out[2:]
    inside, outside = x[1], out[1]
    pairs = [(i, o) for i in range(inside) for o in range(outside) if i * groups // inside == o * groups // outside]
    return x[0] * sum(1 for _ in itertools.product(*map(range, pixels), pairs, *map(range, w[2:])))


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_case_46_convolutions_of_any_kind_against_loops(record: Record, data: st.DataObject) -> None:
    draw, size = data.draw, st.integers(1, 2)
    axes, groups, transposed = draw(st.integers(1, 3)), draw(size), draw(st.booleans())
    inside, outside = groups * draw(size), groups * draw(st.integers(1, 3))
    kernel, stride, padding, dilation = (draw(st.integers(low, 2)) for low in (1, 1, 0, 1))
    x = torch.randn(draw(size), inside, *(5 - axes % 2,) * axes, requires_grad=True)
    kind = (
        (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
        if transposed
        else (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    )
    options = {"stride": stride, "padding": min(padding, kernel - 1), "dilation": dilation, "groups": groups}
    net = kind[axes - 1](inside, outside, kernel, **options)
    recorded = record(lambda: net(x).sum().backward())
    (forward,), (backward,) = recorded.named("aten::convolution"), recorded.named("aten::convolution_backward")
    out = net(x)
    macs = counted_macs(tuple(x.shape), tuple(net.weight.shape), tuple(out.shape), groups, transposed)
    assert forward.flops_matrix == 2 * macs
    assert forward.flops_all - forward.flops_matrix == out.numel()  # the bias
    assert backward.flops_matrix == 2 * forward.flops_matrix
    assert backward.flops_all - backward.flops_matrix == out.numel()  # the bias's gradient


def test_case_46_input_and_output_channels_are_not_mixed_up(record: Record) -> None:
    x = torch.randn(1, 3, 4, 4)
    with torch.no_grad():
        recorded = record(lambda: nn.ConvTranspose2d(3, 5, 2, bias=False)(x))
    assert [w.flops_matrix for w in recorded.named("aten::convolution")] == [2 * 16 * 3 * 5 * 4]


def test_spellings_of_a_convolution() -> None:
    x, w, b, out = dense(2, 4, 8, 8), dense(6, 2, 3, 3), dense(6), dense(2, 6, 8, 8)
    matrix = 2 * 2 * 64 * 6 * 2 * 9
    three = ([1, 1], [1, 1], [1, 1])
    calls = {
        "convolution": (x, w, b, *three, False, [0, 0], 2),
        "_convolution": (x, w, b, *three, False, [0, 0], 2, False, False, True, True),
        "mkldnn_convolution": (x, w, b, *three, 2),
        "miopen_convolution": (x, w, b, *three, 2, False, False),
        "cudnn_convolution_relu": (x, w, b, *three, 2),
        "conv2d": (x, w, b, *three, 2),
        "_slow_conv2d_forward": (x, w, [3, 3], b, *three[:2]),
        "slow_conv_dilated2d": (x, w, [3, 3], b, *three),
        "_conv_depthwise2d": (x, w, [3, 3], b, *three),
    }
    for name, args in calls.items():
        done = work(Call(f"aten::{name}", "", args, {}, out))
        assert (name, done.flops_matrix, done.flops_all) == (name, matrix, matrix + out.numel), done.note
    plain = work(Call("aten::cudnn_convolution", "", (x, w, *three, 2, False, False, True), {}, out))
    assert plain.flops_matrix == plain.flops_all == matrix
    added = work(Call("aten::cudnn_convolution_add_relu", "", (x, w, out, 1, b, *three, 2), {}, dense(2, 6, 8, 8)))
    assert added.flops_all == matrix + 2 * out.numel


def test_convolution_reads_only_what_a_gradient_needs() -> None:
    g, x, w = dense(1, 4, 8, 8), dense(1, 2, 8, 8), dense(4, 2, 3, 3)
    rest = ([4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    for_input = work(
        Call("aten::convolution_backward", "", (g, x, w, *rest, [True, False, False]), {}, (x, None, None))
    )
    assert for_input.bytes_read == 4 * (g.numel + w.numel)
    new_w = dense(4, 2, 3, 3)
    for_weight = Call("aten::convolution_backward", "", (g, x, w, *rest, [False, True, False]), {}, (None, new_w, None))
    assert work(for_weight).bytes_read == 4 * (g.numel + x.numel)
    assert work(for_weight).bytes_written == 4 * new_w.numel


def test_method_4_3_by_hand(record: Record) -> None:
    mlp, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)), torch.randn(4, 16)
    assert record(lambda: mlp(x)).matrix() == 6144  # 2*4*16*32 + 2*4*32*8
    assert record(lambda: mlp(x).sum().backward()).matrix() == 14_336  # the first layer's input needs no gradient
    picture = torch.randn(2, 3, 10, 10)
    assert record(lambda: nn.Conv2d(3, 8, 3, padding=1)(picture)).matrix() == 86_400  # 2 * 2*100 * 8*27
    q = torch.randn(1, 1, 5, 8)
    assert record(lambda: F.scaled_dot_product_attention(q, q, q)).matrix() == 800  # 4 * 25 * 8


def test_where_torchs_counter_is_right_it_says_the_same(record: Record) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 10))
    x = torch.randn(2, 3, 16, 16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        net(x).sum().backward()
    assert record(lambda: net(x).sum().backward()).matrix() == counter.get_total_flops()


def test_complex_products_are_four_real_ones(record: Record) -> None:
    a = torch.randn(4, 4, dtype=torch.complex64)
    assert record(lambda: a @ a).matrix() == 8 * 64


def test_affine_grid_is_the_product_that_its_backward_shows(record: Record) -> None:
    theta = torch.randn(2, 2, 3, requires_grad=True)
    recorded = record(lambda: F.affine_grid(theta, (2, 1, 28, 28), align_corners=False).sum().backward())
    (grid,) = recorded.named("aten::affine_grid_generator")
    (backward,) = recorded.named("aten::bmm")
    assert grid.flops_matrix == backward.flops_matrix == 2 * (2 * 28 * 28 * 3 * 2) == 2 * 9408


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_in_one_operator_counts_its_products(
    record: Record, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = getattr(nn, kind)(7, 5, num_layers=2, bidirectional=True)
    x = torch.randn(3, 2, 7)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    # 6 tokens; layer 1: (7 + 5) inputs, layer 2: (10 + 5), for 5*gates outputs in two directions
    matrix = 2 * 6 * 2 * 5 * gates * ((7 + 5) + (10 + 5))
    with torch.inference_mode():  # the composite whole
        assert record(lambda: net(x)).matrix() == matrix
    for enabled in (True, False):  # an LSTM is one operator of oneDNN, or its products
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", enabled)
        with torch.no_grad():
            assert record(lambda: net(x)).matrix() == matrix
    weights = [dense(*p.shape) for p in net.parameters()]
    mode = {"LSTM": 2, "GRU": 3, "RNN": 1}[kind]
    args = (dense(3, 2, 7), weights, 4, None, dense(4, 2, 5), None, mode, 5, 0, 2, False, 0.0, True, True, [], None)
    assert work(Call("aten::_cudnn_rnn", "", args, {}, (dense(3, 2, 10),))).flops_matrix == matrix


def test_an_lstms_fused_layer_counts_all_that_its_parts_count(record: Record) -> None:
    net, x = nn.LSTM(7, 5), torch.randn(3, 2, 7, requires_grad=True)
    fused = record(lambda: net(x)[0].sum().backward())
    (forward,), (backward,) = (
        fused.named("aten::mkldnn_rnn_layer"),
        fused.named("aten::mkldnn_rnn_layer_backward"),
    )
    # 6 tokens * 20 gate units * 12 inputs; beside them 6*5 units: 13, and 8 for the biases
    assert (forward.flops_matrix, forward.flops_all) == (2 * 6 * 20 * 12, 2 * 6 * 20 * 12 + 30 * 21)
    assert backward.flops_matrix == 2 * forward.flops_matrix
    assert backward.flops_all - backward.flops_matrix == 30 * (23 + 4)


def test_projections_of_an_lstm() -> None:
    # hidden 5 projected to 3: w_ih (20, 7), w_hh (20, 3), w_hr (3, 5)
    weights = [dense(20, 7), dense(20, 3), dense(20), dense(20), dense(3, 5)]
    args = (dense(4, 2, 7), [dense(1, 2, 3), dense(1, 2, 5)], weights, True, 1, 0.0, True, False, False)
    done = work(Call("aten::lstm", "input", args, {}, (dense(4, 2, 3),)))
    assert done.flops_matrix == 2 * 8 * (20 * 7 + 20 * 3 + 3 * 5)
