"""Every table of the record: its columns, their types, units and meaning.

This is the truth that files, documentation (docs/record.md is generated from it) and readers share. Time is int64
nanoseconds, sizes are bytes, shares are fractions of 1; a FLOP is one add or one multiply, so that one
multiply-accumulate counts 2. Absent is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wcbench.errors import RecordError, UnknownNameError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 4
"""Version of the record's form. Raise it with every change of meaning and add the step to `upgrade.UPGRADES`."""

WHOLE_FILE = "whole file"
"""Kind, in table steps, of the one step of an imported file that marks none."""


@dataclass(frozen=True)
class Column:
    """A column. ``type`` is one of int, float, bool, text (repeating, dictionary-encoded), ints (a list of int64),
    tensors or accesses (lists of structs, see `tensor_fields`)."""

    name: str
    type: str
    unit: str
    meaning: str
    required: bool = True


@dataclass(frozen=True)
class TableSchema:
    """A table's name, what one row is, and its columns. Every table starts with the column ``pass``."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    def arrow(self) -> pa.Schema:
        """The Arrow schema, with unit and meaning in each field's metadata and the version in the table's."""
        import pyarrow as pa

        types: Mapping[str, Any] = {
            "int": pa.int64(),
            "float": pa.float64(),
            "bool": pa.bool_(),
            "text": pa.dictionary(pa.int32(), pa.string()),
            "ints": pa.list_(pa.int64()),
            "tensors": pa.list_(pa.struct(tensor_fields(accesses=False))),
            "accesses": pa.list_(pa.struct(tensor_fields(accesses=True))),
        }
        fields = [
            pa.field(c.name, types[c.type], nullable=not c.required, metadata={"unit": c.unit, "meaning": c.meaning})
            for c in self.columns
        ]
        return pa.schema(fields, metadata={"wcbench.table": self.name, "wcbench.schema_version": str(SCHEMA_VERSION)})


def tensor_fields(*, accesses: bool) -> list[tuple[str, Any]]:
    """Fields of one tensor as an operator saw it: identity and version of its storage, offset, extents and strides in
    elements, element type; of an access instead of the version whether it writes, its kind (contiguous, strided,
    broadcast, gather, scatter) and the distinct bytes that it moves."""
    import pyarrow as pa

    own = [("write", pa.bool_()), ("kind", pa.string()), ("nbytes", pa.int64())] if accesses else []
    return [
        ("storage", pa.int64()),
        *([] if accesses else [("version", pa.int64())]),
        ("offset", pa.int64()),
        ("shape", pa.list_(pa.int64())),
        ("stride", pa.list_(pa.int64())),
        ("dtype", pa.string()),
        *own,
    ]


_PASS = Column("pass", "text", "", "the pass that measured the row")
_STEP = Column("step", "int", "", "index of the measured step, from 0; null outside every step", required=False)
_PHASE = Column("phase", "text", "", "forward, backward, optimizer or other")
_RANK = Column("rank", "int", "", "process of a distributed job; 0 where there is one")


def _optional(name: str, kind: str, unit: str, meaning: str) -> Column:
    return Column(name, kind, unit, meaning, required=False)


_TABLES = (
    TableSchema(
        "steps",
        "one training step that a pass ran on real tensors",
        (
            _PASS,
            _RANK,
            Column("index", "int", "", "position among the pass's steps, from 0, warm-up included"),
            Column("role", "text", "", "warmup (dropped), bare (timed, instrument off) or measured"),
            Column("kind", "text", "", "the task's kind of step, e.g. train"),
            Column("duration_ns", "int", "ns", "wall time of the step, device synchronized before and after"),
            _optional("samples", "int", "", "samples consumed; null where an imported file does not say"),
            _optional("loss", "float", "", "the step's loss"),
        ),
    ),
    TableSchema(
        "kernels",
        "one execution of a kernel on a device; on a CPU host one operator call with its self time",
        (
            _PASS,
            Column("name", "text", "", "the kernel's or operator's full name (its category is derived on reading)"),
            _RANK,
            Column("device", "text", "", "cpu, cuda:0, ..."),
            _optional("stream", "int", "", "the device's queue; null on a CPU"),
            _optional("start_ns", "int", "ns", "start, on the profiler's clock; null where a file gives none"),
            Column("duration_ns", "int", "ns", "device time; on a CPU the operator's self time"),
            _STEP,
            _PHASE,
            _optional("op", "text", "", "innermost host operator that launched the kernel"),
            _optional("module", "text", "", "path of the module it ran in"),
            _optional("launch", "int", "", "row of the launch in table runtime"),
            _optional("grid", "ints", "blocks", "launch grid x, y, z"),
            _optional("block", "ints", "threads", "block size x, y, z"),
            _optional("registers", "int", "", "registers per thread"),
            _optional("shared_bytes", "int", "B", "static and dynamic shared memory per block"),
            _optional("occupancy_estimate", "float", "fraction", "estimated active warps / maximum, not a counter"),
            _optional("bytes", "int", "B", "bytes moved, for copies and fills"),
            _optional("collective", "text", "", "collective operation that a communication kernel carries out"),
        ),
    ),
    TableSchema(
        "ops",
        "one call of a host operator, in time order (of an imported file by rank and thread, then in time order)",
        (
            _PASS,
            _RANK,
            Column("name", "text", "", "operator or autograd node"),
            Column("thread", "int", "", "host thread, numbered by the profiler"),
            Column("start_ns", "int", "ns", "start, on the profiler's clock"),
            Column("duration_ns", "int", "ns", "wall time, children included"),
            Column("self_ns", "int", "ns", "wall time without children on the same thread; never negative"),
            Column("depth", "int", "", "nesting depth on its thread, from 0"),
            _optional("parent", "int", "", "row of the enclosing call in this table"),
            _STEP,
            _PHASE,
        ),
    ),
    TableSchema(
        "runtime",
        "one call of the device's runtime or driver (launch, copy, synchronization) on the host",
        (
            _PASS,
            _RANK,
            Column("name", "text", "", "function, e.g. cudaLaunchKernel"),
            Column("thread", "int", "", "host thread"),
            Column("start_ns", "int", "ns", "start, on the profiler's clock"),
            Column("duration_ns", "int", "ns", "host time of the call"),
            Column("correlation", "int", "", "id that the device's record of the work repeats"),
            _optional("op", "int", "", "row of the innermost enclosing call in table ops"),
            _STEP,
        ),
    ),
    TableSchema(
        "primitives",
        "one execution of a oneDNN primitive (CPU), from oneDNN's verbose log",
        (
            _PASS,
            Column("primitive", "text", "", "convolution, matmul, reorder, ..."),
            Column("implementation", "text", "", "the code that ran, e.g. jit:avx2 or brgemm"),
            Column("direction", "text", "", "forward_training, backward_data, ..."),
            Column("memory", "text", "", "memory descriptors of source, weights, bias and destination"),
            Column("attributes", "text", "", "attributes and algorithm"),
            Column("shape", "text", "", "problem description in oneDNN's own form"),
            Column("duration_ns", "int", "ns", "execution time as oneDNN logs it"),
            Column("step", "int", "", "index of the measured step, from 0"),
        ),
    ),
    TableSchema(
        "parameters",
        "one parameter of a model, in the order of named_parameters; a shared one again at each further name",
        (
            _PASS,
            Column("model", "text", "", "the model's role in the task"),
            Column("name", "text", "", "path of the parameter"),
            Column("shape", "ints", "", "extents"),
            Column("dtype", "text", "", "element type"),
            Column("numel", "int", "", "elements"),
            Column("nbytes", "int", "B", "bytes of the elements"),
            Column("trainable", "bool", "", "whether it asks for a gradient"),
            _optional("shared_with", "text", "", "model.name of the first parameter that is the same tensor"),
        ),
    ),
    TableSchema(
        "operators",
        "one operator call of a recorded training step, below autograd, in program order",
        (
            _PASS,
            Column("step", "int", "", "index of the recorded step, from 0"),
            Column("kind", "text", "", "the task's kind of step"),
            Column("order", "int", "", "position in the whole stream, from 0"),
            Column("name", "text", "", "operator, e.g. aten::addmm"),
            Column("overload", "text", "", "its overload, e.g. Tensor; empty for the default one"),
            _PHASE,
            _optional("module", "text", "", "path of the innermost module; in the backward pass of the forward call"),
            Column("covered", "bool", "", "whether a formula counts the operator"),
            _optional("flops_matrix", "int", "FLOP", "matrix-class FLOPs; null where no formula counts the operator"),
            _optional("flops_matrix_half", "int", "FLOP", "the same without the masked half of causal attention"),
            _optional("flops_all", "int", "FLOP", "all FLOPs; null where no formula counts the operator"),
            Column("bytes_read", "int", "B", "distinct bytes read"),
            Column("bytes_written", "int", "B", "distinct bytes written"),
            Column("inputs", "tensors", "", "tensors among the arguments, in order"),
            Column("outputs", "tensors", "", "tensors among the results, in order"),
            Column("accesses", "accesses", "", "what the operator must move, reads before writes"),
        ),
    ),
    TableSchema(
        "storages",
        "one storage that the recorded steps touched; an address that is used again is a new storage",
        (
            _PASS,
            Column("id", "int", "", "identity; what `inputs`, `outputs` and `accesses` of table operators refer to"),
            Column("nbytes", "int", "B", "size"),
            Column("role", "text", "", "weight, gradient, optimizer state, activation, input or workspace"),
            _optional("born", "int", "", "order of the operator that made it; null if it is older than the stream"),
            _optional("died", "int", "", "order of the first operator that ran without it; null if it outlived them"),
            _optional("producer", "text", "", "operator that made it"),
        ),
    ),
    TableSchema(
        "scaling",
        "a quantity of a step as a straight line in the number of samples, fitted to steps at several batch sizes",
        (
            _PASS,
            Column("kind", "text", "", "the task's kind of step"),
            Column("phase", "text", "", "forward, backward, optimizer or other; all for the whole step"),
            Column(
                "quantity",
                "text",
                "",
                "flops_matrix, flops_all, bytes_read, bytes_written, calls; live_peak_bytes, "
                "which as a maximum is straight in pieces only",
            ),
            Column("unit", "text", "", "unit of the quantity: FLOP, B or calls"),
            _optional("length", "int", "", "length of the sequence, where the task has one"),
            Column("recorded", "bool", "", "false where the parts are extrapolated from shorter lengths"),
            Column("fixed", "float", "the quantity's", "part that does not depend on the batch"),
            Column("per_sample", "float", "the quantity's per sample", "slope"),
            _optional(
                "error",
                "float",
                "fraction",
                "greatest deviation of a recorded value from the line, over the value; null where the line is through "
                "two batches only, which tells none",
            ),
            Column("samples", "ints", "samples", "samples of the steps that were recorded"),
            Column("values", "ints", "the quantity's", "what was recorded at each; empty where extrapolated"),
        ),
    ),
    TableSchema(
        "lookups",
        "the row ids that one step looks up in one sparse table, by one law of the ids; drawn, not recorded",
        (
            _PASS,
            Column("parameter", "text", "", "path of the table: model.name as in table parameters"),
            Column("law", "text", "", "own (the task's), zipf, or recorded (--ids)"),
            _optional("exponent", "float", "", "exponent of Zipf's law; null for the task's own"),
            Column("step", "int", "", "index of the step, from 0"),
            Column("kind", "text", "", "the task's kind of step"),
            Column("samples", "int", "samples", "samples of the step: fewer than the pass's where ids are too many"),
            Column("ids", "ints", "", "rows in the order of the look-ups"),
        ),
    ),
    TableSchema(
        "memory",
        "memory of a device at a moment of the memory pass",
        (
            _PASS,
            Column("moment", "text", "", "start, built, warmup or steps: the peak since the moment before"),
            Column("device", "text", "", "cpu (resident set of the process), cuda:0 (torch's allocator), ..."),
            Column("current_bytes", "int", "B", "in use at the end of the moment"),
            _optional("peak_bytes", "int", "B", "highest use during the moment"),
            _optional("reserved_bytes", "int", "B", "highest amount that the caching allocator held"),
        ),
    ),
    TableSchema(
        "power",
        "one sample of a device's telemetry during the measured steps",
        (
            _PASS,
            Column("device", "int", "", "index of the device as NVML counts"),
            Column("time_ns", "int", "ns", "time of the sample since the epoch"),
            _optional("watts", "float", "W", "power draw"),
            _optional("energy_j", "float", "J", "the device's energy counter"),
            _optional("utilization", "float", "fraction", "share of time in which a kernel ran"),
            _optional("memory_utilization", "float", "fraction", "share of time in which memory was read or written"),
            _optional("memory_used_bytes", "int", "B", "device memory in use"),
            _optional("sm_clock_hz", "int", "Hz", "clock of the multiprocessors"),
            _optional("memory_clock_hz", "int", "Hz", "clock of the memory"),
            _optional("temperature_c", "float", "degC", "temperature of the chip"),
        ),
    ),
    TableSchema(
        "totals",
        "time of all executions of a kernel, copy or call by name, of a file that holds sums only",
        (
            _PASS,
            _RANK,
            Column("kind", "text", "", "kernel (copies and fills of a device included), runtime (host calls) or range"),
            Column("name", "text", "", "full name"),
            _optional("device", "text", "", "cuda:0, ...; null where the file adds up all devices"),
            Column("calls", "int", "", "executions"),
            Column("total_ns", "float", "ns", "time of all executions"),
            _optional("mean_ns", "float", "ns", "mean time"),
            _optional("median_ns", "float", "ns", "median time"),
            _optional("minimum_ns", "float", "ns", "shortest"),
            _optional("maximum_ns", "float", "ns", "longest"),
            _optional("deviation_ns", "float", "ns", "standard deviation"),
        ),
    ),
    TableSchema(
        "counters",
        "one value of a hardware counter or metric, of one execution of a kernel or of all executions of its name",
        (
            _PASS,
            _RANK,
            _optional("kernel", "int", "", "row of the execution in table kernels; null where the file adds them up"),
            Column("name", "text", "", "full name of the kernel"),
            _optional("calls", "int", "", "executions that the value stands for, where the file adds them up"),
            Column("metric", "text", "", "name of the metric as the profiler gives it"),
            Column(
                "unit", "text", "", "unit of the value: B, B/s, ns, Hz, %, as in the file otherwise; empty for a count"
            ),
            _optional(
                "value",
                "float",
                "the unit's",
                "value; a mean where the file adds up executions; null where it has none",
            ),
            _optional("minimum", "float", "the unit's", "least value among the executions"),
            _optional("maximum", "float", "the unit's", "greatest value among the executions"),
        ),
    ),
    TableSchema(
        "trainings",
        "one training run to its target",
        (
            _PASS,
            Column("run", "int", "", "number of the run in this record, from 0"),
            Column("file", "text", "", "file that the run was read from"),
            _optional("benchmark", "text", "", "benchmark as the log names it"),
            _optional("system", "text", "", "platform as the log names it"),
            _optional("submitter", "text", "", "submitter as the log names it"),
            _optional("seed", "int", "", "random seed"),
            _optional("batch_size", "int", "samples", "global batch"),
            _optional("target", "float", "", "quality to be reached"),
            _optional("metric", "text", "", "name of the quality metric, where the log names it"),
            _optional("status", "text", "", "success or aborted, as the log says; null where it ends before"),
            _optional("seconds", "float", "s", "time to train: from run_start to run_stop"),
            _optional("epochs", "float", "", "epochs to the last evaluation, where the log counts epochs"),
            _optional("samples", "int", "samples", "samples to the last evaluation, where the log counts samples"),
            _optional("quality", "float", "", "value of the last evaluation"),
            _optional(
                "logged",
                "float",
                "",
                "number that the log itself gives the last evaluation (epoch_num or "
                "samples_count): what published tables quote",
            ),
        ),
    ),
    TableSchema(
        "epochs",
        "one evaluation, or one epoch, of a training run",
        (
            _PASS,
            Column("run", "int", "", "run in table trainings"),
            _optional("epoch", "float", "", "epochs trained so far; fractions where the log evaluates within an epoch"),
            _optional("samples", "int", "samples", "samples trained on so far"),
            _optional("seconds", "float", "s", "time since the run began"),
            _optional("quality", "float", "", "value of the quality metric"),
            _optional("metric", "text", "", "name of the quality metric, where one evaluation gives several"),
            _optional("loss", "float", "", "training loss"),
        ),
    ),
    TableSchema(
        "allocations",
        "one event of torch's memory timeline",
        (
            _PASS,
            _RANK,
            _optional("time_ns", "int", "ns", "time; null for what existed before the profile began"),
            Column("action", "text", "", "preexisting, create, increment_version or destroy"),
            Column("nbytes", "int", "B", "bytes by which the category grows; negative where it shrinks"),
            Column(
                "category",
                "text",
                "",
                "parameter, optimizer state, input, temporary, activation, gradient, autograd detail or unknown",
            ),
        ),
    ),
    TableSchema(
        "memory_curve",
        "bytes in use by category at a moment, of torch's memory timeline",
        (
            _PASS,
            _RANK,
            Column("time_ns", "int", "ns", "time"),
            Column("category", "text", "", "as in table allocations"),
            Column("nbytes", "int", "B", "bytes in use"),
        ),
    ),
)

TABLES: dict[str, TableSchema] = {table.name: table for table in _TABLES}


def table_schema(name: str) -> TableSchema:
    """The schema of a table; raises UnknownNameError."""
    if name not in TABLES:
        raise UnknownNameError("table", name, list(TABLES))
    return TABLES[name]


def to_arrow(name: str, columns: Mapping[str, Any], passname: str | None = None) -> pa.Table:
    """A checked Arrow table from column name to values (lists, numpy arrays, pandas series or Arrow arrays).

    Optional columns may be left out (they become null); `pass` is filled with ``passname`` where it is not given.

    Raises
    ------
    RecordError : a required column is missing or holds a null, a column is unknown, or lengths differ.
    """
    import pyarrow as pa

    schema = table_schema(name)
    unknown = set(columns) - set(schema.column_names())
    if unknown:
        raise RecordError(f"Table {name} has no column {', '.join(sorted(unknown))}.", "See docs/record.md.")
    rows = len(next(iter(columns.values()))) if columns else 0
    arrays = []
    for column, field in zip(schema.columns, schema.arrow(), strict=True):
        values = columns.get(column.name)
        if column.name == "pass" and values is None:
            values = _repeated(passname, rows)
        if values is None and column.required and rows:
            raise RecordError(f"Table {name} lacks its column {column.name}.", "See docs/record.md.")
        array = pa.nulls(rows, field.type) if values is None else _arrow_array(values, field.type, name, column.name)
        if column.required and array.null_count:
            raise RecordError(f"Table {name}, column {column.name}: {array.null_count} of {rows} values are null.")
        if len(array) != rows:
            raise RecordError(f"Table {name}, column {column.name}: {len(array)} values, {rows} expected.")
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema.arrow())


def _repeated(text: str | None, rows: int) -> Any:
    import pyarrow as pa

    if text is None:
        return pa.nulls(rows, pa.string())
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([text]))


def _arrow_array(values: Any, kind: Any, table: str, column: str) -> Any:
    import pyarrow as pa

    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        if isinstance(values, pa.Array):
            return values if values.type == kind else values.cast(kind)
        if pa.types.is_integer(plain) and isinstance(values, list | tuple):
            array = pa.array(values, from_pandas=True).cast(plain)  # refuses 1.5; with a type, pa.array makes it 1
        else:
            array = pa.array(values, type=plain, from_pandas=True)
    except (pa.ArrowException, OverflowError) as error:
        raise RecordError(f"Table {table}, column {column}: {error}.") from error
    return array.dictionary_encode() if pa.types.is_dictionary(kind) else array
