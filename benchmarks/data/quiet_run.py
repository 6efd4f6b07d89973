"""Runs a command on given CPUs and tells what everybody else did meanwhile; runs it again when that was too much."""
import dataclasses
import json
import resource
import subprocess
import tempfile
import time

import process_tree

SAMPLE_SECONDS = 0.1


class Failed(Exception):
    """The command's exit code was not 0: its last words."""


@dataclasses.dataclass
class Run:
    result: dict                # the JSON object on the last line of its output
    others_here: float          # cores' worth of time that others took on the same CPUs
    others_elsewhere: float     # and on the other CPUs, which share caches, memory and clock with these
    tries: int = 1
    peak_rss_mb: list = dataclasses.field(default_factory=list)  # of each process, largest first
    peak_together_mb: float = 0  # of all, shared pages counted once

    def disturbance(self):
        return self.others_here + self.others_elsewhere


def quietest(command, cpus, tries, tolerated, **options):
    """Of at most `tries` runs the first within `tolerated` disturbance, else the least disturbed one."""
    best = None
    for number in range(1, tries + 1):
        run = pinned(command, cpus, **options)
        if best is None or run.disturbance() < best.disturbance():
            best = run
        best.tries = number
        if best.disturbance() <= tolerated:
            break
    return best


def pinned(command, cpus, timeout, watch_memory=False):
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        busy, own, began = process_tree.busy_seconds(), _children_seconds(), time.monotonic()
        watcher_before = time.process_time()
        process = subprocess.Popen(["taskset", "-c", ",".join(map(str, cpus)), *map(str, command)], stdout=output, stderr=errors)
        peaks, together = _wait(process, began + timeout, watch_memory)
        wall = time.monotonic() - began
        used = {cpu: now - busy.get(cpu, now) for cpu, now in process_tree.busy_seconds().items()}
        here = sum(used[cpu] for cpu in cpus) - (_children_seconds() - own)
        elsewhere = sum(used.values()) - sum(used[cpu] for cpu in cpus) - (time.process_time() - watcher_before)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise Failed((errors.read().strip().splitlines() or [f"exit code {process.returncode}"])[-1])
        return Run(json.loads(output.read().strip().splitlines()[-1]), max(0.0, here / wall), max(0.0, elsewhere / wall),
                   peak_rss_mb=sorted(peaks.values(), reverse=True), peak_together_mb=together)


def _wait(process, deadline, watch_memory):
    """Waits for the end; {pid: peak RSS} and the peak of all together, where watched (the last sample before the end)."""
    peaks, together = {}, 0.0
    while True:
        try:
            process.wait(SAMPLE_SECONDS)
            return peaks, together
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise Failed("took too long") from None
        if watch_memory:
            now, sum_now = process_tree.memory_mb(process_tree.descendants(process.pid))
            peaks.update(now)
            together = max(together, sum_now)


def _children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
