"""`wcbench export`: tables and PyProf's columns as files that other programs read back unchanged."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

import wcbench
from wcbench.analysis.pyprof import COLUMNS
from wcbench.cli import main
from wcbench.errors import RecordError, UnknownNameError, UsageError
from wcbench.record import PassInfo, Profile, new_profile
from wcbench.schema import to_arrow
from wcbench.tasks.base import PRESETS, Built, Config, Settings, Task

HOSTILE = ['aten::mul<"a,b">', "line\none", "comma, 'quote' \"twice\"", "=1+1", "naïve ∑", "/home/ada/x.cu", "host9"]
START = 1_796_057_203_447_699_011  # odd: a float64 would lose the last digits


def info(**changes: Any) -> PassInfo:
    values: dict[str, Any] = {
        "preset": "tiny",
        "settings": {},
        "batch_size": 4,
        "samples": 4,
        "precision": "fp32",
        "device": "cpu",
        "tensors": "real",
        "seed": 0,
        "steps": 1,
        "warmup": 0,
        "seconds": 1.0,
    }
    return PassInfo(**{**values, **changes})


def kernel_rows() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "rank": 0,
            "device": "cuda:0",
            "start_ns": START + i,
            "duration_ns": 2**53 + 1 + i,
            "step": None if i == 1 else 0,
            "phase": "forward",
            "module": "" if i == 0 else None,
            "grid": [2, 1, 1] if i == 0 else None,
            "occupancy_estimate": 0.1 if i == 0 else None,
            "bytes": 2**53 + 1 if i == 0 else None,
        }
        for i, name in enumerate(HOSTILE)
    ]


def tensor(*shape: int) -> dict[str, Any]:
    return {"storage": 1, "version": 0, "offset": 0, "shape": list(shape), "stride": [1, 1], "dtype": "float32"}


def operator_rows() -> list[dict[str, Any]]:
    counted = {"flops_matrix": 4096, "flops_matrix_half": 4096, "flops_all": 4224}
    row = {"step": 0, "kind": "train", "phase": "forward", "overload": "", "covered": True, "accesses": [], **counted}
    tensors = {"inputs": [tensor(32), tensor(4, 16), tensor(16, 32)], "outputs": [tensor(4, 32)]}
    size = {"bytes_read": 2432, "bytes_written": 512}
    names = ("aten::addmm", 'my::host9,"x"')
    modules = ("model.0", "/home/ada/net.py")
    return [
        {**row, **tensors, **size, "order": i, "name": name, "module": module}
        for i, (name, module) in enumerate(zip(names, modules, strict=True))
    ]


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {key: [row[key] for row in rows] for key in rows[0]}


@pytest.fixture
def saved(tmp_path: Path) -> Profile:
    identity = {"home": "/home/ada", "user": "ada", "hostname": "host9"}
    made = new_profile(
        task="toy",
        variant=None,
        suites=[],
        machine={"identity": identity},
        command=["wcbench"],
        passes={"operators": info(tensors="fake"), "timeline": info(device="cuda:0")},
        tables={
            "kernels": to_arrow("kernels", columns(kernel_rows()), "timeline"),
            "operators": to_arrow("operators", columns(operator_rows()), "operators"),
        },
        notes=(),
    )
    return made.save(tmp_path / "runs" / "toy" / "one")


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WCBENCH_RUNS", raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wcbench", "export", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return int(str(ended.value.code)), told.out, told.err

    return run


# tables


def test_csv_keeps_names_whole_numbers_nulls_and_lists(saved: Profile, tmp_path: Path) -> None:
    path = wcbench.export(saved, tmp_path / "k.csv", table="kernels", redact=False)
    kinds = {"start_ns": "Int64", "duration_ns": "Int64", "step": "Int64", "bytes": "Int64"}
    frame = pd.read_csv(path, dtype=kinds)
    assert list(frame.columns) == saved.arrow("kernels").column_names
    assert frame["name"].tolist() == HOSTILE
    assert frame["start_ns"].tolist() == [START + i for i in range(len(HOSTILE))]
    assert frame["duration_ns"].tolist() == [2**53 + 1 + i for i in range(len(HOSTILE))]
    assert frame["bytes"][0] == 2**53 + 1
    assert frame["step"].isna().tolist() == [i == 1 for i in range(len(HOSTILE))]
    assert json.loads(frame["grid"][0]) == [2, 1, 1]
    assert frame["grid"].isna().sum() == len(HOSTILE) - 1
    assert frame["occupancy_estimate"][0] == 0.1
    assert frame["registers"].isna().all()
    assert '"timeline","comma, \'quote\' ""twice"""' in path.read_text(encoding="utf-8")


def test_csv_tells_an_empty_text_from_a_null(saved: Profile, tmp_path: Path) -> None:
    path = wcbench.export(saved, tmp_path / "k.csv", table="kernels", redact=False)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert ',"forward",,"",,' in lines[1]
    assert ',"forward",,,,' in lines[-1]


def test_csv_holds_an_operators_tensors_as_json(saved: Profile, tmp_path: Path) -> None:
    path = wcbench.export(saved, tmp_path / "o.csv", table="operators", redact=False)
    frame = pd.read_csv(path)
    assert [json.loads(text) for text in frame["inputs"]] == [row["inputs"] for row in operator_rows()]
    assert frame["accesses"].tolist() == ["[]", "[]"]


@pytest.mark.parametrize("table", ["kernels", "operators"])
def test_parquet_is_the_table_itself(saved: Profile, tmp_path: Path, table: str) -> None:
    path = wcbench.export(saved, tmp_path / "t.parquet", table=table, form="parquet", redact=False)
    back = pq.read_table(path)
    assert back.equals(saved.arrow(table))
    assert back.schema.field("pass").metadata == saved.arrow(table).schema.field("pass").metadata
    assert back.schema.metadata[b"wcbench.table"] == table.encode()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_names_of_people_and_hosts_are_hidden_unless_kept(saved: Profile, tmp_path: Path, form: str) -> None:
    path = wcbench.export(saved, tmp_path / "k", table="kernels", form=form)
    frame = pd.read_csv(path) if form == "csv" else pq.read_table(path).to_pandas()
    assert frame["name"].astype(str).tolist() == [*HOSTILE[:-2], "~/x.cu", "<host>"]
    if form == "parquet":
        units = {field.name: field.metadata[b"unit"] for field in pq.read_schema(path)}
        assert units == {field.name: field.metadata[b"unit"] for field in saved.arrow("kernels").schema}
        assert units["duration_ns"] == b"ns"
    assert saved.arrow("kernels")["name"].to_pylist() == HOSTILE  # the record keeps them


# PyProf


def test_pyprof_quotes_every_cell_and_says_what_is_missing(saved: Profile, tmp_path: Path) -> None:
    told: list[str] = []
    path = wcbench.export(saved, tmp_path / "p.csv", form="pyprof", note=told.append)
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == ",".join(f'"{name}"' for name in COLUMNS)
    assert text.splitlines()[1] == (
        '"na","na","addmm","fprop","na","na","4096","2944","na","na","na","na",'
        '"1","M=32,N=4,K=16,fp32,","model.0","forward","aten::addmm"'
    )
    with path.open(newline="", encoding="utf-8") as stream:
        second = list(csv.DictReader(stream))[1]
    assert (second["Op"], second["Layer"], second["Operator"]) == ('<host>,"x"', "~/net.py", 'my::<host>,"x"')
    assert told == ["Sil(ns) is na: operators were recorded at device cpu, the timeline at cuda:0."]
    with pytest.warns(UserWarning, match=r"Sil\(ns\) is na"):
        kept = wcbench.export(saved, tmp_path / "kept.csv", form="pyprof", redact=False)
    assert '"/home/ada/net.py","forward","my::host9,""x"""' in kept.read_text(encoding="utf-8")


def test_pyprof_numbers_read_back_as_numbers(saved: Profile, tmp_path: Path) -> None:
    path = wcbench.export(saved, tmp_path / "p.csv", form="pyprof", note=lambda _: None)
    frame = pd.read_csv(path, na_values=["na"])
    assert frame["FLOPs"].tolist() == [4096, 4096]
    assert frame["Sil(ns)"].isna().all()


class Mlp(Task):
    """16-32-8 with ReLU between on a batch of 4: forward 2 * 4 * (16 * 32 + 32 * 8) = 6144 matrix FLOP."""

    presets: ClassVar[Mapping[str, Settings]] = dict.fromkeys(PRESETS, Settings(4))

    def build(self, config: Config) -> Built:
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)

        def step(batch: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Built(step, lambda index: torch.full((4, 16), float(index)), {"model": model}, 4, {"sgd": optimizer})


def test_a_real_step_has_the_times_of_its_own_timeline(tmp_path: Path) -> None:
    made = wcbench.profile(Mlp, device="cpu", preset="tiny", passes=["operators", "timeline"], steps=2, save=False)
    told: list[str] = []
    path = wcbench.export(made, tmp_path / "p.csv", form="pyprof", note=told.append)
    assert told == []
    frame = pd.read_csv(path, na_values=["na"], keep_default_na=False)
    products = frame[frame["Op"].isin(["addmm", "mm"])]
    assert products.groupby("Direction")["FLOPs"].sum().to_dict() == {"fprop": 6144, "bprop": 2 * 6144 - 4096}
    assert products["Params"].tolist()[:2] == ["M=32,N=4,K=16,fp32,", "M=8,N=4,K=32,fp32,"]
    assert (products["Sil(ns)"] > 0).all()
    moving = frame[frame["Bytes"] > 0]
    assert moving["Sil(ns)"].notna().all()
    ops = made.table("ops")
    spent = ops.loc[ops["step"] == ops["step"].max(), "self_ns"].sum()
    assert 0 < moving["Sil(ns)"].sum() <= spent


# where it goes, and what is refused


def test_it_goes_into_the_records_folder_and_leaves_the_record_alone(saved: Profile) -> None:
    assert saved.path is not None
    before = (saved.path / "kernels.parquet").read_bytes()
    path = wcbench.export(saved, table="kernels", form="parquet")
    assert path == saved.path / "export" / "kernels.parquet"
    with pytest.raises(RecordError, match="part of the record"):
        wcbench.export(saved, saved.path / "kernels.parquet", table="kernels", form="parquet", force=True)
    assert (saved.path / "kernels.parquet").read_bytes() == before
    assert wcbench.load(saved.path).table("kernels")["name"].tolist() == HOSTILE
    assert sorted(p.name for p in path.parent.iterdir()) == ["kernels.parquet"]  # no half file


def test_an_existing_file_is_kept_unless_forced(saved: Profile, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("mine")
    with pytest.raises(RecordError, match="exists and is left as it is"):
        wcbench.export(saved, file, table="kernels")
    assert file.read_text() == "mine"
    wcbench.export(saved, file, table="kernels", force=True)
    assert file.read_text(encoding="utf-8").startswith('"pass","name"')
    with pytest.raises(RecordError, match="is a folder"):
        wcbench.export(saved, tmp_path, table="kernels", force=True)


def test_a_place_that_takes_nothing_is_an_error_of_the_record(saved: Profile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="could not be written"):
        wcbench.export(saved, tmp_path / "file" / "k.csv", table="kernels")


def test_a_table_that_was_not_recorded_is_said_with_those_that_were(saved: Profile, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no table power: no pass recorded a row of it") as error:
        wcbench.export(saved, tmp_path / "p.csv", table="power")
    assert error.value.hint == "The record has: kernels, operators."
    assert not (tmp_path / "p.csv").exists()


def test_unknown_names_are_answered_with_the_nearest(saved: Profile) -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown table 'kernls'\.\nDid you mean 'kernels'"):
        wcbench.export(saved, table="kernls")
    with pytest.raises(UnknownNameError, match=r"Unknown format 'parquett'\.\nDid you mean 'parquet'"):
        wcbench.export(saved, table="kernels", form="parquett")


def test_a_table_must_be_named_and_pyprof_takes_none(saved: Profile) -> None:
    with pytest.raises(UsageError, match="needs the name of a table") as error:
        wcbench.export(saved)
    assert "kernels, operators" in str(error.value.hint)
    with pytest.raises(UsageError, match="made from table operators, not kernels"):
        wcbench.export(saved, table="kernels", form="pyprof")


def test_a_record_in_memory_needs_a_file(saved: Profile, tmp_path: Path) -> None:
    memory = Profile(saved.manifest, {name: saved.arrow(name) for name in saved.tables})
    with pytest.raises(UsageError, match="was not saved"):
        wcbench.export(memory, table="kernels")
    assert wcbench.export(memory, tmp_path / "k.csv", table="kernels").exists()


# the command


@pytest.mark.usefixtures("saved")
def test_the_command_writes_and_says_where(cli: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, err = cli("toy", "--table", "kernels", "-o", "k.csv")
    assert (code, out, err) == (0, "Wrote k.csv\n", "")
    assert "host9" not in (tmp_path / "k.csv").read_text(encoding="utf-8")
    code, out, err = cli("toy", "--table", "kernels", "-o", "k.csv")
    assert (code, out) == (1, "")
    assert "k.csv exists" in err
    code, out, err = cli("toy", "--table", "kernels", "-o", "k.csv", "--force", "--keep-names", "--quiet")
    assert (code, out, err) == (0, "", "")
    assert "host9" in (tmp_path / "k.csv").read_text(encoding="utf-8")


@pytest.mark.usefixtures("saved")
def test_the_command_tells_what_pyprof_lacks_on_standard_error(cli: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = cli("toy", "--format", "pyprof")
    assert code == 0
    assert out.replace("\\", "/") == "Wrote runs/toy/one/export/pyprof.csv\n"
    assert err.startswith("note: Sil(ns) is na: operators were recorded at device cpu")


@pytest.mark.usefixtures("saved")
def test_the_command_ends_with_2_on_a_wrong_name(cli: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = cli("toy", "--table", "kernel")
    assert (code, out) == (2, "")
    assert "Did you mean 'kernels'?" in err
