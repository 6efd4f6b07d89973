#!/usr/bin/env python3
"""Milliseconds of a whole `srun /bin/true` on a throwaway cluster: without the plugin, with the plugin unused, with --ddp, and the
same with PMIx, on 1 to 4 nodes. Sides are interleaved; what a side adds is the median of the pairwise differences to the run
without the plugin in the same round."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measure  # noqa: E402

SIDES = {  # name: (plugin there, arguments of srun, the side it is compared with)
    "no plugin": (False, ["--mpi=none"], None),
    "plugin unused": (True, ["--mpi=none"], "no plugin"),
    "ddp": (True, ["--mpi=none", "--ddp"], "no plugin"),
    "no plugin, pmix": (False, ["--mpi=pmix"], None),
    "plugin unused, pmix": (True, ["--mpi=pmix"], "no plugin, pmix"),
    "ddp, pmix": (True, ["--mpi=pmix", "--ddp"], "no plugin, pmix"),
}


def main():
    p = measure.parser(__doc__, runs=20)
    p.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4], help="sizes of the step, one task a node")
    p.add_argument("--sides", nargs="+", default=list(SIDES), choices=list(SIDES), help="what to measure")
    options = p.parse_args()
    plugin = options.build.resolve() / "spank_plugin" / "spank_rollcall.so"
    rows = []
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        cluster = [measure.ROOT / "scripts" / "minicluster", f"--dir={folder}/c"]
        measure.run([*cluster, f"--nodes={max(options.nodes)}", f"--plugin={plugin}", "start"])
        try:
            plugstack = pathlib.Path(folder, "c", "etc", "plugstack.conf")
            with_plugin = plugstack.read_text()
            environment = {**os.environ, "SLURM_CONF": str(plugstack.with_name("slurm.conf"))}
            for nodes in options.nodes:
                rows += summarise(nodes, measure.interleaved(sides(plugstack, with_plugin, environment, nodes, options), options.runs))
        finally:
            subprocess.run([*cluster, "stop"], check=True)
    show(rows, options)


def sides(plugstack, with_plugin, environment, nodes, options):
    def side(there, arguments):
        def run():
            plugstack.write_text(with_plugin if there else "")  # read anew by every srun and every step
            start = time.perf_counter()
            measure.run(["srun", f"-N{nodes}", *arguments, "/bin/true"], env=environment)
            return (time.perf_counter() - start) * 1e3
        return run

    return {name: side(*SIDES[name][:2]) for name in SIDES if name in options.sides}


def summarise(nodes, results):
    for name, values in results.items():
        base = results.get(SIDES[name][2] or "")
        added = sorted(a - b for a, b in zip(values, base)) if base else []
        quarter = len(added) // 4
        yield {"nodes": nodes, "side": name, "min": min(values), "median": statistics.median(values), "max": max(values),
               "added_median": statistics.median(added) if added else None,
               "added_quartiles": [added[quarter], added[-1 - quarter]] if added else None}


def show(rows, options):
    load = os.getloadavg()[0]
    if options.json:
        print(json.dumps({"benchmark": "srun /bin/true", "unit": "ms", "runs": options.runs, "load": load, "rows": rows}))
        return
    print(f"srun /bin/true, one task a node (ms of the whole srun; {options.runs} interleaved rounds; load {load:.1f} at the end)")
    print(f"{'nodes':>5}  {'side':22} {'min':>8} {'median':>8} {'max':>8}   added: median (quartiles)")
    for row in rows:
        added = "" if row["added_median"] is None else "{:+6.1f} ({:+.1f} to {:+.1f})".format(row["added_median"], *row["added_quartiles"])
        print(f"{row['nodes']:5}  {row['side']:22} {row['min']:8.1f} {row['median']:8.1f} {row['max']:8.1f}   {added}")


if __name__ == "__main__":
    main()
