"""What training on a GPU is to reach (docs/developer/gpu_check.md, "Goals on hardware"), and whether what was measured reaches it. Pure.

A goal of speed that is missed is told. A promise, of what is right or wrong, fails the run; so it does where a part that is to show
it failed.
"""
import dataclasses
import typing

import speeds

# Figures that parts of a run leave: the largest relative difference of losses on the GPU from those on the CPU; tensors and values
# of a checkpoint that differ; milliseconds; a share of Python's seconds.
LOSSES, RESUMED, IN_A_GRAPH, STALL, START = "losses_differ", "resumed_contents_differ", "graph_contents_differ", "stall_ms", "start_of_python"
PROMISED = (LOSSES, RESUMED, IN_A_GRAPH)
# Parts of a run that show promises.
SAME_LOSSES, GRAPH = "the same losses on both", "steps in a graph, beside those without"
# Facts of a run that those of one machine have in common; "gpu" has the driver's version too.
OF_A_MACHINE = ("gpu", "libtorch", "python")
# In fp32: sums in another order, so no bit is promised between a GPU and a CPU.
MOST_DIFFERENCE = 1e-4
PRECISIONS = ("bf16", "fp16")
MET, MISSED, NOT_MEASURED, TOLD = "met", "missed", "not measured", "told"
FAILED = "FAILED"  # a part of a run, and so the promise that it is to show


def training(device):
    return f"training of a few steps, fp32, {device}"


def resumption(first, then):
    return f"checkpoint of {first}, resumed on {then}"


@dataclasses.dataclass(frozen=True)
class Goal:
    """`measured`: of a run's results, or None. `target`: at least, or at most, so much; None: told, without one. `parts`: of a promise,
    those that show it."""
    name: str
    measured: typing.Callable
    target: float | None
    at_least: bool = True
    parts: tuple = ()
    form: str = ".2f"

    @property
    def promise(self):
        return bool(self.parts)

    def outcome(self, value, parts):
        """`parts`: all of the run."""
        if value is not None and self.target is None:
            return TOLD
        if value is not None and not (value >= self.target if self.at_least else value <= self.target):
            return MISSED
        if any(part["part"] in self.parts and part["status"] == FAILED for part in parts):
            return FAILED
        return NOT_MEASURED if value is None else MET

    def aim(self):
        return "-" if self.target is None else f"{'>=' if self.at_least else '<='} {self.target:{self.form}}"


def of_speed(group, side, other):
    return lambda results: speeds.ratio(results["speeds"], group, side, other)


def of_memory(group):
    def share(results):
        ours = [one for one in results["speeds"] if (one["group"], one["side"]) == (group, "rollcall")]
        whole = ours and not speeds.has_fewer_turns(ours[0], results["speeds"])
        return speeds.share_of_memory(ours[0], str(results["facts"].get("gpu", ""))) if whole else None
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
    Goal("losses on the GPU and the CPU: largest relative difference", figure(LOSSES), MOST_DIFFERENCE, False,
         (training("cpu"), training("cuda"), SAME_LOSSES), ".1e"),
    Goal("resumed on the GPU, --deterministic=on: tensors and values that differ", figure(RESUMED), 0, False,
         (training("cuda"), resumption("cuda", "cuda")), ".0f"),
    Goal("a graph, --deterministic=on: tensors and values that differ", figure(IN_A_GRAPH), 0, False, (GRAPH,), ".0f"),
    *(goal for precision in PRECISIONS for goal in of_each_precision(precision)),
    Goal("packed JPEGs, 4 workers: speed of synthetic images'", of_speed("jpeg", "rollcall --data=photos", "rollcall"), 0.97, form=".3f"),
    Goal("--deterministic=on, bf16, batch 256: speed of that without", of_speed("256-bf16", "rollcall --deterministic=on", "rollcall"), None),
    Goal("a save in the background: median stall, ms", figure(STALL), 2, False, form=".1f"),
    Goal("start to first step: seconds of eager PyTorch's", figure(START), 0.5, False)]


def judged(results):
    """Of {figures, speeds, facts, parts}: [{goal, target, at_least, promise, measured, outcome}], in GOALS' order."""
    values = [(goal, goal.measured(results)) for goal in GOALS]
    return [{"goal": goal.name, "target": goal.target, "at_least": goal.at_least, "promise": goal.promise, "measured": value,
             "outcome": goal.outcome(value, results["parts"])} for goal, value in values]


def broken(judgements):
    """Whether a promise is not kept."""
    return any(map(is_broken, judgements))


def is_broken(one):
    return one["promise"] and one["outcome"] in (MISSED, FAILED)


def unlike(run, other):
    """Why the two cannot be of one machine, or ""."""
    for name in OF_A_MACHINE:
        facts = [" ".join(str(one["facts"].get(name)).split()) for one in (run, other)]
        if facts[0] != facts[1]:
            return f"{name}: {facts[0]}, not {facts[1]}"
    return ""


def merged(runs):
    """Results of several runs on one machine, as one: of promises the worst figure, of others the last, and whole groups, whose sides
    took turns."""
    figures = {name: value for run in runs for name, value in run["figures"].items()}
    worst = {name: max(run["figures"][name] for run in runs if name in run["figures"]) for name in PROMISED if name in figures}
    groups = dict.fromkeys(one["group"] for run in runs for one in run["speeds"])
    return {"facts": {name: fact for run in runs for name, fact in run["facts"].items()}, "figures": figures | worst,
            "speeds": [one for group in groups for one in fullest(group, runs)], "parts": [part for run in runs for part in run["parts"]]}


def fullest(group, runs):
    """A group's speeds, of the run that has the most of its sides, then the most turns, then the last."""
    of_runs = [[one for one in run["speeds"] if one["group"] == group] for run in reversed(runs)]
    return max(of_runs, key=lambda sides: (len(sides), sum(len(one["images_per_second"]) for one in sides)))


def table(results):
    rows = [("goal", "target", "measured", "")]
    for goal, one in zip(GOALS, judged(results)):
        measured = "-" if one["measured"] is None else f"{one['measured']:{goal.form}}"
        rows.append((goal.name, goal.aim(), measured, one["outcome"] + (": a promise" if is_broken(one) else "")))
    return "\n".join([speeds.aligned(rows, left=(0, len(rows[0]) - 1)), *speeds.fewer_turns(results["speeds"])])
