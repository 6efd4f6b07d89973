#!/usr/bin/env python3
"""Whole-run time of `srun /bin/true` without the plugin, with the plugin unused, and with --ddp, on a throwaway cluster."""
import pathlib
import subprocess
import tempfile
import time

import measure


def main():
    p = measure.parser(__doc__, runs=20)
    p.add_argument("--nodes", type=int, default=2, help="nodes of the step, one task each")
    options = p.parse_args()
    plugin = options.build.resolve() / "spank_plugin" / "spank_rollcall.so"
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        cluster = [measure.ROOT / "scripts" / "minicluster", f"--dir={folder}/c"]
        measure.run([*cluster, f"--nodes={options.nodes}", f"--plugin={plugin}", "start"])
        try:
            results = time_srun(cluster, pathlib.Path(folder, "c", "etc", "plugstack.conf"), options)
        finally:
            subprocess.run([*cluster, "stop"], check=True)
    measure.report(f"srun -N{options.nodes} /bin/true", "ms", results, ("plugin unused", "no plugin"), options.json)


def time_srun(cluster, plugstack, options):
    with_plugin = plugstack.read_text()

    def side(text, *arguments):
        def run():
            plugstack.write_text(text)  # read anew by every srun and every step
            start = time.perf_counter()
            measure.run([*cluster, "run", "srun", f"-N{options.nodes}", *arguments, "/bin/true"])
            return (time.perf_counter() - start) * 1e3
        return run

    return measure.interleaved({"no plugin": side(""), "plugin unused": side(with_plugin),
                                "--ddp": side(with_plugin, "--ddp")}, options.runs)


if __name__ == "__main__":
    main()
