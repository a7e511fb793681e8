"""Which of torch's operators have a formula, by their schemas."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import torch
import torchvision  # noqa: F401  (registers its operators)

from wcbench.profilers import formulas
from wcbench.profilers.formulas import REGISTRY, known
from wcbench.profilers.formulas.model import SPARSE

# of layouts, precisions and backends that training on dense tensors never meets, or torch's own tests
ELSEWHERE = re.compile(
    r"sparse|spmm|sspaddmm|hspmm|nested|jagged|quant|_q_|q_per|int4pack|_dyn_quant|_cslt|_test_|_foobar|lstm_mps"
    r"|(crow|ccol|row|col|_)_?indices|coalesce|_values|_spdiags|_spsolve|to_padded_tensor|obs_fq|^(indices|values)_copy"
)
# dense operators that no formula knows, with the reason
UNKNOWN = {
    "_compute_linear_combination",  # of matrix_exp's backward, which iterates
    "_histogramdd_bin_edges",
    "_histogramdd_from_bin_cts",
    "_histogramdd_from_bin_tensors",
    "_native_multi_head_attention",  # the fast paths of inference
    "_transformer_encoder_layer_fwd",
    "_triton_multi_head_attention",
}


def dense_operators() -> set[str]:
    """aten's operators that can show below autograd: those that do not always decompose there."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        try:
            registered = torch._C._dispatch_has_kernel(full)
            decomposes = torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
        except RuntimeError:  # TorchScript's own, on lists and strings
            continue
        name = schema.name.removeprefix("aten::")
        if schema.name.startswith("aten::") and registered and not decomposes and not ELSEWHERE.search(name):
            found.add(name)
    return found


def test_nearly_all_of_atens_dense_operators_are_known() -> None:
    dense = dense_operators()
    unknown = {name for name in dense if not known(f"aten::{name}")}
    assert len(dense) > 950
    assert unknown <= UNKNOWN, f"no formula for {sorted(unknown - UNKNOWN)}"
    assert len(unknown) < 0.01 * len(dense)


def test_every_module_is_in_the_list() -> None:
    """A module that nothing imports registers nothing."""
    folder = Path(formulas.__file__).parent
    helpers = {"__init__", "extent", "model", "traffic"}
    listed = {module.__name__.rsplit(".", 1)[1] for module in formulas.MODULES}
    assert {path.stem for path in folder.glob("*.py")} - helpers == listed


def test_no_torch_is_loaded() -> None:
    script = "import sys, wcbench.profilers.formulas; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_registered_name_is_an_operator() -> None:
    """A misspelt name would never be found, and a formula under it never used."""
    import wcbench.tasks.speech.ctc  # noqa: F401  (registers the catalogue's own operators)

    schemas = {schema.name for schema in torch._C._jit_get_all_schemas()}
    names = {name.split(".")[0] for name in [*REGISTRY, *SPARSE]}
    strangers = {name for name in names if name not in schemas and f"{name}_" not in schemas}
    assert strangers == set()


def test_overloads_with_a_formula_of_their_own_exist() -> None:
    full = {f"{s.name}.{s.overload_name}" for s in torch._C._jit_get_all_schemas() if s.overload_name}
    assert {name for name in REGISTRY if "." in name} <= full
