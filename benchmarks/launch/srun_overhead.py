#!/usr/bin/env python3
"""Milliseconds of a whole `srun /bin/true` on a throwaway cluster, and CPU milliseconds of all processes that take part, srun's, slurmd's
and slurmctld's among them: without the plugin, with the plugin unused, with --ddp, and the same with PMIx, on 1 to 4 nodes. Sides are
interleaved; what a side adds is the median of the pairwise differences to the run without the plugin in the same round. As root: the
processes are in a cgroup, which counts what they use."""
import contextlib
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
STARTS = {"rollcall started twice": "{build}/runtime/rollcall --version", "true started twice": "/bin/true"}  # as --ddp does for srun and a task
KINDS = ("wall", "CPU")
LONGEST_END = 60  # seconds


class Counted:
    """Processes whose CPU time is counted together, and those that they start."""

    def __init__(self):
        first_version = pathlib.Path("/sys/fs/cgroup/cpuacct")
        self.folder = (first_version if first_version.is_dir() else first_version.parent) / f"rollcall-{os.getpid()}"
        self.folder.mkdir()
        self.daemons = set()

    def run(self, command, **kwargs):
        return measure.run(command, preexec_fn=lambda: (self.folder / "cgroup.procs").write_text("0"), **kwargs)

    def members(self):
        return set((self.folder / "cgroup.procs").read_text().split())

    def milliseconds(self):
        """When what a step leaves behind, such as its slurmstepd, has ended as well."""
        self.await_end(self.daemons)
        if (usage := self.folder / "cpuacct.usage").exists():
            return int(usage.read_text()) / 1e6
        return int((self.folder / "cpu.stat").read_text().split()[1]) / 1e3

    def await_end(self, but=frozenset()):
        deadline = time.monotonic() + LONGEST_END
        while left := self.members() - but:
            if time.monotonic() > deadline:
                sys.exit(f"processes {' '.join(sorted(left))} of {self.folder} still run after {LONGEST_END} s")
            time.sleep(0.001)

    def close(self):
        self.await_end()
        self.folder.rmdir()


def main():
    p = measure.parser(__doc__, runs=20)
    p.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4], help="sizes of the step, one task a node")
    p.add_argument("--sides", nargs="+", default=[*SIDES, *STARTS], choices=[*SIDES, *STARTS], help="what to measure")
    options = p.parse_args()
    plugin = options.build.resolve() / "spank_plugin" / "spank_rollcall.so"
    rows = []
    counted = Counted()
    with contextlib.closing(counted), tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        cluster = [measure.ROOT / "scripts" / "minicluster", f"--dir={folder}/c"]
        counted.run([*cluster, f"--nodes={max(options.nodes)}", f"--plugin={plugin}", "start"])
        counted.daemons = counted.members()
        try:
            plugstack = pathlib.Path(folder, "c", "etc", "plugstack.conf")
            with_plugin = plugstack.read_text()
            environment = {**os.environ, "SLURM_CONF": str(plugstack.with_name("slurm.conf"))}
            for nodes in options.nodes:
                rows += summarise(nodes, measure.interleaved(sides(counted, plugstack, with_plugin, environment, nodes, options), options.runs))
        finally:
            subprocess.run([*cluster, "stop"], check=True)
    show(rows, options)


def sides(counted, plugstack, with_plugin, environment, nodes, options):
    def timed(*command):
        used, start = counted.milliseconds(), time.perf_counter()
        counted.run(command, env=environment)
        wall = (time.perf_counter() - start) * 1e3
        return wall, counted.milliseconds() - used

    def side(there, arguments):
        def run():
            plugstack.write_text(with_plugin if there else "")  # read anew by every srun and every step
            return timed("srun", f"-N{nodes}", *arguments, "/bin/true")
        return run

    def starts(command):
        many = f"for i in {'1 ' * 40}; do {command.format(build=options.build.resolve())} > /dev/null; done"
        return lambda: tuple(value / 20 for value in timed("sh", "-c", many))  # twenty times two

    measured = {name: side(*SIDES[name][:2]) for name in SIDES if name in options.sides}
    measured.update({name: starts(command) for name, command in STARTS.items() if name in options.sides})
    return measured


def summarise(nodes, results):
    for kind, place in zip(KINDS, range(2)):
        for name, pairs in results.items():
            values = [pair[place] for pair in pairs]
            base = [pair[place] for pair in results.get(SIDES.get(name, (None,) * 3)[2], [])]
            added = sorted(a - b for a, b in zip(values, base))
            quarter = len(added) // 4
            yield {"nodes": nodes, "kind": kind, "side": name, "min": min(values), "median": statistics.median(values), "max": max(values),
                   "added_median": statistics.median(added) if added else None,
                   "added_quartiles": [added[quarter], added[-1 - quarter]] if added else None}


def show(rows, options):
    load = os.getloadavg()[0]
    if options.json:
        print(json.dumps({"benchmark": "srun /bin/true", "unit": "ms", "runs": options.runs, "load": load, "rows": rows}))
        return
    print(f"srun /bin/true, one task a node (ms; {options.runs} interleaved rounds; load {load:.1f} at the end)")
    print(f"{'nodes':>5}  {'':4} {'side':22} {'min':>8} {'median':>8} {'max':>8}   added: median (quartiles)")
    for row in rows:
        added = "" if row["added_median"] is None else "{:+6.1f} ({:+.1f} to {:+.1f})".format(row["added_median"], *row["added_quartiles"])
        print(f"{row['nodes']:5}  {row['kind']:4} {row['side']:22} {row['min']:8.1f} {row['median']:8.1f} {row['max']:8.1f}   {added}")


if __name__ == "__main__":
    main()
