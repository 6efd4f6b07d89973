#!/usr/bin/env python3
"""From the kill -9 of a node's agent, with which its workers die, to the first line of all workers of the nodes that are left; three
nodes on this host, beside torchrun in the same run.

    benchmarks/elastic/nodes.py [--rollcall=PROGRAM] [--kills=100] [--peer-kills=10] [--seed=1] [--silent] [--json]

Every other kill hits the node that holds the rendezvous, every other one a node at random. --silent: the node is stopped (SIGSTOP, all
of it) instead, as a host that loses power is silent; --rdzv-conf=heartbeat_timeout is 2 s, the default. Prints medians, 99th percentiles
and the largest value in milliseconds; a run that did not go on within 30 s, or ended, counts as lost."""
import argparse
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

from agents import ROOT, environment, summary, wait_for

NODES, WORKERS = 3, 2
WORK = 'name="$0/$WORLD_SIZE.$RANK"; echo $PPID > "$name.part"; mv "$name.part" "$name"; exec sleep 1000'


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_nodes(launcher, folder):
    """The first holds the rendezvous."""
    line = [*launcher, f"--nnodes=1:{NODES}", f"--nproc-per-node={WORKERS}", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=bench",
            f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--no-python", "/bin/sh", "-c", WORK, str(folder)]
    agents = []
    for number in range(NODES):
        agents.append(subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if number == 0:
            time.sleep(0.3 if launcher[0] != sys.executable else 3)
    return agents


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def lose_node(launcher, hits_rendezvous, silent, seed, seconds=30):
    """Milliseconds until the others' workers have started again; None where they have not."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        agents = start_nodes(launcher, folder)
        try:
            if not all(wait_for(folder / f"{NODES * WORKERS}.{rank}", 60) for rank in range(NODES * WORKERS)):
                return None
            time.sleep(chance.uniform(0.6, 1.2))  # heartbeats were exchanged
            victim = agents[0 if hits_rendezvous else chance.randrange(1, NODES)]
            node = [victim.pid, *children_of(victim.pid)]
            begin = time.perf_counter()
            for pid in node:
                os.kill(pid, signal.SIGSTOP if silent else signal.SIGKILL)
            left = (NODES - 1) * WORKERS
            again = all(wait_for(folder / f"{left}.{rank}", seconds) for rank in range(left))
            return (time.perf_counter() - begin) * 1e3 if again else None
        finally:
            for agent in agents:
                agent.send_signal(signal.SIGCONT)
                agent.send_signal(signal.SIGTERM)
            for agent in agents:
                try:
                    agent.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    agent.kill()
                    agent.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollcall", default=str(ROOT / "build/release/runtime/rollcall"))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--peer-kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    launchers = {"rollcall run": [options.rollcall, "run"], "torchrun": [sys.executable, "-m", "torch.distributed.run"]}
    took = {name: {True: [], False: []} for name in launchers}
    for number in range(options.kills):
        for name, launcher in launchers.items():
            if name == "torchrun" and number >= options.peer_kills:
                continue
            took[name][number % 2 == 0].append(lose_node(launcher, number % 2 == 0, options.silent, options.seed * 1000 + number))
    result = {name: {"node of the rendezvous": told(of[True]), "another node": told(of[False])} for name, of in took.items()}
    print(json.dumps(result, indent=None if options.json else 2))


def told(values):
    """`summary`, which needs one that went on."""
    return summary(values) if any(value is not None for value in values) else {"runs": len(values), "hangs": len(values)}


if __name__ == "__main__":
    main()
