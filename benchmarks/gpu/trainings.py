"""Short trainings on the GPU and on the CPU, whose losses and checkpoints are compared; NCCL; test programs of the bundle."""
import json
import pathlib
import shutil
import statistics
import tempfile

import goals
from machine import output
from report import Failure

STEPS, SAVED = 10, 5
# A graph is captured after 11 steps.
GRAPH_STEPS = 20
TRAINING = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=16", "--optimizer=sgd", "--lr-schedule=none", "--lr=0.01",
            "--log-steps=1",
            "--valid-epochs=0", "--checkpoint-epochs=0", f"--checkpoint-steps={SAVED}", "--checkpoint-mode=sync",
            "--progress=lines", "--report=off", "--tf32=off", "--deterministic=on")


def check(machine, report):
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        runs = Trainings(machine, pathlib.Path(folder), report.budget, report.figures)
        for device in ("cpu", "cuda"):
            report.part(goals.training(device), 20, lambda d=device: runs.whole(d), needs_gpu=device == "cuda")
        report.part(goals.SAME_LOSSES, 1, lambda: runs.same_losses("cuda"))
        for first, then in (("cpu", "cpu"), ("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")):
            report.part(goals.resumption(first, then), 20, lambda f=first, t=then: runs.resumed(f, t), needs_gpu="cuda" in (first, then))
        report.part(goals.GRAPH, 20, runs.in_a_graph)
        report.part("what a save in the background stops, ResNet-50", 40, runs.stalls)
    report.part("NCCL, a rank alone", 20, lambda: collectives(machine, report.budget))
    for test in sorted((machine.bundle / "bin").glob("*_gpu_test")):
        report.part(test.name, 10, lambda t=test: told_tests(machine.run(t.name, seconds=report.budget.limit(120))))
    report.part("compute-sanitizer, kernels_gpu_test", 60, lambda: sanitized(machine, report.budget))


class Trainings:
    def __init__(self, machine, folder, budget, figures):
        self._machine, self._folder, self._budget, self._figures = machine, folder, budget, figures

    def whole(self, device):
        losses = self._train(self._folder / device, device)
        if sorted(losses) != list(range(1, STEPS + 1)):
            raise Failure(f"losses of steps {sorted(losses)}")
        return f"loss {losses[1]:.4f} to {losses[STEPS]:.4f}"

    def same_losses(self, device):
        losses, expected = losses_of(self._folder / device), losses_of(self._folder / "cpu")
        self._figures[goals.LOSSES] = largest_difference(losses, expected)[0]
        return close(losses, expected)

    def resumed(self, first, then):
        """Goes on from the middle, beside the training that was not interrupted."""
        part = self._folder / f"{first}-{then}"
        part.mkdir()
        shutil.copy(self._folder / first / checkpoint(SAVED), part)
        losses = self._train(part, then)
        if sorted(losses) != list(range(SAVED + 1, STEPS + 1)):
            raise Failure(f"not resumed after step {SAVED}: losses of steps {sorted(losses)}")
        answer = self._differences(self._folder / first, part)
        if (first, then) == ("cuda", "cuda"):
            self._figures[goals.RESUMED] = len(contents(answer))
        told = f"{close(losses, losses_of(self._folder / first))}; {told_difference(answer)}"
        return same_bits(answer, told) if first == then else told

    def in_a_graph(self):
        with_graph, without = (self._folder / f"graph-{graph}" for graph in ("on", "off"))
        losses = [self._train(folder, "cuda", GRAPH_STEPS, f"--cuda-graph={folder.name.removeprefix('graph-')}")
                  for folder in (with_graph, without)]
        answer = self._differences(with_graph, without, GRAPH_STEPS)
        self._figures[goals.IN_A_GRAPH] = len(contents(answer))
        return same_bits(answer, f"{close(*losses)}; {told_difference(answer)}")

    def stalls(self):
        folder = self._folder / "saves"
        self._machine.run("rollcall-train", "--data=fake", "--fake-size=8192", "--model=resnet50", "--optimizer=sgd", "--lr-schedule=none",
                          "--batch-size=64",
                          "--precision=bf16", "--max-steps=80", "--valid-epochs=0", "--checkpoint-epochs=0", "--checkpoint-steps=20",
                          "--checkpoint-overlap=wait", "--keep-last=1", "--report=off", "--progress=lines", "--device=cuda",
                          f"--checkpoint-dir={folder}", seconds=self._budget.limit(120))
        stalls = stalls_of(records_of(folder, "checkpoint"))
        self._figures[goals.STALL] = statistics.median(stalls)
        return f"{statistics.median(stalls):.1f} ms, {max(stalls):.1f} at most, in {len(stalls)} saves"

    def _train(self, folder, device, steps=STEPS, *more):
        folder.mkdir(exist_ok=True)
        threads = {"OMP_NUM_THREADS": "1"} if device == "cpu" else {}  # a small model: more would only wait for each other
        self._machine.run("rollcall-train", *TRAINING, f"--max-steps={steps}", *more, f"--data={self._machine.bundle / 'images.h5'}",
                          f"--device={device}", "--image-dtype=float32",  # as CPUs have them
                          f"--checkpoint-dir={folder}", seconds=self._budget.limit(180), **threads)
        return losses_of(folder)

    def _differences(self, a, b, step=STEPS):
        """Of weights, moments and generators at the end, as rollcall-checkpoint tells them."""
        answer = self._machine.run("rollcall-checkpoint", "diff", a / checkpoint(step), b / checkpoint(step), "--json",
                                   seconds=self._budget.limit(120), good=(0, 1))  # 1: they differ
        return json.loads(answer)


def same_bits(answer, told):
    """With --deterministic=on, on one device: a promise."""
    if answer["tensors"]:
        raise Failure(f"{told}, with --deterministic=on")
    return told


def values_of(answer):
    return [name for name in answer.get("values", []) if not name.startswith("/config/")]  # those have the folder's name


def contents(answer):
    """Tensors and values that differ."""
    return [*answer["tensors"], *values_of(answer)]


def told_difference(answer):
    values = values_of(answer)
    if not answer["tensors"] and not values:
        return "the same bits"
    if values or any("difference" not in tensor for tensor in answer["tensors"]):
        raise Failure(f"other contents: {values or [tensor for tensor in answer['tensors'] if 'difference' not in tensor]}")
    differ = answer["tensors"]
    most = max(tensor["difference"]["max_absolute"] for tensor in differ)
    return f"{len(differ)} of {len(differ) + answer['equal_tensors']} tensors differ, by {most:.1e} at most"


def checkpoint(step):
    return f"step-{step:08}.h5"


def told_tests(text):
    """Of a program of GoogleTest that failed in nothing; one that skips tests has not shown what they are for."""
    if "[  SKIPPED ]" in text or "[  PASSED  ]" not in text:
        raise Failure(f"tests were skipped: {text.strip().splitlines()[-1:]}")
    return text.strip().splitlines()[-1]


def sanitized(machine, budget):
    """Accesses beyond what was allocated, and threads of a block that race for shared memory. Not of large batches: it is slow."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    for kind in ("memcheck", "racecheck"):
        told_tests(output([tool, f"--tool={kind}", "--error-exitcode=9", machine.bundle / "bin" / "kernels_gpu_test",
                           "--gtest_filter=-*BatchesOfAResNet50*"], budget.limit(120), env=machine.environment()))
    return "memcheck and racecheck found nothing"


def stalls_of(saves):
    """Milliseconds, of all but the last one, for which a training waits at its end."""
    stalls = [1000 * save["stall_seconds"] for save in saves[:-1]]
    if not stalls or not all(save["written"] for save in saves):
        raise Failure(f"not written: {saves}")
    return stalls


def records_of(folder, event):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["event"] == event]


def losses_of(folder):
    losses = {record["step"]: record["loss"] for record in records_of(folder, "step")}
    if None in losses.values():
        raise Failure(f"a loss is not a number: {losses}")
    return losses


def largest_difference(losses, expected):
    """(relative difference, step), of the steps in `losses`."""
    return max((abs(loss - expected[step]) / abs(expected[step]), step) for step, loss in losses.items())


def close(losses, expected):
    """The largest relative difference, which must be small."""
    most, step = largest_difference(losses, expected)
    if most > goals.MOST_DIFFERENCE:
        raise Failure(f"the loss of step {step} is {losses[step]}, not {expected[step]} (relative difference {most:.1e})")
    return f"losses within {most:.1e}"


def collectives(machine, budget):
    text = machine.run("rollcall-bench-collectives", "--backend=nccl", "--operation=all", "--json", seconds=budget.limit(120))
    rows = [json.loads(line) for line in text.splitlines()]
    if not rows or any(row["backend"] != "nccl" or not row["correct"] for row in rows):
        raise Failure(f"wrong, or not NCCL's: {[row for row in rows if row['backend'] != 'nccl' or not row['correct']]}")
    return f"{len(rows)} measurements, all right"
