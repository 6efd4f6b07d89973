"""An all-reduce beside a computation, ranks of one thread: how much longer the computation takes for it, and how long both take. On CPUs
the all-reduce needs the cores of the computation: it cannot be free, but it need not cost more than it does alone."""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure  # noqa: E402

parser = measure.parser(__doc__, runs=3)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--mib", type=int, nargs="+", default=(1, 25, 100))
parser.add_argument("--compute-ms", type=int, default=200)
options = parser.parse_args()
program = options.build.resolve() / "benchmarks" / "collectives" / "sum_beside_compute"

rows = []
for mib in options.mib:
    runs = {"Gloo": [], "UCX": []}
    for _ in range(options.runs):
        for ucx, backend in enumerate(runs):
            runs[backend].append(measure.run_ranks(
                [program, f"--ucx={ucx}", f"--mib={mib}", f"--compute-ms={options.compute_ms}"], options.ranks))
    for backend, results in runs.items():
        rows.append({"backend": backend, "mib": mib, **{name: statistics.median(r[name] for r in results) for name in results[0]}})
if options.json:
    print(json.dumps({"benchmark": "all-reduce beside a computation", "unit": "ms", "ranks": options.ranks, "rows": rows}))
else:
    print(f"{options.ranks} ranks x 1 thread; ms, medians")
    print(f"{'MiB':>4} {'':6}{'computation':>12}{'all-reduce':>12}{'both':>9}{'slowed by':>11}")
    for row in rows:
        slowed = row["compute_beside_ms"] - row["compute_ms"]
        print(f"{row['mib']:4} {row['backend']:6}{row['compute_ms']:12.1f}{row['sum_ms']:12.1f}{row['both_ms']:9.1f}{slowed:11.1f}")
