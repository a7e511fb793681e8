"""DLRM on Criteo's terabyte of click logs: MLPerf Training v0.7 (Naumov et al., arXiv:1906.00091).

facebookresearch/dlrm's bench/run_and_time.sh: embeddings of 128, a bottom perceptron 13-512-256-128, all 351 dot
products of 27 vectors, a top one 479-1024-1024-512-256-1, binary cross entropy, SGD at rate 1.0, batches of 2,048, an
evaluation every 102,400 samples until the AUC is 0.8025. Submissions took batches of up to 64 k. Categories are hashed
to at most 40 million rows: 187,767,399 in 26 tables, 24,036,595,969 parameters, 96 GB, which no single GPU of its time
held; submissions shard them. 4,916,992 FLOP a sample count the interaction as the code runs it, 27 x 27 x 128.

What differs here, and why:

- As in `commerce.advertising`: drawn impressions, exponents of Zipf's law that are no measurement, a sigmoid within
  the loss, and two SGDs in place of one.
- One device holds it all. At `paper` that is for counting on fake tensors, which take no memory.
- The share of clicks is 3.2 %, from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from wcbench.tasks.commerce.advertising import ClickSettings, ClickTask

TERABYTE = (
    39_884_406, 39_043, 17_289, 7420, 20_263, 3, 7120, 1543, 63, 38_532_951, 2_953_546, 403_346, 10, 2208,
    11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36,
)  # fmt: skip

_PAPER = ClickSettings(
    batch_size=2048, rows=TERABYTE, dim=128, bottom=(512, 256, 128), top=(1024, 1024, 512, 256), lr=1.0, clicks=0.032
)


class MlperfDlrm(ClickTask):
    """DLRM at the size of Criteo's terabyte."""

    presets: ClassVar[Mapping[str, ClickSettings]] = {
        "paper": _PAPER,
        "small": replace(_PAPER, batch_size=256, cap=20_000),
        "tiny": replace(_PAPER, batch_size=16, cap=100, dim=8, bottom=(16, 8, 8), top=(32, 32, 16, 8), lr=0.1),
    }
