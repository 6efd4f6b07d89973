"""Trainings that live on when their world changes, under agents of `rollcall run`. Shared by tests, campaigns and benchmarks."""
import json
import os
import pathlib
import signal
import subprocess
import time

import agents
from trainer_ranks import PROGRAM

# Checkpoints at the very end alone: what a run goes on with then is in memory.
SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=4", "--num-classes=10", "--fake-size=200", "--train-num-workers=1",
         "--valid-num-workers=1", "--progress=lines", "--log-steps=1", "--checkpoint-epochs=0", "--valid-epochs=0", "--rank-seconds=0",
         "--report=off", "--lr=0.001")


class Training:
    """One run, of one or more agents on this host. Records and checkpoints are in `folder`."""

    def __init__(self, folder, *options, workers=3, launch=("--max-restarts=100",), endpoint=None, env=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.meeting = [] if endpoint is None else ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--rdzv-id=test"]
        self.launch = [*launch, f"--nproc-per-node={workers}"]
        self.program = [PROGRAM, "--elastic", f"--checkpoint-dir={folder}", f"--run-dir={folder}", "--index-dir=none", *options]
        self.environment = {"SCRATCH": str(folder), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **(env or {})}
        self.agents = []

    def start(self, *launch):
        number = len(self.agents)
        outputs = [open(self.folder / f"{number}.{name}", "w") for name in ("out", "err")]
        self.agents.append(subprocess.Popen(
            [agents.ROLLCALL, "run", "--no-python", *self.meeting, *self.launch, *launch, *map(str, self.program)],
            env=agents.environment(**self.environment), stdout=outputs[0], stderr=outputs[1]))
        for output in outputs:
            output.close()
        return self.agents[-1]

    def text(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("[0-9].*")))

    def lines(self):
        """The records so far."""
        try:
            text = (self.folder / "metrics.jsonl").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def records(self, event):
        return [line for line in self.lines() if line["event"] == event]

    def steps(self):
        return [record["step"] for record in self.records("step")]

    def wait(self, holds, seconds=agents.DEADLINE):
        end = time.monotonic() + seconds
        while True:
            over = all(agent.poll() is not None for agent in self.agents)
            if holds():
                return
            assert not over and time.monotonic() < end, self.text()
            time.sleep(0.002)

    def wait_for_step(self, step):
        self.wait(lambda: (self.steps() or [0])[-1] >= step)

    def status(self, agent):
        told = subprocess.run([agents.ROLLCALL, "run", "--status", "--json"], capture_output=True, text=True, check=True, timeout=60)
        return next((run for run in json.loads(told.stdout) if run["pid"] == agent.pid), {})

    def workers(self, agent=None):
        """Pids by rank, of one agent or the first."""
        return [worker["pid"] for worker in self.status(agent or self.agents[0]).get("workers", [])]

    def wait_for_standby(self, agent=None):
        self.wait(lambda: self.status(agent or self.agents[0]).get("standby"))
        return self.status(agent or self.agents[0])["standby"]

    def finish(self, code=0, seconds=agents.DEADLINE):
        codes = [agent.wait(timeout=seconds) for agent in self.agents]
        assert codes[0] == code, self.text()
        return codes

    def close(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()


def kill(pid):
    os.kill(pid, signal.SIGKILL)
