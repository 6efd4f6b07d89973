#!/usr/bin/env python3
"""Many agents, of which each is a connection without workers (benchmarks/elastic/many_agents.cpp), meet at the coordinator of a real
`rollcall run` on this host; one is lost, and the others meet again.

    benchmarks/elastic/scale.py [--build=DIR] [--agents=100,1000] [--rounds=3] [--heartbeat-seconds=20] [--json]

Prints for each number of agents medians of the rounds: until all had joined, until all knew of one that was lost, until all were in the
next generation; memory of the coordinator, and its processor time; for N agents N open files are needed on each side (ulimit -n)."""
import argparse
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def status_of(pid):
    """MiB that it held at most, and seconds of processor time."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return peak / 1024, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ours(build, agents, heartbeat):
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder) / "secret"
        secret.touch(mode=0o600)
        secret.write_text("a" * 64)
        coordinator = subprocess.Popen(
            [build / "runtime/rollcall", "run", f"--nnodes={agents - 1}:{agents}", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=many",
             f"--rdzv-endpoint=127.0.0.1:{port}",
             f"--rdzv-conf=heartbeat_timeout={heartbeat},last_call_timeout=60,secret={folder}/secret", "--no-python",
             "sleep", "600"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": folder})
        try:
            for _ in range(500):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.01)
            done = subprocess.run([build / "benchmarks/elastic/many_agents", str(port), str(agents - 1), str(heartbeat), "a" * 64],
                                  capture_output=True, text=True, check=False, timeout=400)
            if done.returncode != 0:
                sys.exit(f"{agents} agents: {done.stderr.strip()}")
            memory, cpu = status_of(coordinator.pid)
        finally:
            coordinator.kill()
            coordinator.wait()
    return {**json.loads(done.stdout), "coordinator_mib": memory, "coordinator_cpu_seconds": cpu}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build/release"))
    parser.add_argument("--agents", default="100,1000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heartbeat-seconds", type=int, default=20, help="heartbeat_timeout (default 20; of rollcall run 2)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    result = {}
    for agents in map(int, options.agents.split(",")):
        rounds = [ours(options.build, agents, options.heartbeat_seconds) for _ in range(options.rounds)]
        result[agents] = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        if not options.json:
            print(f"{agents:6d} agents:", ", ".join(f"{name} {value:.3f}" for name, value in result[agents].items()), flush=True)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
