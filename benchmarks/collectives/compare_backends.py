#!/usr/bin/env python3
"""Our collectives over UCX against Gloo and Open MPI.

Gloo and UCX are measured in one run, iteration by iteration (rollcall-bench-collectives --backend=gloo,ucx); Open MPI's own
collectives in runs of their own between those. Prints medians over the runs, and how many times as fast UCX is.

  benchmarks/collectives/compare_backends.py [--build build/dev] [--ranks 2,4] [--runs 3] [--transport any|tcp]
"""
import argparse
import collections
import json
import os
import pathlib
import socket
import statistics
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
SIZES = [1 << 20, 25 << 20, 100 << 20]
OPERATIONS = ["all_reduce", "reduce_scatter", "all_gather"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def lines_of(processes):
    rows = []
    for process in processes:
        out, _ = process.communicate(timeout=600)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, process.args))}: exit code {process.returncode}\n{out}")
        rows += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return rows


def measure_ours(build, ranks, iterations, transport):
    """Ranks as processes of this host that find each other as torchrun's do."""
    port = free_port()
    environment = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                       WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), GLOO_SOCKET_IFNAME="lo")
    if transport != "any":
        environment["UCX_TLS"] = transport
    rows = []
    for size in SIZES:
        environment["MASTER_PORT"] = str(free_port())
        command = [build / "trainer/rollcall-bench-collectives", "--backend=gloo,ucx", "--json",
                   f"--operation={','.join(OPERATIONS)}", f"--min-bytes={size}", f"--max-bytes={size}",
                   f"--iterations={iterations}"]
        rows += lines_of([subprocess.Popen(command, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
                                           stdout=subprocess.PIPE, text=True) for rank in range(ranks)])
    return rows


def measure_mpi(build, ranks, iterations, transport):
    program = build / "benchmarks/collectives/mpi_collectives"
    if not program.exists():
        return []
    layers = ["--mca", "btl", "tcp,self"] if transport == "tcp" else []
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1", *layers, "-n", str(ranks), program,
               str(iterations), *map(str, SIZES)]
    return lines_of([subprocess.Popen(command, stdout=subprocess.PIPE, text=True)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=9)
    parser.add_argument("--transport", choices=["any", "tcp"], default="any")
    arguments = parser.parse_args()
    print(f"transport {arguments.transport}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; GB/s of the larger buffer")
    print(f"{'operation':16}{'ranks':>5}{'MiB':>5}{'Gloo':>8}{'MPI':>8}{'UCX':>8}{'x Gloo':>8}{'x MPI':>8}")
    for ranks in map(int, arguments.ranks.split(",")):
        seconds = collections.defaultdict(list)
        for _ in range(arguments.runs):
            for measure in (measure_ours, measure_mpi):
                for row in measure(arguments.build, ranks, arguments.iterations, arguments.transport):
                    seconds[row["operation"], round(row["bytes"] / 2**20), row["backend"]].append(row["seconds"])
        for operation in OPERATIONS:
            for size in SIZES:
                mib = size >> 20
                of = {name: statistics.median(seconds[operation, mib, name])
                      for name in ("gloo", "mpi", "ucx") if seconds[operation, mib, name]}
                rate = "".join(f"{size / of[name] / 1e9:8.2f}" if name in of else f"{'-':>8}" for name in ("gloo", "mpi", "ucx"))
                ratio = "".join(f"{of[name] / of['ucx']:8.2f}" if name in of else f"{'-':>8}" for name in ("gloo", "mpi"))
                print(f"{operation:16}{ranks:5}{mib:5}{rate}{ratio}", flush=True)


if __name__ == "__main__":
    main()
