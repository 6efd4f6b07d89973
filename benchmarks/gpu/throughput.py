"""Images/s of ResNet-50's training on one GPU: rollcall-train beside Python programs, by turns, medians of three.

A Python program compiles once and then waits for its turns; rollcall-train is started for each. And from packed JPEGs beside
synthetic images, with four workers.
"""
import contextlib
import json
import pathlib
import queue
import subprocess
import tempfile
import statistics
import threading

import photos
from report import FAILED, LEFT_OUT, OK, SKIPPED, Failure, in_a_line

ROUNDS = 3
BATCHES = (64, 256)
# Steps of one turn: some six seconds of an H100. Those before them fill caches, and choose cuDNN's algorithms.
STEPS = {64: 200, 256: 80}
WARM_UP = {64: 60, 256: 30}
MOST_COMPILING = 180
MOST_OF_A_TURN = 90
FROM_JPEGS = ("rollcall --data=photos --train-num-workers=4", "bf16")
LEAST_SHARE = 0.97
SYNTHETIC = ("rollcall --train-num-workers=4", "bf16")
PEER = pathlib.Path(__file__).with_name("peer_steps.py")


def measure(machine, report):
    common = [("rollcall", "bf16"), ("rollcall --own-kernels=off", "bf16"), ("rollcall", "fp16"), ("eager", "bf16"), ("eager", "fp16"),
              ("compile", "bf16")]
    slow = [("rollcall", "bf16"), ("max-autotune", "bf16")]
    plan = [(64, [*common, ("rollcall --cuda-graph=on", "bf16"), ("rollcall --cuda-graph=on", "fp16")]), (256, common),
            (256, [FROM_JPEGS, SYNTHETIC]), (256, slow), (64, slow)]
    for batch, sides in plan:
        if report.no_gpu:
            report.line(f"throughput, batch {batch}: {named(sides)}", SKIPPED, report.no_gpu)
        else:
            measure_group(machine, report, batch, sides)


def compare_data(numbers, report):
    """What share of the speed from synthetic images that from JPEGs is, by medians."""
    from_jpegs, synthetic = (numbers.get(" ".join(side), []) for side in (FROM_JPEGS, SYNTHETIC))
    if from_jpegs and synthetic:
        share = statistics.median(from_jpegs) / statistics.median(synthetic)
        short = "" if share >= LEAST_SHARE else f", short of the goal, {LEAST_SHARE}"
        report.line("packed JPEGs, 4 workers", OK, f"{share:.3f} of the speed from synthetic images{short}")


def named(sides):
    return ", ".join(f"{kind} {precision}" for kind, precision in sides)


def measure_group(machine, report, batch, sides):
    with contextlib.ExitStack() as stack:
        ready = {}
        for kind, precision in sides:
            ours = kind.startswith("rollcall")
            name = f"{'' if ours else 'python '}{kind} {precision}"
            if report.budget.left() < 40:
                report.line(f"{name}, batch {batch}", LEFT_OUT, "the time is over")
            elif ours:
                ready[name] = stack.enter_context(Ours(machine, batch, precision, kind.split()[1:]))
            elif (peer := started(machine, report, batch, kind, precision, name)) is not None:
                ready[name] = stack.enter_context(peer)
        results = interleaved(ready, report, batch)
        for name, numbers in results.items():
            if numbers:
                report.speed(batch, name, numbers, ready[name].detail)
        compare_data(results, report)


def started(machine, report, batch, kind, precision, name):
    peer = Peer(machine, batch, kind, precision)
    try:
        peer.wait_until_ready(report.budget.limit(MOST_COMPILING))
        return peer
    except Exception as error:  # whatever it is, the other sides go on
        peer.close()
        report.line(f"{name}, batch {batch}", FAILED, in_a_line(error))
        return None


def interleaved(sides, report, batch):
    """{name: side} -> {name: [images/s]}: A B C A B C ...; a side that fails is told and has no further turns."""
    numbers = {name: [] for name in sides}
    ended = set()

    def end(name, status, reason):
        ended.add(name)
        report.line(f"{name}, batch {batch}", status, f"{reason}, after {len(numbers[name])} of {ROUNDS} turns")

    for _ in range(ROUNDS):
        for name in [side for side in sides if side not in ended]:
            seconds = report.budget.limit(MOST_OF_A_TURN)
            if seconds < 20:
                end(name, LEFT_OUT, "the time is over")
                continue
            try:
                numbers[name].append(sides[name].turn(seconds))
            except Exception as error:
                end(name, *((FAILED, in_a_line(error)) if seconds == MOST_OF_A_TURN else (LEFT_OUT, "the time is over")))
    return numbers


class Ours:
    def __init__(self, machine, batch, precision, options):
        self._machine, self._batch, self._precision = machine, batch, precision
        self._steps = WARM_UP[batch] + STEPS[batch]
        self._images = int(self._steps * batch / 0.85) + 2 * batch  # all steps in one epoch; the rest would be validated
        self._data = ["--data=fake", f"--fake-size={self._images}"]
        self._options = [option for option in options if option != "--data=photos"]
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-check-")
        self._packs = len(self._options) < len(options)
        self.detail = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def turn(self, seconds):
        if self._packs:
            self._data = [f"--data={photos.pack(self._machine, self._folder.name, self._images)}"]
            self._packs = False
        steps = self._steps
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
            self._machine.run("rollcall-train", *self._data, "--model=resnet50", "--optimizer=sgd", "--lr=0.1",
                              f"--batch-size={self._batch}", f"--precision={self._precision}", f"--max-steps={steps}", "--log-steps=10",
                              "--valid-epochs=0", "--checkpoint-epochs=0", "--report=off", "--progress=lines", "--device=cuda",
                              f"--checkpoint-dir={folder}", *self._options, seconds=seconds)
            records = [json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()]
        return self._speed([record for record in records if record["event"] == "step" and record["step"] > WARM_UP[self._batch]])

    def _speed(self, records):
        seconds = sum(record["seconds"] for record in records)
        waited = sum(record["data_wait_fraction"] * record["seconds"] for record in records) / seconds
        self.detail = f"{100 * waited:.0f} % of the time waited for data"
        return self._batch * sum(record["steps"] for record in records) / seconds


class Peer:
    """peer_steps.py: a line of JSON when it has compiled, and one for each line that it reads."""

    def __init__(self, machine, batch, kind, precision):
        self.detail = ""
        self._batch, self._lines = batch, queue.Queue()
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([machine.python, PEER, f"--batch-size={batch}", f"--mode={kind}", f"--precision={precision}"],
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
        self._process.stdin.write(f"{STEPS[self._batch]}\n")
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
            raise Failure(f"no answer within {seconds:.0f} s") from None
        if line is None:
            self._errors.seek(0)
            raise Failure((self._errors.read().strip().splitlines() or ["ended without a word"])[-1])
        return json.loads(line)
