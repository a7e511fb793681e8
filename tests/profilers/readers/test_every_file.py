"""Every file of ../shared/traces is read, by the reader that is meant for it, or refused with a clear reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SHARED
from wcbench import api
from wcbench.errors import ReadError

TRACES = SHARED / "traces"
REFUSED = {
    "ibm_aiu_allreduce_tp4.json": "no categories",
    "leleucas_pooling_adaptive_avg_fake-perf-analysis_adaptive_avg_pool2d_nsight.csv": "error code",
    "leleucas_pooling_adaptive_avg_fake-perf-analysis_data_pooling_nsight128.csv": "empty",
    "leleucas_pooling_adaptive_avg_fake-perf-analysis_data_pooling_nsight32.csv": "No kernels were profiled",
    "rocprofcompute_device_filter_MI200_pmc_dispatch_info.csv": "without times or counters",
    "rocprofcompute_device_filter_MI200_roofline.csv": "no kernels",
}
NAMELESS = {"leleucas_activation_relu_nsight_result.csv"}
"""Its authors dropped the kernels' names."""
FORMATS = {
    "aiter_results.csv": "rocprof",
    "gpumode_lecture001_ncu_logs.txt": "ncu-text",
    "hta_memory_analysis__memory_timeline.raw.gz": "memory-timeline",
    "josiahdavis_lm.csv": "pyprof",
    "leleucas_activation_relu_nsight_result.csv": "ncu-pivot",
    "leleucas_attn_5-9_bert_torch_nsight.csv": "ncu",
    "lizhieffe_ddp53_scrubbed.sqlite": "nsys",
    "chakra_json_trace.tar.gz": "chakra",
}


def files() -> Iterator[Path]:
    for path in sorted(TRACES.rglob("*")):
        if path.is_file() and path.name != "MANIFEST.csv" and "feature_matrix" not in path.parts:
            yield path.relative_to(TRACES)


def family(path: Path) -> set[str]:
    """Names of the formats of a folder's files."""
    return {
        "kineto": {"kineto"},
        "mlperf": {"mlperf"},
        "chakra_et": {"et", "chakra"},
        "tf_jax": {"tf-timeline", "xplane"},
        "rocprof": {"rocprof", "rocprofv3", "rocprof-compute"},
    }.get(path.parts[0], {FORMATS.get(path.name, "")})


@pytest.mark.parametrize("path", list(files()) or [Path("missing")], ids=str)
def test_each_is_read_or_refused(path: Path, shared: Path) -> None:
    if path.name in REFUSED:
        with pytest.raises(ReadError, match=REFUSED[path.name]) as caught:
            api.read(TRACES / path, jobs=1)
        assert path.name in caught.value.message
        assert caught.value.hint
        return
    record = api.read(TRACES / path, jobs=1)
    formats = {file["format"] for file in record.manifest.source["files"] if file["refused"] is None}  # type: ignore[index]
    assert formats <= family(path)
    assert formats
    if path.name in FORMATS:
        assert formats == {FORMATS[path.name]}
    assert record.manifest.tables or record.notes
    categories = record.view("categories")
    if categories is not None and path.name not in NAMELESS:
        assert categories.unknown_share < 0.01, categories.unknown_names
    losses = [loss for loss in record.manifest.losses if "itself failed" in loss.why]
    assert not losses
