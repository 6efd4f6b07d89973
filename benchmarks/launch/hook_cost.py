#!/usr/bin/env python3
"""CPU milliseconds that the plugin itself takes of each process of `srun --ddp /bin/true`: loading it, and each hook. Unlike the time
of a whole srun this does not depend on how many nodes share this machine's cores."""
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measure  # noqa: E402

SRUN, SLURMSTEPD = 1, 2  # S_CTX_LOCAL and S_CTX_REMOTE of slurm/spank.h
ROWS = [("srun", "slurm_spank_init", SRUN), ("each node", "slurm_spank_init", SLURMSTEPD),
        ("each node", "slurm_spank_user_init", SLURMSTEPD), ("each task", "slurm_spank_task_init", SLURMSTEPD)]


def main():
    p = measure.parser(__doc__, runs=50)
    p.add_argument("--nodes", type=int, default=4)
    options = p.parse_args()
    times = measure_hooks(options)
    rows = [{"process": process, "hook": hook, "median": statistics.median(times[hook, context]), "count": len(times[hook, context])}
            for process, hook, context in ROWS]
    chain = sum(row["median"] for row in rows)
    if options.json:
        print(json.dumps({"benchmark": "hooks of srun --ddp", "unit": "ms CPU", "nodes": options.nodes, "rows": rows,
                          "one_after_another": chain}))
        return
    print(f"srun --ddp -N{options.nodes} /bin/true: CPU ms of the plugin, median")
    for row in rows:
        print(f"  {row['process']:10} {row['hook']:24} {row['median']:7.3f}   of {row['count']}")
    print(f"  srun, then a node, then its task: {chain:.2f} ms (where nodes have cores of their own)")


def measure_hooks(options):
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        log = pathlib.Path(folder, "log")
        log.touch()
        log.chmod(0o666)
        cluster = [measure.ROOT / "scripts" / "minicluster", f"--dir={folder}/c"]
        build = options.build.resolve()
        measure.run([*cluster, f"--nodes={options.nodes}", f"--plugin={build}/spank_plugin/spank_rollcall.so", "start"])
        try:
            plugstack = pathlib.Path(folder, "c", "etc", "plugstack.conf")
            keyword, plugin, config = plugstack.read_text().split()
            plugstack.write_text(f"{keyword} {build}/benchmarks/launch/hook_clock.so {plugin} {log} {config}\n")
            environment = {**os.environ, "SLURM_CONF": str(plugstack.with_name("slurm.conf"))}
            for _ in range(options.runs):
                measure.run(["srun", f"-N{options.nodes}", "--mpi=none", "--ddp", "/bin/true"], env=environment)
        finally:
            subprocess.run([*cluster, "stop"], check=True)
        times = collections.defaultdict(list)
        for line in log.read_text().splitlines():
            hook, context, milliseconds = line.split()
            times[hook, int(context)].append(float(milliseconds))
        return times


if __name__ == "__main__":
    main()
