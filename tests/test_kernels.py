"""The classifier against a corpus of real names labelled by hand, trap by trap, and over whole profiles."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcbench import kernels
from wcbench.errors import WcbenchError
from wcbench.kernels import FULL, NONE_OF_THE_EIGHT, PAPER, UNKNOWN, Category, classify, load_rules, rules

CORPUS = Path(__file__).with_name("corpus") / "kernel_names.tsv"
FAMILIES = CORPUS.with_name("name_families.tsv")
SHARED = Path(__file__).parents[1].parent / "shared"


class Name(NamedTuple):
    name: str
    host: bool
    full: str
    source: str


def read_corpus() -> list[Name]:
    with CORPUS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows[0] == ["name", "host", "full", "source"]
    return [Name(name, host == "1", full, source) for name, host, full, source in rows[1:]]


def read_families() -> list[Name]:
    with FAMILIES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows[0] == ["name", "host", "full"]
    return [Name(name, host == "1", full, "family") for name, host, full in rows[1:]]


CORPUS_NAMES = read_corpus()
FAMILY_NAMES = read_families()


def full(name: str, *, host: bool = False) -> str:
    return classify(name, host=host).full


# --- the corpus ----------------------------------------------------------------------------------------------------


def test_corpus_is_large_and_has_no_name_twice() -> None:
    assert len(CORPUS_NAMES) >= 350
    assert len({(row.name, row.host) for row in CORPUS_NAMES}) == len(CORPUS_NAMES)
    assert not [row.name for row in CORPUS_NAMES if "/home/" in row.name or "/Users/" in row.name]


def test_corpus_covers_every_category_on_the_side_where_it_can_occur() -> None:
    assert {row.full for row in CORPUS_NAMES} == set(FULL)
    assert "view and allocation" not in {row.full for row in CORPUS_NAMES if not row.host}


@pytest.mark.parametrize("names", [CORPUS_NAMES, FAMILY_NAMES], ids=["corpus", "families"])
def test_every_label_holds(names: list[Name]) -> None:
    wrong = [
        f"{row.full} expected, {got.full} by rule {got.rule}: {row.name[:200]}"
        for row in names
        if (got := classify(row.name, host=row.host)).full != row.full
    ]
    assert not wrong, "\n".join(wrong)


def test_families_are_many_and_none_is_a_name_of_the_corpus() -> None:
    keys = {(row.name, row.host) for row in FAMILY_NAMES}
    assert len(keys) == len(FAMILY_NAMES) >= 800
    assert not keys & {(row.name, row.host) for row in CORPUS_NAMES}


@pytest.mark.parametrize("mark", [".kd", " [clone .kd]", " (.kd)"])
def test_rocm_marks_of_kernel_descriptors_change_nothing(mark: str) -> None:
    for row in (*CORPUS_NAMES, *FAMILY_NAMES):
        if not row.host and ".kd" not in row.name and len(row.name) < kernels.MAX_NAME - len(mark):
            assert full(row.name + mark) == row.full, row.name


def test_labels_hold_in_upper_and_lower_case() -> None:
    for row in (*CORPUS_NAMES, *FAMILY_NAMES):
        assert full(row.name.upper(), host=row.host) == row.full, row.name
        assert full(row.name.lower(), host=row.host) == row.full, row.name


def test_cutting_a_name_loses_nothing_in_the_corpus() -> None:
    longest = max(len(row.name) for row in CORPUS_NAMES)
    assert longest > 4 * kernels.MAX_NAME  # a real one
    whole = load_rules()
    for row in CORPUS_NAMES:
        ops = kernels._aten_ops(kernels._key(row.name)) if row.host else ()
        side = whole._host if row.host else whole._device
        uncut = next(rule for rule in side if rule.matches(kernels._key(row.name), ops))
        assert uncut.category == row.full, row.name[:200]


# --- the rules -----------------------------------------------------------------------------------------------------


def test_paper_map_is_total_and_uses_the_eight_or_none() -> None:
    assert len(PAPER) == len(set(PAPER)) == 8
    assert set(FULL.values()) == {*PAPER, NONE_OF_THE_EIGHT}
    assert all(load_rules().reasons[name] for name in FULL)
    assert UNKNOWN not in FULL


def test_each_category_and_rule_says_the_same_paper_category() -> None:
    for row in CORPUS_NAMES:
        assert classify(row.name, host=row.host).paper == FULL[row.full]


def test_no_rule_is_dead() -> None:
    hit = {classify(row.name, host=row.host).rule for row in CORPUS_NAMES}
    assert not [rule.id for rule in rules() if rule.id not in hit and not rule.examples]


@pytest.mark.parametrize("rule", [rule for rule in rules() if rule.examples], ids=lambda rule: rule.id)
def test_examples_hit_their_own_rule(rule: kernels.Rule) -> None:
    for example in rule.examples:
        assert classify(example, host=rule.on == "host").rule == rule.id, example


def test_rules_describe_themselves() -> None:
    assert kernels.RULES_VERSION >= 1
    assert all(rule.pattern for rule in rules())
    by_id = {rule.id: rule for rule in rules()}
    assert by_id["aten-read-back"].pattern == "aten item, local_scalar_dense, is_nonzero"
    assert by_id["no-namespace"].pattern == "regex ^; but not ::, triton_"


# name, category that it has, the rule that would win if it stood before the right one
ORDER_TRAPS = [
    ("volta_scudnn_128x64_relu_interior_nn_v1", "convolution", "relu"),
    ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3>(int)", "convolution", "gemm"),
    ("void cutlass::Kernel<cutlass_80_tensorop_s16816gemm_relu_bf16_64x128_32x6_nn_align8>()", "GEMM", "relu"),
    ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::gemm)", "attention", "gemm"),
    ("void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", "GEMM", "reduction"),
    ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "communication", "embedding"),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "element-wise", "embedding"),
    ("void vllm::reshape_and_cache_flash_attn_kernel<__half>()", "data arrangement", "attention"),
    ("void at::native::sbtopk::gatherTopK<float>()", "sort and selection", "embedding"),
    (
        "void at::native::index_elementwise_kernel<128, 4, at::native::index_put>(int)",
        "embedding and scatter",
        "element-wise",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >",
        "data arrangement",
        "element-wise",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<4, leaky_relu_backward_kernel>",
        "other activation",
        "relu",
    ),
    ("fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_ps_32x512", "GEMM", "other-activation"),
    ("void ck::kernel_batched_gemm_softmax_gemm_permute<x>", "attention", "softmax"),
    ("ms_deformable_im2col_gpu_kernel", "interpolation and sampling", "convolution"),
    ("void tensorrt_llm::kernels::appendPagedKvFp8<x>", "data arrangement", "quantize"),
    ("all-gather-start.1", "communication", "embedding"),
    ("void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>", "communication", "embedding"),
    ("lamport_style_one_shot_all_reduce_rmsnorm_kernel", "communication", "other-norm"),
    ("SoftmaxCrossEntropyWithLogits", "loss", "softmax"),
    ("loop_dynamic_update_slice_fusion", "data arrangement", "xla-element-wise"),
    ("input_scatter_reduce_fusion", "embedding and scatter", "xla-reduction"),
    ("void cudnn_maxwell_gcgemm_64x32_nt", "convolution", "gemm"),
]


@pytest.mark.parametrize(("name", "expected", "rival"), ORDER_TRAPS)
def test_order_decides_the_traps(name: str, expected: str, rival: str) -> None:
    assert full(name) == expected
    loaded = load_rules()
    first = next(rule for rule in loaded.rules if rule.id == rival)
    turned = replace(loaded, rules=(first, *(rule for rule in loaded.rules if rule.id != rival)))
    assert turned.classify(name).full == first.category != expected


# --- traps, one by one ---------------------------------------------------------------------------------------------

TEMPLATE = "void at::native::vectorized_elementwise_kernel<4, {}, at::detail::Array<char*, 2> >(int)"
DEVICE_TRAPS = [
    # cuDNN and CUTLASS convolutions carry relu, strides, layouts and gemm in their names
    ("volta_scudnn_128x128_stridedB_splitK_small_nn_v1", "convolution"),
    ("maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile148n_nt", "convolution"),
    ("cudnn::detail::wgrad_alg0_engine", "convolution"),
    ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", "convolution"),
    ("sm80_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x32x32", "convolution"),
    (
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>",
        "convolution",
    ),
    ("cutlass_80_tensorop_s1688_conv_fprop", "convolution"),
    ("volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1", "convolution"),
    ("miopenSp3AsmConv_v21_1_3_gfx9_fp32_f2x3_stride1", "convolution"),
    ("igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32", "convolution"),
    ("naive_conv_ab_nonpacked_fwd_nchw_half_double_half", "convolution"),
    # GEMM by any library
    ("volta_sgemm_128x64_nn", "GEMM"),
    ("Cijk_Ailk_Bljk_BBS_BH_MT32x32x64_MI16x16x16x1_SN", "GEMM"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>", "GEMM"),
    ("volta_igemm_128x64_tn", "GEMM"),
    ("void fbgemm_gpu::_offsets_range_cuda_kernel<int>(long, long, int const*, int*)", "data arrangement"),
    # attention
    ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<32, 128>>", "attention"),
    ("aiter::fmha_fwd_hd128_bf16", "attention"),
    ("void vllm::paged_attention_v1_kernel<__half>", "attention"),
    ("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3", "attention"),
    # normalization
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>", "batch normalization"),
    ("void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>", "batch normalization"),
    ("MIOpenBatchNormFwdTrainSpatial", "batch normalization"),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", "other normalization"),
    # layouts and copies against the driver's own
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>", "data arrangement"),
    (TEMPLATE.format("at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"), "data arrangement"),
    (TEMPLATE.format("at::native::FillFunctor<float>"), "data arrangement"),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>", "data arrangement"),
    ("Memcpy HtoD (Pageable -> Device)", "memory copy"),
    ("Memset (Device)", "memory copy"),
    ("CopyHostToDevice", "memory copy"),
    ("hipMemcpyAsync", "memory copy"),
    ("[CUDA memset]", "memory copy"),
    ("__amd_rocclr_copyBuffer", "memory copy"),
    # functors in element-wise templates
    (
        TEMPLATE.format("at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&)"),
        "ReLU activation",
    ),
    (TEMPLATE.format("at::native::(anonymous namespace)::threshold_kernel_impl<float>"), "ReLU activation"),
    (TEMPLATE.format("at::native::(anonymous namespace)::leaky_relu_kernel"), "other activation"),
    (TEMPLATE.format("at::native::GeluCUDAKernelImpl"), "other activation"),
    (TEMPLATE.format("at::native::CUDAFunctor_add<float>"), "element-wise"),
    (TEMPLATE.format("at::native::(anonymous namespace)::masked_fill_kernel"), "element-wise"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >", "reduction"),
    ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>", "embedding and scatter"),
    ("embedding_backward_feature_kernel", "embedding and scatter"),
    # communication
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "communication"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("nccldevkernel_allgather_ring_ll", "communication"),
    ("rcclGenericKernel", "communication"),
    ("nccl:all_reduce", "communication"),
    ("multimem_all_reduce_kernel", "communication"),
    ("deep_ep::internode_ll::dispatch", "communication"),
    # waiting
    *((name, "synchronization") for name in ("Stream Sync", "Device Sync", "Event Sync", "Context Sync", "Marker")),
    *((name, "synchronization") for name in ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")),
    # recurrent
    ("void RNN_blockPersist_fp_LSTM<float, float, float, 128>", "recurrent"),
    ("void LSTM_elementWise_fp<float, float, float>", "recurrent"),
    ("persistRNN_init", "recurrent"),
    # Triton: the kind decides, then what is fused
    ("triton_poi_fused_convolution_relu_0", "element-wise"),
    ("triton_poi_fused_add_cos_sin_0", "element-wise"),
    ("triton_per_fused_native_layer_norm_relu_15", "other normalization"),
    ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "other normalization"),
    ("triton_red_fused_mul_sum_3", "reduction"),
    ("triton_per_fused__softmax_0", "softmax"),
    ("triton_tem_fused_mm_3", "GEMM"),
    ("triton__0d1d2d", "other"),
    # older and mangled spellings
    ("void kernelPointwiseApply2<TensorAddOp<float>, float, float, unsigned int, -2, 2>", "element-wise"),
    ("void kernelPointwiseApply3<ThresholdUpdateGradInput<float>, float, float, float>", "ReLU activation"),
    (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        "element-wise",
    ),
    ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4ELi4EEEEEvT1_", "reduction"),
    ("_ZN5cudnn6detail12dgrad_engineIfLi512ELi6ELi5ELi3ELi3ELi3ELb0EEEviii", "convolution"),
]
HOST_TRAPS = [
    ("ConvolutionBackward0", "framework"),
    ("AddmmBackward0", "framework"),
    ("autograd::engine::evaluate_function: ConvolutionBackward0", "framework"),
    ("torch::autograd::AccumulateGrad", "framework"),
    ("All2All_Pooled_ReqBackward", "framework"),
    ("my own range about gemm", "framework"),
    ("aten::convolution", "convolution"),
    ("aten::_convolution", "convolution"),
    ("aten::convolution_backward", "convolution"),
    ("aten::addmm", "GEMM"),
    ("aten::lstm", "recurrent"),
    ("aten::mkldnn_rnn_layer", "recurrent"),
    ("aten::_thnn_fused_lstm_cell", "recurrent"),
    ("torchvision::nms", "sort and selection"),
    ("c10d::allreduce_", "communication"),
    ("record_param_comms", "communication"),
    ("aten::_to_copy", "data arrangement"),
    ("aten::select", "view and allocation"),
    ("aten::select_backward", "data arrangement"),
    ("aten::transpose", "view and allocation"),
    ("aten::_foreach_add_", "optimizer"),
    ("aten::_foreach_norm", "reduction"),
    ("aten::_foreach_copy_", "data arrangement"),
    ("aten::native_dropout", "random"),
    ("aten::native_dropout_backward", "element-wise"),
    ("aten::item", "synchronization"),
    ("aten::is_pinned", "view and allocation"),
    ("aten::linalg_vector_norm", "reduction"),
    ("aten::linalg_svd", "other"),
    ("aten::bilinear", "GEMM"),
    ("aten::upsample_bilinear2d", "interpolation and sampling"),
    ("triton_poi_fused_add_0", "element-wise"),
    ("fbgemm::FloatToFP8RowwiseQuantized", "element-wise"),
]


# Words inside other words: what a rule must not take for its own.
NO_SUCH_THING = [
    ("deep_epoch_kernel", UNKNOWN),  # deep_ep
    ("void factori::memori::x()", UNKNOWN),  # mori::
    ("devicePropertyKernel", UNKNOWN),  # rope
    ("unattended", UNKNOWN),  # natten
    ("estimate_quantile_kernel", UNKNOWN),  # quant
    ("quantum_circuit", UNKNOWN),
    ("loop_tensor_kernel", UNKNOWN),  # op_tensor
    ("GradNormKernel", UNKNOWN),
    ("kernel", UNKNOWN),
    ("void compute<float>(float*)", UNKNOWN),
    ("void tensorflow::SplitOpKernel<float>", "data arrangement"),  # topk
    ("void tensorflow::functor::UnsortedSegmentCustomKernel<float>", "embedding and scatter"),  # sort
    ("relu_kernel", "ReLU activation"),  # elu_kernel
    ("elu_kernel", "other activation"),
    ("void deep_gemm::transpose_fp32<512u, 64u>", "data arrangement"),  # gemm
    ("split_embedding_backward_codegen_rowwise_adagrad_kernel", "embedding and scatter"),  # adagrad
    ("void cub::DeviceRadixSortHistogramKernel<int>", "sort and selection"),  # histogram
]


@pytest.mark.parametrize(("name", "expected"), NO_SUCH_THING)
def test_a_word_inside_another_word_is_not_taken(name: str, expected: str) -> None:
    assert full(name) == expected


@pytest.mark.parametrize(
    "name", ["input_pipeline", "loop_body", "wrapped_model", "forward pass", "training step: add", "ReluBackward0"]
)
def test_ranges_of_people_are_no_operators(name: str) -> None:
    assert full(name, host=True) == "framework"


COLLECTIVE_WORDS = (
    "nccl", "rccl", "hccl", "oneccl", "msccl", "allreduce", "all_reduce", "all-reduce", "allgather", "all_gather",
    "all-gather", "reduce_scatter", "reduce-scatter", "alltoall", "all_to_all", "all-to-all", "sendrecv",
    "cross_device_reduce", "multimem", "deep_ep::", "nvshmem", "senrdma", "c10d::", "gloo:",
)  # fmt: skip
WAITING_ROWS = (
    "stream sync", "device sync", "event sync", "context sync", "stream wait event", "unknown sync", "marker",
    "cudastreamsynchronize", "cudadevicesynchronize", "cudaeventsynchronize", "hipdevicesynchronize",
)  # fmt: skip


def collectives_elsewhere(names: Iterator[tuple[str, bool]]) -> list[str]:
    """Names that say communication by a plain word and were taken for something else; generated kernels that list
    what they were fused with, and framework nodes around a call, aside."""
    return [
        f"{name[:100]}: {found}"
        for name, host in names
        if any(word in name.lower() for word in COLLECTIVE_WORDS)
        and not name.lower().startswith(("triton_poi", "triton_per", "triton_red"))
        and (found := full(name, host=host)) != "communication"
        and not (host and found == "framework")
    ]


def test_no_collective_counts_as_computation() -> None:
    assert not collectives_elsewhere((row.name, row.host) for row in (*CORPUS_NAMES, *FAMILY_NAMES))


@pytest.mark.parametrize("name", WAITING_ROWS)
@pytest.mark.parametrize("host", [False, True])
def test_waiting_is_not_work(name: str, host: bool) -> None:
    if not host or name.startswith(("cuda", "hip")):
        assert full(name.title(), host=host) == full(name, host=host) == "synchronization"


@pytest.mark.parametrize(("name", "expected"), DEVICE_TRAPS)
def test_device_trap(name: str, expected: str) -> None:
    assert full(name) == expected


@pytest.mark.parametrize(("name", "expected"), HOST_TRAPS)
def test_host_trap(name: str, expected: str) -> None:
    assert full(name, host=True) == expected


def test_sides_are_apart() -> None:
    assert full("AddmmBackward0", host=True) == "framework"
    assert full("AddmmBackward0") == UNKNOWN
    assert full("Kernel2") == "GEMM"
    assert full("mine::Kernel2", host=True) == UNKNOWN


# --- total, bounded, cheap -----------------------------------------------------------------------------------------


@given(st.text(), st.booleans())
def test_any_text_has_a_category(name: str, host: bool) -> None:
    found = classify(name, host=host)
    if found.rule is None:
        assert found == Category(UNKNOWN, UNKNOWN, None)
    else:
        assert FULL[found.full] == found.paper


@pytest.mark.parametrize("name", ["", " ", "::", "aten::", "aten::_", "void ", "\x00", "\ud800", "triton_", "é" * 10])
@pytest.mark.parametrize("host", [False, True])
def test_odd_names_have_an_answer(name: str, host: bool) -> None:
    assert full(name, host=host) in {*FULL, UNKNOWN}


@pytest.mark.parametrize(
    "part", ["a", "_", "mean_", "triton_", "_to_copy", "<", "at::native::(", "İ", "ncc", "wgra", "\n", "aten::_copy"]
)
def test_a_hostile_name_costs_little(part: str) -> None:
    for start in ("", "triton_per_fused_", "triton_poi_fused_", "triton_tem_fused_", "aten::", "cuda"):
        name = start + part * 10_000
        began = time.perf_counter()
        for host in (False, True):
            classify(name, host=host)
        assert time.perf_counter() - began < 0.5  # a backtracking expression would take minutes


HOSTILE = [
    start + part * 1_100 + end
    for start in ("", "%", "triton_poi_fused", "triton_red_fused_", "loop_", "_fwd_kernel_", "op2d", "ze", "cudnn_")
    for part in (
        "a",
        "_",
        "a_",
        "0",
        "mean_",
        "_view",
        "reduce_",
        "dot_",
        "fusion_",
        "_fusion",
        "x:",
        "executor",
        "wkv",
    )
    for end in ("", "!", "_fusion!", "::")
]


@pytest.mark.parametrize("rule", [rule for rule in rules() if rule.regex], ids=lambda rule: rule.id)
def test_no_expression_backtracks_for_long(rule: kernels.Rule) -> None:
    assert rule.regex is not None
    for name in HOSTILE:
        cut = name[: kernels.MAX_NAME - 10] + name[-10:]  # the end that does not match must survive the cut
        fastest = min(timed(lambda text=cut: rule.regex.search(text)) for _ in range(2))  # type: ignore[misc]
        assert fastest < 0.1, (rule.id, name[:40], name[-10:])  # quadratic is 0.005 s here, exponential is years


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


@given(st.sampled_from(HOSTILE), st.integers(0, 200), st.text(max_size=30), st.booleans())
def test_hostile_names_have_an_answer_soon(name: str, cut: int, tail: str, host: bool) -> None:
    whole = name[cut:] * 5 + tail
    assert min(timed(lambda: load_rules_once().classify(whole, host=host)) for _ in range(2)) < 0.5


@cache
def load_rules_once() -> kernels.RuleSet:
    return load_rules()


def test_answers_are_cached() -> None:
    classify("a name asked for twice")
    before = kernels._classify.cache_info().hits
    classify("a name asked for twice")
    assert kernels._classify.cache_info().hits == before + 1


def test_import_is_light() -> None:
    code = "import sys, wcbench.kernels; print([m for m in ('torch', 'numpy', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- loading -------------------------------------------------------------------------------------------------------

HEAD = 'version = 1\n[categories.GEMM]\npaper = "GEMM"\n'
RULE = '[[rules]]\nid = "one"\ncategory = "GEMM"\nany = ["gemm"]\n'
FAULTS = [
    (HEAD + RULE + RULE, "'one'", "used twice", "another id"),
    (HEAD + RULE.replace('"GEMM"', '"gem"'), "'one'", "'gem' is unknown", "GEMM"),
    (HEAD + RULE + "regex = '('\n", "'one'", "regex '(' is wrong", "Mend"),
    (HEAD + RULE.replace("any", "anny"), "'one'", "unknown keys: anny", "Known:"),
    (HEAD + RULE + 'on = "gpu"\n', "'one'", "`on` is 'gpu'", '"device"'),
    (HEAD + RULE.replace('any = ["gemm"]\n', ""), "'one'", "matches nothing", "prefix"),
    (HEAD + RULE.replace('["gemm"]', '[""]'), "'one'", "no list of non-empty texts", "any = ["),
    (HEAD + RULE.replace('["gemm"]', '"gemm"'), "'one'", "no list of non-empty texts", "any = ["),
    (HEAD + RULE + "comment = 1\n", "'one'", "`comment` is no text", "quotation"),
    (HEAD + RULE.replace('id = "one"\n', ""), "'number 1'", "no id", "`id`"),
    (HEAD, "rules", "no rules", "[[rules]]"),
    (HEAD.replace("1", '"1"') + RULE, "version", "no version", "version = 1"),
    ("version = 1\n" + RULE, "categories", "no categories", "[categories"),
    (HEAD.replace('paper = "GEMM"', 'paper = "matmul"') + RULE, "'GEMM'", "'matmul'", "convolution"),
    (HEAD.replace("categories.GEMM", "categories.unknown") + RULE, "unknown", "cannot be a category", "rename"),
    ("version = \n", "TOML", "valid TOML", "Mend"),
]


@pytest.mark.parametrize(("text", "where", "what", "remedy"), FAULTS)
def test_a_faulty_file_is_named_with_its_remedy(tmp_path: Path, text: str, where: str, what: str, remedy: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WcbenchError) as caught:
        load_rules(path)
    assert str(path) in caught.value.message
    assert where in caught.value.message
    assert what in caught.value.message
    assert caught.value.hint is not None
    assert remedy in caught.value.hint


def test_a_missing_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(WcbenchError, match=r"none\.toml"):
        load_rules(tmp_path / "none.toml")


def test_own_rules_can_be_loaded_and_used(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + RULE + 'unless = ["fb"]\n', encoding="utf-8")
    mine = load_rules(path)
    assert mine.classify("SGEMM") == Category("GEMM", "GEMM", "one")
    assert mine.classify("fbgemm").full == UNKNOWN


# --- whole profiles, by the benchmark's own plain reading ------------------------------------------------------------


@cache
def plain() -> ModuleType:
    path = Path(__file__).parents[1] / "benchmarks" / "unknown_share.py"
    spec = importlib.util.spec_from_file_location("unknown_share", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def need_shared() -> None:
    if not SHARED.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{SHARED} is missing, and CI must not skip these tests")
        pytest.skip("needs ../shared, which comes with the project's workplace only")


def trace_files() -> list[Path]:
    folder = SHARED / "traces"
    kinds = ("kineto", "chakra_et", "ncu", "nsys", "pyprof", "rocprof", "tf_jax")
    return sorted(path for kind in kinds for path in (folder / kind).glob("*")) if SHARED.exists() else []


def test_shared_profiles_are_there() -> None:
    need_shared()
    assert len(trace_files()) >= 50


@pytest.mark.parametrize("path", trace_files(), ids=lambda path: path.name)
def test_every_trace_is_known_and_tells_work_from_waiting(path: Path) -> None:
    for label, found in plain().times(path):
        for host in (False, True):
            kinds, spent, busy = plain().shares(found, host)
            assert spent.get(UNKNOWN, 0.0) <= 0.01 * busy, label
            assert sum(spent.values()) == pytest.approx(busy)
            assert {FULL.get(kind, UNKNOWN) for kind in spent} <= {*PAPER, NONE_OF_THE_EIGHT, UNKNOWN}
            waiting = {name for name, kind in kinds.items() if kind == "synchronization"}
            assert {name for name in kinds if name.lower() in WAITING_ROWS} <= waiting
            assert not [name for name in waiting if "kernel" in name.lower() or "gemm" in name.lower()]
        assert not collectives_elsewhere(iter(found))


# file, how a name of it starts, side, time in the file's unit; by hand from the file's text
KNOWN_TIMES = [
    ("tf_jax/ikhlestov_GPU_timeline_02_step_0.json", "MatMul", False, 529 + 1),  # us on streams 12 and 7
    ("tf_jax/ikhlestov_GPU_timeline_02_step_0.json", "MEMCPYHtoD", False, 55),
    ("rocprof/rocprofsdk_memory_copy_trace.csv", "MEMORY_COPY_HOST", False, 14955950239443 - 14955949675563),
    ("ncu/gpumode_lecture001_ncu_logs.txt", "square_kernel_0d1d234", False, 10_850),  # 10.85 us
    ("kineto/hta_call_stack__backward_thread.json", "void cutlass::Kernel<", False, 45),
]


@pytest.mark.parametrize(("file", "name", "host", "time"), KNOWN_TIMES)
def test_the_plain_reading_finds_what_is_there(file: str, name: str, host: bool, time: float) -> None:
    need_shared()
    [(_, found)] = list(plain().times(SHARED / "traces" / file))
    matching = [spent for (text, on_host), spent in found.items() if text.startswith(name) and on_host == host]
    assert sum(matching) == pytest.approx(time)


def test_collectives_of_a_sqlite_export_are_all_found() -> None:
    need_shared()
    for _, found in plain().times(SHARED / "traces" / "nsys" / "lizhieffe_ddp53_scrubbed.sqlite"):
        nccl = sum(spent for (name, _), spent in found.items() if "ncclDevKernel" in name)
        _, spent, busy = plain().shares(found, False)
        assert spent["communication"] == nccl > 0.7 * busy


def test_the_benchmark_counts_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        {"ph": "X", "cat": "Kernel", "name": "volta_sgemm_128x64_nn", "ts": 0, "dur": 60},
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ts": 60, "dur": 30},
        {"ph": "X", "cat": "kernel", "name": "compute", "ts": 90, "dur": 10},
        {"ph": "X", "cat": "cuda_sync", "name": "Device Sync", "ts": 0, "dur": 500},
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    [(label, found)] = list(plain().times(tmp_path / "trace.json"))
    assert plain().report(label, found, False, True) == pytest.approx(0.1)
    line = capsys.readouterr().out.splitlines()
    assert line[0].split() == ["trace.json", "device", "4", "100", "25.00%", "10.000%", "30.00%", "1"]
    assert [row.split()[0] for row in line[1:]] == ["unknown", "communication", "synchronization"]
