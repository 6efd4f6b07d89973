"""What training on a GPU is to reach (docs/gpu.md, "Goals on hardware"), and whether what was measured reaches it. Pure.

A goal of speed that is missed is told. A promise, of what is right or wrong, fails the run.
"""
import dataclasses
import typing

import speeds

# Figures that parts of a run leave: the largest relative difference of losses on the GPU from those on the CPU; tensors of a
# checkpoint that differ; milliseconds; a share of Python's seconds.
LOSSES, RESUMED, IN_A_GRAPH, STALL, START = "losses_differ", "resumed_tensors_differ", "graph_tensors_differ", "stall_ms", "start_of_python"
# In fp32: sums in another order, so no bit is promised between a GPU and a CPU.
MOST_DIFFERENCE = 1e-4
PRECISIONS = ("bf16", "fp16")
MET, MISSED, NOT_MEASURED, TOLD = "met", "missed", "not measured", "told"


@dataclasses.dataclass(frozen=True)
class Goal:
    """`measured`: of a run's results, or None. `target`: at least, or at most, so much; None: told, without one."""
    name: str
    measured: typing.Callable
    target: float | None
    at_least: bool = True
    promise: bool = False
    form: str = ".2f"

    def outcome(self, value):
        if value is None:
            return NOT_MEASURED
        if self.target is None:
            return TOLD
        return MET if (value >= self.target if self.at_least else value <= self.target) else MISSED

    def aim(self):
        return "-" if self.target is None else f"{'>=' if self.at_least else '<='} {self.target:{self.form}}"


def of_speed(group, side, other):
    return lambda results: speeds.ratio(results["speeds"], group, side, other)


def of_memory(group):
    def share(results):
        ours = [one for one in results["speeds"] if (one["group"], one["side"]) == (group, "rollcall")]
        return speeds.share_of_memory(ours[0], str(results["facts"].get("gpu", ""))) if ours else None
    return share


def figure(name):
    return lambda results: results["figures"].get(name)


def of_each_precision(precision):
    large, small = f"256-{precision}", f"64-{precision}"
    graph = "rollcall --cuda-graph=on"
    return [Goal(f"{precision}, batch 256: speed of eager PyTorch's", of_speed(large, "rollcall", "python eager"), 1.25),
            Goal(f"{precision}, batch 256: speed of torch.compile's, max-autotune", of_speed(large, "rollcall", "python max-autotune"), 1.1),
            Goal(f"{precision}, batch 64, a graph: speed of torch.compile's", of_speed(small, graph, "python compile"), 1.3),
            Goal(f"{precision}, batch 256: speed of what memory allows", of_memory(large), None)]


GOALS = [
    Goal("losses on the GPU and the CPU: largest relative difference", figure(LOSSES), MOST_DIFFERENCE, False, True, ".1e"),
    Goal("resumed on the GPU, --deterministic=on: tensors that differ", figure(RESUMED), 0, False, True, ".0f"),
    Goal("a graph, --deterministic=on: tensors that differ", figure(IN_A_GRAPH), 0, False, True, ".0f"),
    *(goal for precision in PRECISIONS for goal in of_each_precision(precision)),
    Goal("packed JPEGs, 4 workers: speed of synthetic images'", of_speed("jpeg", "rollcall --data=photos", "rollcall"), 0.97, form=".3f"),
    Goal("--deterministic=on, bf16, batch 256: speed of that without", of_speed("256-bf16", "rollcall --deterministic=on", "rollcall"), None),
    Goal("a save in the background: median stall, ms", figure(STALL), 2, False, form=".1f"),
    Goal("start to first step: seconds of eager PyTorch's", figure(START), 0.5, False)]


def judged(results):
    """Of {figures, speeds, facts}: [{goal, target, at_least, promise, measured, outcome}], in GOALS' order."""
    values = [(goal, goal.measured(results)) for goal in GOALS]
    return [{"goal": goal.name, "target": goal.target, "at_least": goal.at_least, "promise": goal.promise, "measured": value,
             "outcome": goal.outcome(value)} for goal, value in values]


def broken(judgements):
    """Whether a promise is not kept."""
    return any(one["promise"] and one["outcome"] == MISSED for one in judgements)


def merged(runs):
    """Results of several runs on one machine, as one: the last measurement of each counts."""
    of_sides = {(one["group"], one["side"]): one for run in runs for one in run["speeds"]}
    return {"facts": {name: fact for run in runs for name, fact in run["facts"].items()},
            "figures": {name: value for run in runs for name, value in run["figures"].items()}, "speeds": list(of_sides.values())}


def table(results):
    rows = [("goal", "target", "measured", "")]
    for goal, one in zip(GOALS, judged(results)):
        measured = "-" if one["measured"] is None else f"{one['measured']:{goal.form}}"
        broken_promise = one["promise"] and one["outcome"] == MISSED
        rows.append((goal.name, goal.aim(), measured, one["outcome"] + (": a promise" if broken_promise else "")))
    return speeds.aligned(rows, left=(0, len(rows[0]) - 1))
