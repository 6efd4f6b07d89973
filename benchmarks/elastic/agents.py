#!/usr/bin/env python3
"""What `rollcall run` costs, beside torchrun in the same run: starting, memory of an agent, and from the kill -9 of one worker to the
first line of the restarted program.

    benchmarks/elastic/agents.py [--rollcall=PROGRAM] [--starts=20] [--kills=20] [--peer-kills=20] [--seed=1] [--json]

Workers are small shell programs, so what is measured is the agent's part alone; torchrun runs with this Python. Prints medians, 99th
percentiles and the largest value in milliseconds; every run takes turns with its peer, so that both see the same machine."""
import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = 'name="$0/$TORCHELASTIC_RESTART_COUNT.$RANK"; echo $$$$ > "$name.part"; mv "$name.part" "$name"; exec sleep 1000'


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "TORCHELASTIC_", "SLURM_"))}


def command(launcher, workers, *program, restarts=0):
    return [*launcher, f"--nproc-per-node={workers}", f"--max-restarts={restarts}", "--no-python", *map(str, program)]


def start_to_end(launcher, workers):
    """Milliseconds of a whole run of programs that end at once."""
    begin = time.perf_counter()
    subprocess.run(command(launcher, workers, "/bin/true"), env=environment(), check=True, capture_output=True)
    return (time.perf_counter() - begin) * 1e3


def workers_alone(workers):
    """The same programs, started together without a launcher."""
    begin = time.perf_counter()
    for process in [subprocess.Popen(["/bin/true"]) for _ in range(workers)]:
        process.wait()
    return (time.perf_counter() - begin) * 1e3


def wait_for(path, seconds):
    end = time.perf_counter() + seconds
    while not path.exists():
        if time.perf_counter() > end:
            return False
        time.sleep(0.0005)
    return True


def memory_of(pid):
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {name: int(fields[name].split()[0]) / 1024 for name in ("Rss", "Pss")}


def kill_and_restart(launcher, workers, seed, seconds=30):
    """Milliseconds from kill -9 of a random worker to all having started again, None where that does not happen; and the agent's memory."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        agent = subprocess.Popen(command(launcher, workers, "/bin/sh", "-c", WORK, folder, restarts=1), env=environment(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for rank in range(workers):
                wait_for(folder / f"0.{rank}", seconds)
            memory = memory_of(agent.pid)
            time.sleep(chance.uniform(0, 0.2))  # where in the launcher's period of looking the kill falls
            victim = int((folder / f"0.{chance.randrange(workers)}").read_text())
            begin = time.perf_counter()
            os.kill(victim, signal.SIGKILL)
            again = all(wait_for(folder / f"1.{rank}", seconds) for rank in range(workers))
            return ((time.perf_counter() - begin) * 1e3 if again else None), memory
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(timeout=60)


def summary(values):
    whole = sorted(v for v in values if v is not None)
    at = lambda share: whole[min(len(whole) - 1, int(share * len(whole)))]  # noqa: E731
    return {"runs": len(values), "hangs": len(values) - len(whole), "median": round(statistics.median(whole), 1),
            "p99": round(at(0.99), 1), "most": round(whole[-1], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollcall", default=str(ROOT / "build/release/runtime/rollcall"))
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--peer-kills", type=int, default=20, help="as many of the kills with torchrun beside")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    launchers = {"rollcall run": [options.rollcall, "run"], "torchrun": [sys.executable, "-m", "torch.distributed.run"]}
    starts, kills, memory = {name: [] for name in launchers}, {name: [] for name in launchers}, {}
    alone = []
    for _ in range(options.starts):
        alone.append(workers_alone(options.workers))
        for name, launcher in launchers.items():
            starts[name].append(start_to_end(launcher, options.workers))
    for number in range(options.kills):
        for name, launcher in launchers.items():
            if name == "torchrun" and number >= options.peer_kills:
                continue
            took, memory[name] = kill_and_restart(launcher, options.workers, options.seed * 1000 + number)
            kills[name].append(took)
    result = {"workers": options.workers, "workers alone": summary(alone)}
    for name in launchers:
        result[name] = {"start to end": summary(starts[name]), "beyond the workers": round(
            statistics.median(starts[name]) - statistics.median(alone), 1), "kill to restarted": summary(kills[name]),
            "agent MiB": {k: round(v, 1) for k, v in memory[name].items()}}
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
