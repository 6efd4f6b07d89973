#!/usr/bin/env python3
"""From a kill -9 to the next step of the optimizer: `rollcall-train --elastic` under `rollcall run`, beside a DDP program in Python under
torchrun in the same run.

    benchmarks/elastic/trainings.py [--build=DIR] [--kills=200] [--peer-kills=10] [--node-kills=20] [--ranks=4] [--seed=1] [--json]

Rank kills: one of the ranks at random, again and again in one training; a standby is ready, and takes the place. Node kills: an agent of
three and all its ranks, every other time the one that holds the rendezvous; the others go on with fewer ranks. Both models are small
residual networks on images of 32 x 32, four a rank. Prints medians, 99th percentiles and the largest value in milliseconds, of rollcall
also by part: until a rank noticed, until it had let go of the old groups, the ranks had met, the state was there, and the step was done. A run
that does no step within 30 s counts as a hang; of torchrun's it is told how many had ended by then, for want of another restart."""
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
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT)]  # where another `agents` is

from benchmarks.elastic.agents import environment, summary  # noqa: E402

PARTS = ("noticed", "released", "joined", "restored", "first_step")
PEER = """
import os, sys, time, torch, torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
dist.init_process_group("gloo")
def block(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
model = nn.Sequential(block(3, 16), *[block(16, 16) for _ in range(6)], block(16, 32, 2), *[block(32, 32) for _ in range(5)],
                      block(32, 64, 2), *[block(64, 64) for _ in range(5)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
while True:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(4, 3, 32, 32)), torch.randint(0, 10, (4,))).backward()
    optimizer.step()
    with open(f"{sys.argv[1]}/{dist.get_rank()}.log", "a") as log:
        log.write(f"{time.time()} {os.getpid()}\\n")
"""


def start_training(folder, ranks, nodes=1):
    import agents as agents_of_tests
    import elastic_runs
    endpoint = f"127.0.0.1:{agents_of_tests.free_port()}" if nodes > 1 else None
    launch = ["--max-restarts=1000000"] + ([f"--nnodes=1:{nodes}", "--rdzv-conf=last_call_timeout=1"] if nodes > 1 else [])
    run = elastic_runs.Training(folder, *elastic_runs.SMALL, "--max-steps=100000000", "--epochs=1000000", workers=ranks // nodes,
                                launch=launch, endpoint=endpoint)
    for number in range(nodes):
        run.start(*(["--rdzv-conf=last_call_timeout=1,is_host=false"] if number > 0 else []))
        if number == 0:
            run.wait(lambda: run.status(run.agents[0]))
    run.wait_for_step(5)
    return run


def measure(run, killed):
    """Milliseconds of each part of the change after the kill at that time; None where no step was done within 30 s."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for record in run.records("regrouped")[-1:]:
            begun = record["time"] - record["first_step_seconds"]
            if record["time"] > killed:
                seconds = [begun - killed] + [begun - killed + record[f"{part}_seconds"] for part in PARTS[1:]]
                return {part: 1e3 * value for part, value in zip(PARTS, seconds)}
        time.sleep(0.02)
    return None


def kill_ranks(options, chance, folder):
    run = start_training(folder, options.ranks)
    try:
        for _ in range(options.kills):
            run.wait_for_standby()
            step = run.steps()[-1]
            run.wait_for_step(step + 3)
            pids = run.workers()
            time.sleep(chance.uniform(0, 0.3))
            killed = time.time()
            os.kill(chance.choice(pids), signal.SIGKILL)
            yield measure(run, killed)
    finally:
        run.close()


def kill_nodes(options, chance, folder):
    for number in range(options.node_kills):
        run = start_training(folder / str(number), 3, nodes=3)
        try:
            victim = run.agents[0 if number % 2 == 0 else chance.randrange(1, 3)]
            time.sleep(chance.uniform(0.6, 1.2))  # heartbeats were exchanged
            pids = [victim.pid, *run.workers(victim)]
            killed = time.time()
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            yield measure(run, killed)
        finally:
            run.close()


def steps_of_peer(folder):
    """(time, pid) of the newest step of each rank."""
    lines = [path.read_text().splitlines() for path in sorted(folder.glob("*.log"))]
    return [(float(of[-1].split()[0]), int(of[-1].split()[1])) for of in lines if of]


def kill_peer(options, chance, folder):
    program = folder / "train.py"
    program.write_text(PEER)
    for number in range(options.peer_kills):
        logs = folder / str(number)
        logs.mkdir()
        agent = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}",
                                  "--max-restarts=3", str(program), str(logs)], env=environment(), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            while len(steps_of_peer(logs)) < options.ranks:
                time.sleep(0.05)
            time.sleep(chance.uniform(1, 1.5))
            before = {pid for _, pid in steps_of_peer(logs)}
            killed = time.time()
            os.kill(chance.choice(sorted(before)), signal.SIGKILL)
            end, took = time.monotonic() + 30, None
            while took is None and time.monotonic() < end:
                new = [when for when, pid in steps_of_peer(logs) if pid not in before]
                took = 1e3 * (min(new) - killed) if new else time.sleep(0.005)
            yield took, agent.poll() is not None
        finally:
            agent.terminate()
            try:
                agent.wait(timeout=40)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()


def told(measured):
    """`summary` of the whole, and the medians of the parts."""
    done = [each for each in measured if each]
    result = summary([each["first_step"] if each else None for each in measured]) if done else {"runs": len(measured), "hangs": len(measured)}
    return {**result, "parts": {part: round(statistics.median(each[part] for each in done), 1) for part in PARTS}} if done else result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--peer-kills", type=int, default=10)
    parser.add_argument("--node-kills", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["ROLLCALL_BUILD_DIR"] = options.build
    chance = random.Random(options.seed)
    result = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.kills:
            result["rollcall-train, a rank"] = told(list(kill_ranks(options, chance, folder / "ranks")))
        if options.node_kills:
            nodes = list(kill_nodes(options, chance, folder / "nodes"))
            result["rollcall-train, the node of the rendezvous"] = told(nodes[0::2])
            result["rollcall-train, another node"] = told(nodes[1::2])
        if options.peer_kills:
            peer, ended = zip(*kill_peer(options, chance, folder))
            done = any(value is not None for value in peer)
            figures = summary(peer) if done else {"runs": len(peer), "hangs": len(peer)}
            result["torchrun, a rank"] = {**figures, "hangs": figures["hangs"] - sum(ended), "ended": sum(ended)}
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
