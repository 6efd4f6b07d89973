#!/usr/bin/env python3
"""Our collectives over UCX against Gloo and Open MPI.

Each backend has processes of its own, in turn for each size and run, so that none meets what another leaves behind: Gloo and UCX in
rollcall-bench-collectives, Open MPI in mpi_collectives, which measures alike. Prints medians over the runs, and how many times as fast
UCX is."""
import collections
import json
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure  # noqa: E402

SIZES = [1 << 20, 25 << 20, 100 << 20]
OPERATIONS = ["all_reduce", "reduce_scatter", "all_gather"]
BACK_ENDS = ["gloo", "ucx", "mpi"]


def ours(backend, ranks, size):
    variables = {"GLOO_SOCKET_IFNAME": "lo", **({"UCX_TLS": "tcp"} if options.transport == "tcp" else {})}
    command = [options.build / "trainer/rollcall-bench-collectives", f"--backend={backend}", "--json",
               f"--operation={','.join(OPERATIONS)}", f"--min-bytes={size}", f"--max-bytes={size}", f"--iterations={options.iterations}"]
    return measure.output_of_ranks(command, ranks, **variables)


def mpi(ranks, size):
    program = options.build / "benchmarks/collectives/mpi_collectives"
    if not program.exists():
        return ""
    layers = ["--mca", "btl", "tcp,self"] if options.transport == "tcp" else []
    return measure.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1", *layers, "-n", ranks, program,
                        options.iterations, size])


def seconds_of(ranks):
    """{(operation, MiB, backend): seconds of each run}"""
    seconds = collections.defaultdict(list)
    for _ in range(options.runs):
        for size in SIZES:
            for backend in BACK_ENDS:
                output = mpi(ranks, size) if backend == "mpi" else ours(backend, ranks, size)
                for row in (json.loads(line) for line in output.splitlines() if line.startswith("{")):
                    seconds[row["operation"], size >> 20, backend].append(row["seconds"])
    return seconds


def show(ranks, seconds):
    for operation in OPERATIONS:
        for size in SIZES:
            of = {name: statistics.median(seconds[operation, size >> 20, name])
                  for name in BACK_ENDS if seconds[operation, size >> 20, name]}
            rate = "".join(f"{size / of[name] / 1e9:8.2f}" if name in of else f"{'-':>8}" for name in ("gloo", "mpi", "ucx"))
            ratio = "".join(f"{of[name] / of['ucx']:8.2f}" if name in of else f"{'-':>8}" for name in ("gloo", "mpi"))
            print(f"{operation:16}{ranks:5}{size >> 20:5}{rate}{ratio}", flush=True)


parser = measure.parser(__doc__, runs=3)
parser.add_argument("--ranks", type=int, nargs="+", default=(2, 4))
parser.add_argument("--iterations", type=int, default=9)
parser.add_argument("--transport", choices=["any", "tcp"], default="any")
options = parser.parse_args()
print(f"transport {options.transport}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; GB/s of the larger buffer")
print(f"{'operation':16}{'ranks':>5}{'MiB':>5}{'Gloo':>8}{'MPI':>8}{'UCX':>8}{'x Gloo':>8}{'x MPI':>8}")
for count in options.ranks:
    show(count, seconds_of(count))
