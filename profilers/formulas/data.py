"""Operators that compute nothing: views, questions, creation, random fills, copies. All have 0 FLOPs."""

from __future__ import annotations

from wcbench.profilers.formulas.extent import extent_bytes
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.traffic import (
    Call,
    fresh,
    inputs,
    part,
    read,
    targets,
    tensors,
    write,
    write_only,
    writes,
)


def aten(names: str) -> list[str]:
    """The operators of namespace aten that a table names, separated by spaces."""
    return [f"aten::{name}" for name in names.split()]


# Views describe the same memory anew; `reshape`, `contiguous`, `to` and their kin may copy and stand with the copies.
VIEWS = """
alias as_strided detach diagonal expand expand_as lift lift_fresh movedim moveaxis narrow permute real imag
_reshape_alias select slice slice_inverse split split_with_sizes squeeze swapaxes swapdims t transpose unbind unfold
unsqueeze view view_as view_as_complex view_as_real _unsafe_view unsafe_split unsafe_split_with_sizes unsafe_chunk
chunk tensor_split hsplit vsplit dsplit unflatten broadcast_to broadcast_tensors numpy_T mT mH matrix_H adjoint
_conj _neg_view conj positive _fw_primal _make_dual _unpack_dual data
indices _indices values _values crow_indices col_indices ccol_indices row_indices _nested_view_from_buffer
_sparse_coo_tensor_with_dims_and_tensors _sparse_coo_tensor_unsafe _coalesced set set_ set_data
_lazy_clone shallow_copy_data_ requires_grad_
"""

# Answers about a tensor's form or place, checks, and bookkeeping: no element is touched (or one, by the host).
QUESTIONS = """
size sym_size stride sym_stride storage_offset sym_storage_offset numel sym_numel dim is_contiguous sym_is_contiguous
is_strides_like_format is_non_overlapping_and_dense is_same_size is_set_to is_pinned is_coalesced
_has_same_storage_numel _nnz dense_dim sparse_dim _dimI _dimV qscheme q_scale q_zero_point q_per_channel_axis
_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar _print
sym_constrain_range sym_constrain_range_for_size _functional_sym_constrain_range
_functional_sym_constrain_range_for_size _make_dep_token record_stream _fused_sdp_choice _debug_has_internal_overlap
_use_cudnn_ctc_loss _use_miopen_ctc_loss _linalg_check_errors result_type _local_scalar_dense item is_nonzero
_cudnn_init_dropout_state resize resize_ resize_as resize_as_ _resize_output _resize_output_ _version
"""

# Memory is taken but not touched.
EMPTY = "empty empty_like empty_permuted empty_strided new_empty new_empty_strided _efficientzerotensor"

# A whole result is written; what the `_like` and `new_` forms take as pattern is not read.
CREATION = """
arange range eye full full_like new_full ones ones_like new_ones zeros zeros_like new_zeros scalar_tensor linspace
logspace tril_indices triu_indices fill zero _new_zeros_with_same_feature_meta from_file fft_fftfreq fft_rfftfreq
_foreach_zero rand rand_like randn randn_like randint randint_like randperm bartlett_window
"""

# Random numbers count 0; a tensor that holds the distribution's parameters is read.
RANDOM = """
bernoulli binomial cauchy exponential geometric log_normal multinomial normal normal_functional poisson random uniform
_sample_dirichlet _standard_gamma _philox_key_split _philox_key_fold_in _philox_normal _philox_uniform
_fill_mem_eff_dropout_mask_
"""

# Every input is read and every result written, in another place, order, layout or type.
COPIES = """
cat concat concatenate stack _stack hstack vstack dstack column_stack block_diag clone contiguous _to_copy to type_as
_cast_Float _cast_Half _cast_Double _cast_Int _cast_Long _cast_Byte _cast_Char _cast_Short lift_fresh_copy repeat tile
repeat_interleave flip fliplr flipud roll rot90 pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle
constant_pad_nd pad _pad_circular _pad_enum reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
replication_pad2d replication_pad3d tril triu diag_embed diag im2col reshape reshape_as flatten ravel _reshape_copy
_pin_memory pin_memory _copy_from _copy_from_and_resize copy _foreach_clone _foreach_copy complex conj_physical
_conj_physical meshgrid cartesian_prod combinations as_strided_scatter select_scatter slice_scatter diagonal_scatter
_chunk_cat _mkldnn_transpose _mkldnn_reshape mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight
to_mkldnn _to_dense to_dense _cudnn_rnn_flatten_weight slice_backward select_backward diagonal_backward
_autocast_to_full_precision _autocast_to_reduced_precision _pack_padded_sequence _pad_packed_sequence pad_sequence
resolve_conj resolve_neg dequantize int_repr quantize_per_tensor quantize_per_channel
"""

# Copies of what the view of the same name would show: only that part of the argument is read.
VIEW_COPIES = """
_conj_copy _fw_primal_copy _make_dual_copy _neg_view_copy _reshape_alias_copy alias_copy as_strided_copy detach_copy
diagonal_copy expand_copy narrow_copy permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy
t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy view_as_complex_copy view_as_real_copy
"""


@formula(*aten(VIEWS), *aten(QUESTIONS), *aten(EMPTY))
def nothing(_: Call) -> Cost:
    """No arithmetic and no traffic. (Fake tensors give the result of ``lift_fresh`` a storage of its own.)"""
    return Cost(accesses=())


@formula(*aten(CREATION))
def creation(call: Call) -> Cost:
    """Results are written once; nothing is read but a fill value that is itself a tensor."""
    value = call.arg(1, "value") if call.name.removesuffix("_") == "aten::fill" else call.option("fill_value")
    return Cost(accesses=[*read(tensors([value])), *writes(call)])


@formula(*aten(RANDOM))
def random_fill(call: Call) -> Cost:
    """Random numbers count 0. In-place forms overwrite their target without reading it."""
    return Cost(accesses=write_only(call))


@formula(*aten(COPIES))
def copy(call: Call) -> Cost:
    """Inputs read, results written; a result that turned out to be a view (``contiguous``, ``to``) moved nothing."""
    if targets(call):  # `copy_(target, source)` overwrites its target
        return Cost(accesses=write_only(call))
    new = fresh(call)
    return Cost(accesses=[*read(inputs(call)), *write(new)] if new else ())


@formula(*aten(VIEW_COPIES))
def view_copy(call: Call) -> Cost:
    """At most as many bytes are read as are written: the rest of the argument is not part of the view."""
    moved = sum(extent_bytes(result) for result in tensors(call.out))
    return Cost(accesses=[*(part(tensor, moved) for tensor in inputs(call)), *writes(call)])
