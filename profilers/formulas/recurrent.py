"""Recurrent layers and cells that run as one operator.

Every 2-D weight (input, hidden, projection; of each layer and direction) is applied once to each token: matrix-class
FLOP = 2 * tokens * elements of the 2-D weights. Backward, the gradients of what came in and of the weight each cost as
much again. Beside the products, for each hidden unit and token:

* LSTM, 4 gates: input part + hidden part 4 and two biases 8; 3 sigmoid, 2 tanh; f*c + i*g 3; o*tanh(c) 1: 13 + 8.
  Backward: tanh(c) 1, for o 1, for c 5 (o*g, 1 - t*t, products, plus), i, f, g and the earlier c 4, and the gates'
  slopes 3 each: 23; biases sum 4 gates.
* GRU, 3 gates: r and z: plus 2, sigmoid 2; n = tanh(a + r*h): 3; n + z*(h - n): 3: 10, two biases 6. Backward: h 1,
  z 5, n 5, r*: 1, r 4: 16; biases sum 3 gates twice.
* plain: plus 1, tanh 1 (relu 0), two biases 2. Backward g * (1 - h*h): 3, relu 0; the bias sums 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.matmul import flops_of_macs
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.traffic import Call, tensors


@dataclass(frozen=True)
class Cell:
    """FLOPs for each hidden unit and token, beside the matrix products."""

    gates: int
    forward: int
    biases: int
    backward: int
    bias_sums: int


LSTM = Cell(gates=4, forward=13, biases=8, backward=23, bias_sums=4)
GRU = Cell(gates=3, forward=10, biases=6, backward=16, bias_sums=6)
TANH = Cell(gates=1, forward=2, biases=2, backward=3, bias_sums=1)
RELU = Cell(gates=1, forward=1, biases=2, backward=0, bias_sums=1)
MODES = (RELU, TANH, LSTM, GRU)  # cuDNN's numbers, which oneDNN's layer operator takes too


def layers_cost(x: T, weights: list[T], cell: Cell, *, backward: bool = False) -> Cost:
    """``x`` has a row of its last dimension for each token; ``weights`` are those of all layers and directions."""
    count = x.numel // x.shape[-1]
    matrices = [w for w in weights if len(w.shape) == 2]
    has_biases = len(matrices) < len(weights)
    # each direction of each layer has one hidden weight (gates*hidden, width) beside its input weight
    units = sum(w.shape[0] for w in matrices) // (2 * cell.gates)
    each = cell.backward + has_biases * cell.bias_sums if backward else cell.forward + has_biases * cell.biases
    matrix = flops_of_macs(count * sum(w.numel for w in matrices), x.dtype)
    return Cost(each * count * units, matrix * (2 if backward else 1))


@formula(*aten("mkldnn_rnn_layer mkldnn_rnn_layer_backward"))
def mkldnn_layer(call: Call) -> Cost:
    """One layer in one direction; oneDNN always passes bias tensors, zero ones where the layer has none."""
    backward = call.name.endswith("backward")
    cell, biases = MODES[call.args[14 if backward else 9]], call.args[17 if backward else 12]
    weights = list(call.args[1:5]) if biases else list(call.args[1:3])
    return layers_cost(call.args[0], weights, cell, backward=backward)


@formula(*aten("_cudnn_rnn miopen_rnn _cudnn_rnn_backward miopen_rnn_backward"))
def cudnn_rnn(call: Call) -> Cost:
    """All layers. cuDNN may give the weights as views into one buffer; their shapes count."""
    backward = call.name.endswith("backward")
    at = 10 if backward else 6 if call.name == "aten::_cudnn_rnn" else 5
    return _split(call, list(call.args[1]), MODES[call.args[at]], backward=backward)


def _split(call: Call, weights: list[T], cell: Cell, *, backward: bool = False) -> Cost:
    """Projections (hidden -> projection) are matrices without gates of their own: they count as products alone."""
    hidden = max((w.shape[0] for w in weights if len(w.shape) == 2), default=0) // cell.gates
    cost = layers_cost(call.args[0], [w for w in weights if w.shape[0] == cell.gates * hidden], cell, backward=backward)
    tokens = call.args[0].numel // call.args[0].shape[-1]
    projected = sum(w.numel for w in weights if len(w.shape) == 2 and w.shape[0] != cell.gates * hidden)
    return Cost(cost.other, cost.matrix + 2 * tokens * projected * (2 if backward else 1))


COMPOSITES = {"lstm": LSTM, "gru": GRU, "rnn_tanh": TANH, "rnn_relu": RELU}


@formula(*(f"aten::{name}" for name in COMPOSITES))
def composite(call: Call) -> Cost:
    """A whole layer that nothing decomposed; ``.data`` has packed tokens and their batch sizes first."""
    cell = COMPOSITES[call.name.removeprefix("aten::")]
    return _split(call, list(call.args[3 if call.overload == "data" else 2]), cell)


CELLS = {"lstm_cell": LSTM, "gru_cell": GRU, "rnn_tanh_cell": TANH, "rnn_relu_cell": RELU}


@formula(*(f"aten::{name}" for name in CELLS))
def composite_cell(call: Call) -> Cost:
    """One step: the input by its weight, the hidden state by its own."""
    weights = tensors([call.arg(i, name) for i, name in enumerate(("w_ih", "w_hh", "b_ih", "b_hh"), start=2)])
    return layers_cost(call.args[0], weights, CELLS[call.name.removeprefix("aten::")])


@formula(*aten("_thnn_fused_lstm_cell _thnn_fused_gru_cell"))
def fused_cell(call: Call) -> Cost:
    """What follows the products, in one operator."""
    cell, state = (LSTM if "lstm" in call.name else GRU), call.args[2]
    biases: Any = call.arg(3, "input_bias")
    return Cost(state.numel * (cell.forward + (cell.biases if biases is not None else 0)))


@formula(*aten("_thnn_fused_lstm_cell_backward_impl _thnn_fused_lstm_cell_backward"))
def lstm_cell_backward(call: Call) -> Cost:
    state, has_bias = call.args[2], call.arg(5, "has_bias")
    return Cost(state.numel * (LSTM.backward + (LSTM.bias_sums if has_bias else 0)))


@formula("aten::_thnn_fused_gru_cell_backward")
def gru_cell_backward(call: Call) -> Cost:
    gradient, has_bias = call.args[0], call.arg(2, "has_bias")
    return Cost(gradient.numel * (GRU.backward + (GRU.bias_sums if has_bias else 0)))
