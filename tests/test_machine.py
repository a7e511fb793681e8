"""What the machine is, told from laid-out file trees; where two machines differ; and hiding whose it is.

The GPUs of `describe` are tested in test_power.py, through the stand-in for NVIDIA's library.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wcbench import machine
from wcbench.machine import Difference, describe, differences
from wcbench.redaction import redact, redact_tree

K = 1024


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def topology(*cores: tuple[int, int]) -> dict[str, str]:
    """Package and core of each logical processor."""
    base = "sys/devices/system/cpu"
    return {
        f"{base}/cpu{index}/topology/{name}": f"{value}\n"
        for index, pair in enumerate(cores)
        for name, value in zip(("physical_package_id", "core_id"), pair, strict=True)
    }


def caches(*rows: tuple[int, str, str]) -> dict[str, str]:
    base = "sys/devices/system/cpu/cpu0/cache"
    return {
        f"{base}/index{index}/{name}": f"{value}\n"
        for index, row in enumerate(rows)
        for name, value in zip(("level", "type", "size"), row, strict=True)
    }


# describe


def test_describe_is_plain_json_with_every_section() -> None:
    found = describe()
    assert json.loads(json.dumps(found)) == found
    sections = {"time", "identity", "platform", "python", "cpu", "gpus", "gpus_reason", "packages", "wcbench"}
    assert set(found) == {*sections, "environment"}
    assert found["python"]["version"] == platform.python_version()
    assert set(found["packages"]) == set(machine.PACKAGES)
    assert isinstance(machine.wcbench_version(), str)


def test_absent_is_none_and_never_zero() -> None:
    def leaves(value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [leaf for child in value.values() for leaf in leaves(child)]
        return [value]

    found = describe()
    assert not [leaf for leaf in leaves(found["cpu"]) if leaf == 0]
    assert found["gpus"] or found["gpus_reason"]


def test_an_empty_tree_gives_none_with_reasons(tmp_path: Path) -> None:
    found = machine.cpu(tmp_path)
    names = ["physical_cores", "quota_cores", "l1d_bytes", "l2_bytes", "l3_bytes", "isa"]
    names += ["memory_bytes", "memory_limit_bytes"]
    assert {name: found[name] for name in names} == dict.fromkeys(names)
    assert set(found["reasons"]) == {"isa", "model", "caches"}


def test_the_libraries_are_not_imported_by_importing_machine() -> None:
    code = "import sys, wcbench.machine; print([m for m in ('torch', 'pynvml', 'numpy', 'pandas') if m in sys.modules])"
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_user_without_an_entry_in_the_password_file_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", fail)
    assert machine.identity()["user"] is None


# Processor


def test_x86(tmp_path: Path) -> None:
    block = "processor\t: {}\nmodel name\t: Maker Xeon 1\nflags\t\t: fpu avx avx2 avx512f amx_tile avx512_bf16 sse2\n"
    lay(tmp_path, {"proc/cpuinfo": "\n".join(block.format(n) for n in range(4))})
    # Two packages of one core with two threads each: core ids repeat from package to package.
    lay(tmp_path, topology((0, 0), (0, 0), (1, 0), (1, 0)))
    lay(
        tmp_path, caches((1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2M"), (3, "Unified", "107520K"))
    )
    found = machine.cpu(tmp_path)
    assert found["model"] == "Maker Xeon 1"
    assert found["physical_cores"] == 2
    assert found["l1d_bytes"] == 48 * K
    assert found["l2_bytes"] == 2 * K * K
    assert found["l3_bytes"] == 107_520 * K
    assert found["isa"] == ["avx", "avx2", "avx512f", "avx512_bf16", "amx_tile"]
    assert found["reasons"] == {}


def test_arm(tmp_path: Path) -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    found = machine.cpu(lay(tmp_path, {"proc/cpuinfo": text}))
    assert found["model"] == "Arm implementer 0x41 part 0xd40"
    assert found["isa"] == ["asimd", "i8mm", "bf16", "sve"]


def test_memory(tmp_path: Path) -> None:
    lay(tmp_path, {"proc/meminfo": "MemTotal:       16384 kB\nMemFree:        1 kB\n"})
    assert machine.memory(tmp_path) == {"memory_bytes": 16_777_216, "memory_limit_bytes": None}


# Control groups


def test_version_2_takes_the_tightest_group_on_the_way_up(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/team/job"
    lay(tmp_path, {"proc/self/cgroup": "0::/team/job\n", "proc/meminfo": "MemTotal: 1048576 kB\n"})
    lay(tmp_path, {f"{group}/cpu.max": "max 100000\n", "sys/fs/cgroup/team/cpu.max": "150000 100000\n"})
    lay(tmp_path, {f"{group}/memory.max": "1048576\n", "sys/fs/cgroup/team/memory.max": "max\n"})
    assert machine.cpu_quota(tmp_path) == 1.5  # 150000 us in every 100000 us
    assert machine.memory(tmp_path)["memory_limit_bytes"] == K * K


def test_version_2_in_a_container_reads_the_mount_itself(tmp_path: Path) -> None:
    lay(tmp_path, {"proc/self/cgroup": "0::/docker/0123\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert machine.cpu_quota(tmp_path) == 2.0


def test_version_1(tmp_path: Path) -> None:
    lay(tmp_path, {"proc/self/cgroup": "9:memory:/job\n4:cpu,cpuacct:/job\n0::/\n", "sys/fs/cgroup/unified/x": ""})
    cpu = "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs"
    lay(tmp_path, {f"{cpu}_quota_us": "50000\n", f"{cpu}_period_us": "100000\n"})
    lay(tmp_path, {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2147483648\n"})
    assert machine.cpu_quota(tmp_path) == 0.5
    assert machine.memory_limit(tmp_path) == 2 * K**3


def test_version_1_without_limits(tmp_path: Path) -> None:
    lay(tmp_path, {"proc/self/cgroup": "9:memory:/\n4:cpu:/\n"})
    lay(tmp_path, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"})
    lay(tmp_path, {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"})
    assert machine.cpu_quota(tmp_path) is None
    assert machine.memory_limit(tmp_path) is None


def test_a_limit_above_the_memory_is_none(tmp_path: Path) -> None:
    lay(tmp_path, {"proc/self/cgroup": "0::/\n", "proc/meminfo": "MemTotal: 1024 kB\n"})
    lay(tmp_path, {"sys/fs/cgroup/memory.max": "99999999\n"})
    assert machine.memory(tmp_path) == {"memory_bytes": K * K, "memory_limit_bytes": None}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="affinity is Linux's")
def test_usable_cores_heed_affinity_and_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    lay(tmp_path, {"proc/self/cgroup": "0::/\n"})
    assert machine.cpu(tmp_path)["usable_cores"] == 8
    lay(tmp_path, {"sys/fs/cgroup/cpu.max": "250000 100000\n"})
    found = machine.cpu(tmp_path)
    assert (found["affinity_cores"], found["quota_cores"], found["usable_cores"]) == (8, 2.5, 3)
    lay(tmp_path, {"sys/fs/cgroup/cpu.max": "1600000 100000\n"})
    assert machine.cpu(tmp_path)["usable_cores"] == 8


# Settings and commit


def test_only_the_families_that_matter_are_recorded() -> None:
    variables = {"OMP_NUM_THREADS": "2", "KMP_AFFINITY": "compact", "ONEDNN_VERBOSE": "1", "CUDA_VISIBLE_DEVICES": "0"}
    others = {"HOME": "/home/alice", "AWS_SECRET": "x", "MY_OMP_X": "1", "TORCH_HUB_TOKEN": "x", "PYTORCH_API_KEY": "x"}
    assert machine.environment({**others, **variables}) == dict(sorted(variables.items()))


def git(folder: Path, *arguments: str) -> str:
    who = [
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b.c",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "core.hooksPath=/dev/null",
    ]
    # Without GIT_DIR, which is set where the tests run from a git hook: it would name the real repository.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=True).stdout


def test_commit_and_dirty_flag(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    found = machine.checkout(tmp_path)
    assert (found["commit"], found["reasons"]) == (None, {"commit": "the checkout has no commit yet"})
    lay(tmp_path, {"file": "1"})
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD").strip()
    assert machine.checkout(tmp_path) == {"commit": head, "dirty": False, "reasons": {}}
    lay(tmp_path, {"file": "2"})
    assert machine.checkout(tmp_path)["dirty"] is True


def test_a_git_hook_does_not_name_another_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert machine.checkout(tmp_path)["reasons"] == {"commit": "the checkout has no commit yet"}


def test_a_folder_inside_another_repository_is_not_our_checkout(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    inside = tmp_path / "site-packages"
    inside.mkdir()
    found = machine.checkout(inside)
    assert (found["commit"], found["dirty"]) == (None, None)
    assert "not run from a git checkout" in found["reasons"]["commit"]


def test_without_git_the_commit_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.checkout(tmp_path)["reasons"] == {"commit": "git is not installed"}


# differences


def test_a_machine_equals_itself() -> None:
    found = describe()
    assert differences(found, json.loads(json.dumps(found))) == []


def test_differences_have_dotted_paths_in_sorted_order() -> None:
    left = {
        "time": "1", "identity": {"user": "alice"}, "packages": {"torch": "2.13"},
        "cpu": {"isa": ["avx2"], "model": "X", "reasons": {"a": "b"}},
        "gpus": [{"index": 0, "name": "A"}], "environment": {"OMP_NUM_THREADS": "2"}, "gone": None,
    }  # fmt: skip
    right = {
        "environment": {}, "gpus": [{"index": 0, "name": "B"}, {"index": 1, "name": "B"}],
        "cpu": {"model": "X", "isa": ["avx2", "avx512f"], "reasons": {}}, "packages": {"torch": "2.14"},
        "identity": {"user": "bob"}, "time": "2",
    }  # fmt: skip
    assert differences(left, right) == [
        Difference("cpu.isa", ["avx2"], ["avx2", "avx512f"]),
        Difference("environment.OMP_NUM_THREADS", "2", None),
        Difference("gpus.0.name", "A", "B"),
        Difference("gpus.1", None, {"index": 1, "name": "B"}),
        Difference("packages.torch", "2.13", "2.14"),
    ]


def test_gpus_are_ordered_as_numbers() -> None:
    many = [{"name": str(n)} for n in range(12)]
    paths = [difference.path for difference in differences({"gpus": [{"name": "x"}] * 12}, {"gpus": many})]
    assert paths == [f"gpus.{n}.name" for n in range(12)]


def test_no_gpu_against_one() -> None:
    (found,) = differences({"gpus": []}, {"gpus": [{"name": "A"}]})
    assert (found.path, found.left, found.right) == ("gpus", [], [{"name": "A"}])


# redact

ALICE = {"home": "/home/alice", "user": "alice", "hostname": "gpu01.cs.example.edu"}
WINDOWS = {"home": r"C:\Users\Alice Smith", "user": "Alice Smith", "hostname": "DESKTOP-7Q"}
ROOT = {"home": "/root", "user": "root", "hostname": "localhost"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/runs/x.json", "~/runs/x.json"),
        ("in /home/alice.", "in ~."),
        ('{"p": "/home/alice"}', '{"p": "~"}'),
        ("PATH=/bin:/home/alice/bin", "PATH=/bin:~/bin"),
        (r"\/home\/alice\/x", r"~\/x"),
        ("file:///home/alice/x", "file:~/x"),
        # other people's homes, and names that begin like ours
        ("/home/bob/x /Users/carol/y", "/home/<user>/x /Users/<user>/y"),
        ("/home/alice2/x", "/home/<user>/x"),
        ("/home/alice.smith/x", "/home/<user>/x"),
        ("/home/bob.", "/home/<user>."),
        ("/export/home/alice/x", "/export/home/<user>/x"),
        ("-I/home/alice/x", "-I/home/<user>/x"),
        (r"C:\Users\bob\x", r"C:\Users\<user>\x"),
        ("C:/Users/bob/x", "C:/Users/<user>/x"),
        (r"d:\\users\\bob\\x", r"d:\\users\\<user>\\x"),
        (r"C:\Users\Bob Jones\x", r"C:\Users\<user>\x"),
        (r"C:\Users\bob and more", r"C:\Users\<user> and more"),
        ("/home/jos\\u00e9/x", "/home/<user>/x"),
        # names
        ("alice ran it", "<user> ran it"),
        ("Alice@gpu01:", "<user>@<host>:"),
        ("malice, alices and alice_2", "malice, alices and alice_2"),
        ("on gpu01.cs.example.edu today", "on <host> today"),
        ("gpu01_4711.1700000000.pt.trace.json", "<host>_4711.1700000000.pt.trace.json"),
        ("gpu012 and xgpu01", "gpu012 and xgpu01"),
        ("/home/", "/home/"),
        ("/home/../etc", "/home/../etc"),
    ],
)
def test_redact(text: str, expected: str) -> None:
    assert redact(text, ALICE) == expected
    assert redact(expected, ALICE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"C:\Users\Alice Smith\x", r"~\x"),
        ("c:/users/alice smith/x", "~/x"),
        (json.dumps({"path": "C:\\Users\\Alice Smith\\x"}), r'{"path": "~\\x"}'),
        ("by Alice Smith on desktop-7q", "by <user> on <host>"),
    ],
)
def test_redact_on_windows(text: str, expected: str) -> None:
    assert redact(text, WINDOWS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "percentages of the root",
        "root of the tree, user time, on localhost",
        "/mnt/root/x",
        "/rooted/x",
        "aten::max_pool2d and homework/Users",
    ],
)
def test_ordinary_words_survive(text: str) -> None:
    assert redact(text, ROOT) == text


def test_a_common_name_is_still_hidden_in_paths() -> None:
    assert redact("/root/x and /home/ubuntu/y", ROOT) == "~/x and /home/<user>/y"


@pytest.mark.parametrize("name", ["user", "ubuntu", "runner", "nobody", "al"])
def test_names_that_tell_nothing_are_not_replaced_as_words(name: str) -> None:
    who = {"home": f"/home/{name}", "user": name, "hostname": name}
    assert redact(f"a {name} b", who) == f"a {name} b"


@pytest.mark.parametrize("home", ["/", "C:\\", "", None])
def test_a_home_that_is_no_folder_replaces_nothing(home: str | None) -> None:
    assert redact("/data/x C:\\data", {"home": home, "user": None}) == "/data/x C:\\data"


def test_a_short_user_name_does_not_rename_operators() -> None:
    who = {"home": "/home/max", "user": "max", "hostname": "box"}
    assert redact("max_pool2d of max", who) == "max_pool2d of <user>"
    assert redact_tree({"max": 1}, who) == {"max": 1}


def test_names_outside_ascii_are_found_as_json_writes_them() -> None:
    who = {"home": "/srv/josé", "user": "josé"}
    text = json.dumps({"by": "josé", "at": "/srv/josé/x"})
    assert redact(text, who) == '{"by": "<user>", "at": "~/x"}'
    assert redact("by josé", who) == "by <user>"


def test_redact_tree() -> None:
    tree = {
        "identity": dict(ALICE), "command": ["wcbench", "/home/alice/train.py"], "steps": 3, "ratio": None,
        "nested": {"identity": 1, "by": "alice", "pair": ("alice", 2)}, "/home/alice/a": 1, "/home/bob/a": 2,
        "/home/eve/a": 3,
    }  # fmt: skip
    before = json.dumps(tree)
    assert redact_tree(tree, ALICE) == {
        "command": ["wcbench", "~/train.py"], "steps": 3, "ratio": None,
        "nested": {"by": "<user>", "pair": ["<user>", 2]}, "~/a": 1, "/home/<user>/a": 2, "/home/<user>/a (2)": 3,
    }  # fmt: skip
    assert json.dumps(tree) == before


def test_what_describe_records_is_what_redact_hides() -> None:
    found = describe()
    who = found["identity"]
    assert set(who) == {"hostname", "user", "home"}
    assert "identity" not in redact_tree(found, who)
    assert redact(f"{who['home']}/x", who) == "~/x"
