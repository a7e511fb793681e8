"""torchvision's own operators: regions of interest, deformable convolution, non-maximum suppression."""

from __future__ import annotations

from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, Uncounted, formula
from wcbench.profilers.formulas.traffic import Call, read, stencil, writes

CORNERS = 4
BILINEAR = 2 * CORNERS - 1  # four products and their sum, for each sample and channel


def _samples(ratio: int) -> int:
    if ratio <= 0:
        raise Uncounted("without a sampling_ratio, how often a region is sampled depends on its size, which is data")
    return ratio * ratio


@formula("torchvision::roi_align", "torchvision::ps_roi_align")
def roi_align(call: Call) -> Cost:
    """Each bin averages ratio^2 bilinear samples: 7 and an addition each, and a division."""
    x, regions = call.args[:2]
    samples, result = _samples(call.args[5]), call.result()
    moved = [stencil(x, CORNERS * samples * result.numel * x.itemsize), *read(regions), *writes(call)]
    return Cost(result.numel * (samples * (BILINEAR + 1) + 1), accesses=moved)


@formula("torchvision::_roi_align_backward", "torchvision::_ps_roi_align_backward")
def roi_align_backward(call: Call) -> Cost:
    """Each sample adds gradient / count * weight to four corners: a product and an addition each; one division."""
    gradient: T = call.args[0]
    at = 6 if "_ps_" in call.name else 9
    return Cost(gradient.numel * (_samples(call.args[at]) * 2 * CORNERS + 1))


@formula("torchvision::roi_pool", "torchvision::ps_roi_pool")
def roi_pool(call: Call) -> Cost:
    """The maximum of a bin compares; its position-sensitive form adds up an area that is data."""
    if "ps_" in call.name:
        raise Uncounted("the area that a bin averages is data")
    return Cost()


@formula("torchvision::_roi_pool_backward")
def roi_pool_backward(call: Call) -> Cost:
    """Each gradient is added where its maximum was."""
    return Cost(call.args[0].numel)


@formula("torchvision::nms")
def nms(call: Call) -> Cost:
    """Areas 3 for each box; for each pair at most two sides, their product, union 2, ratio: 6. How many pairs are left
    to compare is data."""
    n = call.args[0].shape[0]
    return Cost(3 * n + 6 * (n * (n - 1) // 2), note="every pair of boxes is compared: an upper bound")


@formula("torchvision::deform_conv2d")
def deform_conv2d(call: Call) -> Cost:
    """A convolution (matrix-class) over columns that are sampled bilinearly: weights 8 and 7 for each column element,
    1 more with a mask; bias 1 for each output."""
    x, weight = call.args[:2]
    result, use_mask = call.result(), bool(call.args[13])
    pixels = result.numel // result.shape[1]
    columns = pixels * x.shape[1] * weight.shape[2] * weight.shape[3]
    other = columns * (BILINEAR + 8 + use_mask) + result.numel
    return Cost(other, matrix=2 * pixels * weight.numel)


@formula("torchvision::_deform_conv2d_backward")
def deform_conv2d_backward(call: Call) -> Cost:
    """Products for columns and weight, each as the forward; for each column element the weights 8, four corners' sums
    8, the offset's two slopes 14, and the forward's sample 7 (mask: 2 more); bias sums."""
    gradient, x, weight = call.args[:3]
    pixels = gradient.numel // gradient.shape[1]
    columns = pixels * x.shape[1] * weight.shape[2] * weight.shape[3]
    other = columns * (8 + 8 + 14 + BILINEAR + 2 * bool(call.args[14])) + gradient.numel
    return Cost(other, matrix=4 * pixels * weight.numel)
