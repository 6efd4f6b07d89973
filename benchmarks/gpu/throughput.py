"""Images/s of ResNet-50's training on one GPU: rollcall-train beside Python programs, by turns, medians of three.

A Python program compiles once and then waits for its turns; rollcall-train is started for each. And from packed JPEGs beside
synthetic images, with four workers. Sides are compared where they took turns, so each group has all that its goals ask for.
"""
import contextlib
import dataclasses
import json
import pathlib
import queue
import subprocess
import tempfile
import threading

import photos
from report import FAILED, LEFT_OUT, SKIPPED, Failure, in_a_line

ROUNDS = 3
MOST_COMPILING = 240
MOST_OF_A_TURN = 90
PEER = pathlib.Path(__file__).with_name("peer_steps.py")
# Assumed, to choose what ends in time: images/s at least; seconds in which a process has begun to train, and in which a Python
# program is ready for its turns.
IMAGES_A_SECOND = 3000
SECONDS_OF_START = 4
# Of --own-kernels (docs/developer/gpu_kernels.md), which is on where a side says nothing else.
PARTS = ("residual-gradient", "stem-pool", "relu-mask", "reverse-order", "merge-at-once")
SECONDS_UNTIL_READY = {"eager": 10, "compile": 60, "max-autotune": 150}


@dataclasses.dataclass(frozen=True)
class Group:
    """Sides that take turns, the most valuable first. Of a turn's steps those before `steps` fill caches, and choose cuDNN's
    algorithms. `options`: of each rollcall-train; `before`: seconds until the first turn, beside the peers'."""
    name: str
    batch: int
    precision: str
    sides: tuple
    warm_up: int
    steps: int
    options: tuple = ()
    before: float = 0

    def seconds(self, side):
        """What it takes in all, as assumed."""
        kind = side.removeprefix("python ")
        if kind != side:
            return SECONDS_UNTIL_READY[kind] + ROUNDS * self.steps * self.batch / IMAGES_A_SECOND
        return ROUNDS * (SECONDS_OF_START + (self.warm_up + self.steps) * self.batch / IMAGES_A_SECOND)

    def all_seconds(self):
        return self.before + sum(map(self.seconds, self.sides))


def large(precision, *more):
    sides = ("rollcall", "python max-autotune", "python eager", "python compile", *more, "rollcall --own-kernels=off")
    return Group(f"256-{precision}", 256, precision, sides, 20, 40)


def small(precision, suffix, *sides):
    return Group(f"64-{precision}{suffix}", 64, precision, ("rollcall --cuda-graph=on", *sides), 30, 100)


# The most valuable first; together they take longer than a run may.
def parts():
    """Each part of rollcall's kernels beside the kernels without it."""
    return Group("256-bf16-parts", 256, "bf16", tuple(f"rollcall --own-kernels={part}" for part in ("basic", *PARTS)), 20, 40)


PLAN = (large("bf16", "rollcall --deterministic=on", "rollcall --cuda-graph=on"),
        small("bf16", "", "python compile", "rollcall", "python eager", "rollcall --own-kernels=off"),
        parts(),
        # Their queues of batches are filled while cuDNN chooses, and are to be empty when it counts.
        Group("jpeg", 256, "bf16", ("rollcall", "rollcall --data=photos"), 40, 80, ("--train-num-workers=4",), before=30),
        large("fp16"),
        small("fp16", "", "python compile", "rollcall", "python eager"),
        small("bf16", "-max-autotune", "python max-autotune"),
        small("fp16", "-max-autotune", "python max-autotune"))


def measure(machine, report, groups=PLAN):
    for group in groups:
        name = f"throughput, {group.name}"
        if report.no_gpu:
            report.line(name, SKIPPED, report.no_gpu)
            continue
        sides, left_out = fitting(group, report.budget.left())
        if left_out:
            report.line(name, LEFT_OUT, f"{', '.join(left_out)}: would not end in the {max(0, report.budget.left()):.0f} s that are left; "
                                        f"try --only={group.name}")
        if sides:
            measure_group(machine, report, group, sides)


def fitting(group, seconds):
    """(sides that end within so many seconds, the others), each in order: one that does not fit makes place for those behind it.
    One side alone is compared with nothing."""
    left = seconds - group.before
    kept = []
    for side in group.sides:
        if group.seconds(side) <= left:
            left -= group.seconds(side)
            kept.append(side)
    kept = kept if len(kept) > 1 and kept[0] == group.sides[0] else []
    return kept, [side for side in group.sides if side not in kept]


def measure_group(machine, report, group, sides):
    with contextlib.ExitStack() as stack:
        ready = {}
        for side in sides:
            if side.startswith("rollcall"):
                ready[side] = stack.enter_context(Ours(machine, group, side.split()[1:]))
            elif (peer := started(machine, report, group, side)) is not None:
                ready[side] = stack.enter_context(peer)
        for side, numbers in interleaved(ready, report, group.name).items():
            if numbers:
                report.speed(group.name, side, numbers, ready[side].detail)


def started(machine, report, group, side):
    peer = Peer(machine, group, side)
    try:
        peer.wait_until_ready(report.budget.limit(MOST_COMPILING))
        return peer
    except Exception as error:  # whatever it is, the other sides go on
        peer.close()
        report.line(f"{side}, {group.name}", LEFT_OUT if isinstance(error, TooLate) else FAILED, in_a_line(error))
        return None


class TooLate(Failure):
    """A program of Python's took too long, which is no failure of rollcall's."""


def interleaved(sides, report, group):
    """{side: who computes} -> {side: [images/s]}: A B C A B C ...; a side that fails is told and has no further turns."""
    numbers = {name: [] for name in sides}
    ended = set()

    def end(name, status, reason):
        ended.add(name)
        report.line(f"{name}, {group}", status, f"{reason}, after {len(numbers[name])} of {ROUNDS} turns")

    for _ in range(ROUNDS):
        for name in [side for side in sides if side not in ended]:
            seconds = report.budget.limit(MOST_OF_A_TURN)
            if seconds < 20:
                end(name, LEFT_OUT, "the time is over")
                continue
            try:
                numbers[name].append(sides[name].turn(seconds))
            except Exception as error:
                over = seconds < MOST_OF_A_TURN and isinstance(error, (TooLate, subprocess.TimeoutExpired))
                end(name, *((LEFT_OUT, "the time is over") if over else (FAILED, in_a_line(error))))
    return numbers


class Ours:
    def __init__(self, machine, group, options):
        self._machine, self._group = machine, group
        self._steps = group.warm_up + group.steps
        self._images = int(self._steps * group.batch / 0.85) + 2 * group.batch  # all steps in one epoch; the rest would be validated
        self._data = ["--data=fake", f"--fake-size={self._images}"]
        self._options = [*group.options, *(option for option in options if option != "--data=photos")]
        if not any(option.startswith("--own-kernels=") for option in options):
            self._options.append("--own-kernels=on")
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-check-")
        self._packs = "--data=photos" in options
        self.detail = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def turn(self, seconds):
        if self._packs:
            self._data = [f"--data={photos.pack(self._machine, self._folder.name, self._images)}"]
            self._packs = False
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
            self._machine.run("rollcall-train", *self._data, "--model=resnet50", "--optimizer=sgd", "--lr=0.1",
                              f"--batch-size={self._group.batch}", f"--precision={self._group.precision}", f"--max-steps={self._steps}",
                              "--log-steps=10", "--valid-epochs=0", "--checkpoint-epochs=0", "--report=off", "--progress=lines",
                              "--device=cuda", f"--checkpoint-dir={folder}", *self._options, seconds=seconds)
            records = [json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()]
        return self._speed([record for record in records if record["event"] == "step" and record["step"] > self._group.warm_up])

    def _speed(self, records):
        seconds = sum(record["seconds"] for record in records)
        waited = sum(record["data_wait_fraction"] * record["seconds"] for record in records) / seconds
        self.detail = f"{100 * waited:.0f} % of the time waited for data"
        return self._group.batch * sum(record["steps"] for record in records) / seconds


class Peer:
    """peer_steps.py: a line of JSON when it has compiled, and one for each line that it reads."""

    def __init__(self, machine, group, side):
        self.detail = ""
        self._steps, self._lines = group.steps, queue.Queue()
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([machine.python, PEER, f"--batch-size={group.batch}", f"--mode={side.removeprefix('python ')}",
                                          f"--precision={group.precision}"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._process.kill()
        self._process.wait()

    def wait_until_ready(self, seconds):
        self.detail = f"first steps {self._answer(seconds)['seconds']:.0f} s"

    def turn(self, seconds):
        self._process.stdin.write(f"{self._steps}\n")
        self._process.stdin.flush()
        return self._answer(seconds)["images_per_second"]

    def _read(self):
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put(None)

    def _answer(self, seconds):
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TooLate(f"no answer within {seconds:.0f} s") from None
        if line is None:
            self._errors.seek(0)
            raise Failure((self._errors.read().strip().splitlines() or ["ended without a word"])[-1])
        return json.loads(line)
