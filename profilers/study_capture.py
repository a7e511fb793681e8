"""What a study runs tasks with: the settings of the suites, records that are missing, and parts derived of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wcbench import record
from wcbench.errors import UsageError
from wcbench.machine import cpu

PRESET = "paper"
Told = Callable[[str, int, int, str], None]
"""Called as ``told(stage, done, total, text)``."""


class StudyTasks:
    """Runs tasks for a study, ``jobs`` at a time (None: one a core), with records below ``root``."""

    def __init__(self, jobs: int | None, root: Path) -> None:
        if jobs is not None and jobs < 1:
            raise UsageError(f"--jobs {jobs} is refused.", "Give a whole number from 1 up.")
        self.jobs: int = jobs or cpu()["usable_cores"] or 1
        self.root = root

    def settings(self, task: str) -> Mapping[str, Any]:
        """Settings of a record of the task's operators as the suite has it."""
        from wcbench.profilers.changed import counted_settings
        from wcbench.tasks.load import load_task

        return counted_settings(load_task(task), PRESET)

    def profile(self, tasks: Sequence[str], tell: Told) -> list[tuple[str, Path | None, str | None]]:
        """Profile tasks' operators: (task, folder of the record or None, why there is none)."""
        from wcbench.profilers.suite import TaskRun, profile_tasks

        def one(run: TaskRun, done: int, total: int) -> None:
            tell("profile", done, total, f"{run.task}: {run.error or f'{run.seconds:.0f} s'}")

        record.check_place(self.root / "new", force=False)
        options = {"passes": ["operators"], "preset": PRESET, "runs": self.root}
        return [(r.task, r.path, r.error) for r in profile_tasks(tasks, options, jobs=self.jobs, told=one)]

    def derive(self, asked: Sequence[Mapping[str, Any]], tell: Told) -> list[tuple[str, Mapping[str, str], str | None]]:
        """Run jobs given as `change_jobs.Job` takes them: (workload, changes that failed and why, error)."""
        from wcbench.profilers.change_jobs import Job, JobDone, run_jobs

        def one(job: JobDone, done: int, total: int) -> None:
            tell("features", done, total, f"{job.workload}: {job.error or f'{job.made} made, {job.kept} kept'}")

        found = run_jobs([Job(**entry) for entry in asked], at_a_time=self.jobs, told=one)
        return [(job.workload, job.failed, job.error) for job in found]
