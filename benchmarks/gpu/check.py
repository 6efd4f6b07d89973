"""scripts/gpu-check run: does the steps of a call within its time, and judges what all calls have found."""
import contextlib
import json
import subprocess
import sys
import time
import typing

import steps
from steps import FAILED, LEFT_OUT, OK, SKIPPED, Ended


class Goal(typing.NamedTuple):
    """`figure` of `steps`, the last; of a promise the worst. `beside`: the step by whose figure it is divided. `sign`: of `target`."""
    name: str
    steps: tuple
    figure: str
    sign: str
    target: float
    beside: str = ""
    promise: bool = False


GOALS = (
    Goal("losses on the GPU and on CPUs: relative difference", (steps.LOSSES, steps.LOSSES_OWN), "losses_differ", "<=", 1e-4, promise=True),
    Goal("the same with two ranks", tuple(steps.RANKS), "losses_differ", "<=", 1e-4, promise=True),
    Goal("collectives of two ranks: wrong results", (steps.COLLECTIVES,), "wrong", "<=", 0, promise=True),
    Goal("a killed rank is named", tuple(steps.KILLED), "named", ">=", 1, promise=True),
    Goal("resumed, --deterministic=on: contents that differ", (steps.RESUMED,), "contents_differ", "<=", 0, promise=True),
    Goal("a graph, --deterministic=on: contents that differ", (steps.BITS,), "contents_differ", "<=", 0, promise=True),
    Goal("batch 256: speed of eager PyTorch's", (steps.OWN,), "images_per_second", ">=", 1.25, steps.EAGER[steps.LARGE]),
    Goal("batch 256: speed of torch.compile's, max-autotune", (steps.OWN,), "images_per_second", ">=", 1.1, steps.AUTOTUNED),
    Goal("batch 256: speed of that without own kernels", (steps.OWN,), "images_per_second", ">=", 1, steps.OPERATORS),
    Goal("batch 64, a graph: speed of torch.compile's", (steps.IN_GRAPH,), "images_per_second", ">=", 1.3, steps.COMPILED),
    Goal("batch 64, a graph: speed of that without", (steps.IN_GRAPH,), "images_per_second", ">=", 1, steps.ALONE),
    Goal("a save in the background: stall, ms", (steps.STALL,), "ms", "<=", 2),
    Goal("start to first step: seconds of eager PyTorch's", (steps.START,), "of_python", "<=", 0.5))


def judged(lines):
    """[(goal, value or None, "met", "missed" or "not measured")] of lines that this or an earlier call has written."""
    found = []
    for goal in GOALS:
        ours, beside = ([line["figures"][goal.figure] for line in lines if line["step"] in names and goal.figure in line["figures"]]
                        for names in (goal.steps, (goal.beside,)))
        value = None
        if ours and (beside or not goal.beside):
            value = (min if goal.sign == ">=" else max)(ours) if goal.promise else ours[-1] / beside[-1] if goal.beside else ours[-1]
        met = value is not None and (value >= goal.target if goal.sign == ">=" else value <= goal.target)
        found.append((goal, value, "not measured" if value is None else "met" if met else "missed"))
    return found


def perform(of_call, ends, machine, write, clock=time.monotonic):
    """Calls `write` with a step's name, status, text, seconds and figures as soon as it has ended. The last may take all that is left."""
    for step in of_call:
        began, figures = clock(), {}
        limit = ends - began if step is of_call[-1] else step.seconds
        machine.ends = began + limit
        try:
            if machine.no_device:
                raise Ended(machine.no_device, SKIPPED)
            if ends - began < step.seconds:
                raise Ended(f"may take {step.seconds} s, and {max(0, ends - began):.0f} s are left", LEFT_OUT)
            told, figures = step.look(machine)
            status = OK
        except Ended as reason:
            status, told = reason.status, str(reason)
        except subprocess.TimeoutExpired:
            status, told = FAILED, f"did not end within {limit:.0f} s"
        except Exception as error:  # whatever it is, the rest goes on
            status, told = FAILED, f"{type(error).__name__}: {error}"
        finally:
            machine.end_processes()
        write(step.name, status, " ".join(told.split())[-400:], clock() - began, figures)


class Lines:
    """What this call has found, which is in FILE and printed as soon as it is: a kill loses nothing of it."""

    def __init__(self, file, call):
        self._file, self._call, self.own = file, call, []

    def write(self, step, status, told, seconds, figures):
        self.own.append({"call": self._call, "step": step, "status": status, "told": told, "seconds": round(seconds, 1), "figures": figures})
        print(f"{status:9} {step}: {told} ({seconds:.0f} s)", flush=True)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as out:
            out.write(json.dumps(self.own[-1]) + "\n")

    def of_all_calls(self):
        lines = []
        for line in self._file.read_text().splitlines():
            with contextlib.suppress(ValueError):  # one that was cut
                lines.append(json.loads(line))
        return lines


def table(judgements):
    return "\n".join(f"{goal.name:52} {goal.sign} {goal.target:<7g} {'-' if value is None else f'{value:.3g}':>8}  {outcome}"
                     + (": a promise" if goal.promise and outcome == "missed" else "") for goal, value, outcome in judgements)


def exit_code(own, judgements, no_device):
    wrong = any(line["status"] == FAILED for line in own) or any(goal.promise and outcome == "missed" for goal, _, outcome in judgements)
    return 1 if wrong else 77 if no_device else 0


def run(options):
    seconds = steps.SECONDS[options.call]
    ends = time.monotonic() + seconds
    of_call = steps.CALLS[options.call] + (steps.IF_TIME if options.call == 1 else ())
    if options.dry_run:
        print("\n".join(f"{step.seconds:4} s  {step.name}" for step in of_call))
        print(f"{sum(step.seconds for step in of_call):4} s  in all; what does not fit in {seconds} s is left out")
        return 0
    try:
        machine = steps.Machine(options.bundle, options.python, options.device)
    except (Ended, OSError) as error:
        print(f"rollcall: gpu-check: {error}", file=sys.stderr)
        return 69
    lines = Lines(options.json, options.call)
    perform(of_call, ends, machine, lines.write)
    judgements = judged(lines.of_all_calls())
    print("\n" + table(judgements))
    return exit_code(lines.own, judgements, machine.no_device)
