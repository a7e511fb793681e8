"""The classifier against a corpus of real names labelled by hand, trap by trap, and over whole profiles."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcbench import kernels
from wcbench.errors import WcbenchError
from wcbench.kernels import FULL, NONE_OF_THE_EIGHT, PAPER, UNKNOWN, Category, classify, load_rules, rules

CORPUS = Path(__file__).with_name("corpus") / "kernel_names.tsv"
SHARED = Path(__file__).parents[1].parent / "shared"
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "cuda_sync"}


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


CORPUS_NAMES = read_corpus()


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


def test_every_label_of_the_corpus_holds() -> None:
    wrong = [
        f"{row.full} expected, {got.full} by rule {got.rule}: {row.name[:200]}"
        for row in CORPUS_NAMES
        if (got := classify(row.name, host=row.host)).full != row.full
    ]
    assert not wrong, "\n".join(wrong)


def test_labels_hold_in_upper_and_lower_case() -> None:
    for row in CORPUS_NAMES:
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


# --- whole profiles ------------------------------------------------------------------------------------------------


def kineto_files() -> list[Path]:
    return sorted((SHARED / "traces" / "kineto").glob("*")) if SHARED.exists() else []


def need_shared() -> None:
    if not SHARED.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{SHARED} is missing, and CI must not skip these tests")
        pytest.skip("needs ../shared, which comes with the project's workplace only")


def documents(path: Path) -> Iterator[Any]:
    raw = path.read_bytes()
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                if (file := archive.extractfile(member)) is not None:
                    yield json.loads(file.read(), strict=False)
        return
    yield json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, strict=False)


def device_times(path: Path) -> Counter[str]:
    times: Counter[str] = Counter()
    for document in documents(path):
        for event in document if isinstance(document, list) else document["traceEvents"]:
            if event.get("ph") == "X" and str(event.get("cat", "")).lower() in DEVICE_CATEGORIES:
                times[event["name"]] += event.get("dur") or 0
    return times


def test_shared_profiles_are_there() -> None:
    need_shared()
    assert len(kineto_files()) >= 20


@pytest.mark.parametrize("path", kineto_files(), ids=lambda path: path.name)
def test_under_one_percent_of_device_time_is_unknown(path: Path) -> None:
    times = device_times(path)
    total = sum(times.values())
    if total == 0:
        pytest.skip("no device record in this file")
    by_full: Counter[str] = Counter()
    by_paper: Counter[str] = Counter()
    for name, spent in times.items():
        found = classify(name)
        by_full[found.full] += spent
        by_paper[found.paper] += spent
    share = by_full[UNKNOWN] / total
    print(f"{path.name}: {share:.4%} of device time unknown, {len(times)} names")
    assert share < 0.01
    assert sum(spent / total for spent in by_full.values()) == pytest.approx(1.0, abs=1e-12)
    assert sum(spent / total for spent in by_paper.values()) == pytest.approx(1.0, abs=1e-12)
    assert set(by_paper) <= {*PAPER, NONE_OF_THE_EIGHT, UNKNOWN}
