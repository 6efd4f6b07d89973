#!/usr/bin/env python3
"""How long after kill -9 of one of four ranks the others have an error, on each backend.

The ranks are processes of this host that do nothing but add up; one of them is killed at a random moment. `bare` is the backend's own
error; `watched` is what a training sees: the same, after the watchdog has asked all ranks where they are, so that it can name who is lost.

  benchmarks/collectives/kill_latency.py [--build build/release] [--ranks 4] [--kills 20] [--mib 4] [--within 10]
"""
import argparse
import os
import pathlib
import random
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).parents[2]
SIDES = [("gloo", "any"), ("ucx", "any"), ("ucx", "tcp")]


def one_kill(program, store, backend, transport, kind, options, chance):
    """Seconds until each survivor's error; none for one that has none in time. `store` is a place that no other kill has."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    if transport != "any":
        environment["UCX_TLS"] = transport
    ranks = [subprocess.Popen([program, backend, kind, str(rank), str(options.ranks), store, str(options.mib)],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
             for rank in range(options.ranks)]
    for rank in ranks:
        if rank.stdout.readline() != "adding\n":
            raise SystemExit(f"{backend}: a rank ended before the first sum")
    time.sleep(chance.uniform(0.05, 0.3))
    victim = chance.randrange(options.ranks)
    ranks[victim].kill()
    killed, seconds = time.monotonic(), []
    for rank in ranks[:victim] + ranks[victim + 1:]:
        try:
            out, _ = rank.communicate(timeout=max(0.1, killed + options.within - time.monotonic()))
            seconds.append(float(out.split()[0]) - killed)
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.communicate()
            seconds.append(None)
    ranks[victim].communicate()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--mib", type=int, default=4, help="of each sum")
    parser.add_argument("--within", type=float, default=10, help="seconds after which a survivor counts as one without an error")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program, chance = options.build / "benchmarks/collectives/add_until_failure", random.Random(options.seed)
    print(f"{options.ranks} ranks, {options.kills} kills each, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
          "ms until a survivor's error")
    print(f"{'backend':10}{'transport':11}{'error':9}{'median':>8}{'90 %':>8}{'max':>8}{'without':>9}")
    found = {}
    server = subprocess.Popen([program, "store"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = server.stdout.readline().strip()
    for number in range(options.kills):  # in turn, so that a busy moment of the machine falls on all
        for backend, transport in SIDES:
            for kind in ("bare", "watched"):
                found.setdefault((backend, transport, kind), []).extend(
                    one_kill(program, f"{port}/{number} {backend} {transport} {kind}", backend, transport, kind, options, chance))
    server.communicate()
    for (backend, transport, kind), seconds in found.items():
        known = sorted(1000 * one for one in seconds if one is not None)
        print(f"{backend:10}{transport if backend == 'ucx' else '':11}{kind:9}{statistics.median(known):8.0f}"
              f"{known[int(0.9 * (len(known) - 1))]:8.0f}{known[-1]:8.0f}{len(seconds) - len(known):9}")


if __name__ == "__main__":
    main()
