"""From the start of a process to the end of its first step: rollcall-train beside Python, by turns."""
import statistics
import subprocess
import tempfile
import threading
import time

import goals
from report import Failure
from throughput import PEER

ROUNDS = 3
BATCH = 64
SECONDS = 40  # assumed


def measure(machine, report):
    report.part("start to first step, ResNet-50", SECONDS, lambda: compared(machine, report.budget, report.figures))


def compared(machine, budget, figures):
    seconds = {"rollcall": [], "python eager": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
            ours = [machine.bundle / "bin" / "rollcall-train", "--data=fake", f"--fake-size={4 * BATCH}", "--model=resnet50", "--optimizer=sgd",
                    f"--batch-size={BATCH}", "--precision=bf16", "--max-steps=2", "--log-steps=1", "--valid-epochs=0", "--checkpoint-epochs=0",
                    "--report=off", "--progress=lines", "--device=cuda", f"--checkpoint-dir={folder}"]
            seconds["rollcall"].append(until(ours, "step 1/", budget.limit(60), machine.environment()))
        peer = [machine.python, PEER, f"--batch-size={BATCH}", "--precision=bf16", "--first-steps=1"]
        seconds["python eager"].append(until(peer, '{"seconds"', budget.limit(60)))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    figures[goals.START] = medians["rollcall"] / medians["python eager"]
    told = ", ".join(f"{name} {median:.2f} s" for name, median in medians.items())
    return f"{told}: {figures[goals.START]:.2f} of it"


def until(command, text, limit, environment=None):
    """Seconds until it prints a line that holds `text`; it is ended then."""
    began = time.monotonic()
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen([str(part) for part in command], stderr=errors, **pipes) as process:
        end = threading.Timer(limit, process.kill)
        end.start()
        try:
            for line in process.stdout:
                if text in " ".join(line.split()):
                    return time.monotonic() - began
            errors.seek(0)
            raise Failure((errors.read().strip().splitlines() or [f"no {text} within {limit:.0f} s"])[-1])
        finally:
            end.cancel()
            process.kill()
