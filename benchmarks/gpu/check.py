"""scripts/gpu-check run: what is looked at, in which order."""
import json
import sys

import goals
import start
import throughput
import trainings
from machine import Machine
from report import FAILED, Budget, Failure, Report

GROUPS = {group.name: group for group in throughput.PLAN}
SECONDS_OF_CHECKS = 200  # assumed, as those of the groups


def run(options):
    try:
        parts = parts_of(options.only)
        if options.dry_run:
            print(plan(parts))
            return 0
        machine = Machine(options.bundle, options.python)
    except Failure as error:
        print(f"rollcall: gpu-check: {error}", file=sys.stderr)
        return 64 if isinstance(error, NoPart) else 69
    report = Report(Budget(60 * options.minutes), machine.why_no_gpu(), options.json)
    report.facts = machine.facts()
    for name, fact in report.facts.items():
        print(f"{name}: {fact}")
    if report.no_gpu and not report.facts["gpu"].startswith("not told"):
        report.line("the GPU that nvidia-smi shows", FAILED, report.no_gpu)
    if "checks" in parts:
        trainings.check(machine, report)
    if "start" in parts:
        start.measure(machine, report)
    throughput.measure(machine, report, [GROUPS[part] for part in parts if part in GROUPS])
    print(report.tables())
    report.write()
    return report.exit_code()


class NoPart(Failure):
    """--only names something else."""


def parts_of(only):
    """Parts by name, in their order: "checks", "start", groups of PLAN; "throughput" is start and all groups."""
    every = ["checks", "start", *GROUPS]
    if not only:
        return every
    asked = [name for word in only.split(",") for name in (every[1:] if word == "throughput" else [word])]
    for name in asked:
        if name not in every:
            raise NoPart(f"--only: {name}: is not a part of the check; try naming some of {', '.join(every)}, throughput")
    return [name for name in every if name in asked]


def plan(parts):
    """What each part has, and the seconds that it is assumed to take."""
    told = {"checks": (SECONDS_OF_CHECKS, "trainings, checkpoints, graphs, NCCL, kernels"), "start": (start.SECONDS, "to the first step")}
    told |= {name: (group.all_seconds(), ", ".join(group.sides)) for name, group in GROUPS.items()}
    lines = [f"{name:22} {told[name][0]:5.0f} s  {told[name][1]}" for name in parts]
    return "\n".join([*lines, f"{'in all':22} {sum(told[name][0] for name in parts):5.0f} s"])


def tell_goals(options):
    """Of several runs' files on one machine."""
    try:
        merged = goals.merged(runs_of(options.files))
    except Failure as error:
        print(f"rollcall: gpu-check: goals: {error}", file=sys.stderr)
        return 64
    print(goals.table(merged))
    return 1 if goals.broken(goals.judged(merged)) else 0


def runs_of(files):
    runs = []
    for file in files:
        try:
            run = json.loads(file.read_text())
            goals.judged(goals.merged([run]))
            why = goals.unlike(run, (runs or [run])[0])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise Failure(f"{file}: was not written by gpu-check run; try naming the file of its --json") from None
        if why:
            raise Failure(f"{file}: {why} as in {files[0]}; try comparing files of one machine")
        runs.append(run)
    return runs
