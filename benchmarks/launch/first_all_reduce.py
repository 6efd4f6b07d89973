"""Seconds from the start of the launcher to the first all-reduce done on the slowest of two ranks:
`srun --ddp rollcall-train --dry-run` on two nodes of a throwaway cluster, and torchrun + Python on this machine."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measure  # noqa: E402

options = measure.parser(__doc__, runs=7).parse_args()
build = options.build.resolve()
torchrun = pathlib.Path(measure.python()).parent / "torchrun"
minicluster = measure.ROOT / "scripts" / "minicluster"
environment = {**os.environ, "OMP_NUM_THREADS": "1"}


def first_all_reduce(command):
    """Until the last rank's line "DONE ..." arrives here."""
    began = time.monotonic()
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=environment) as process:
        done = [time.monotonic() for line in process.stdout if line.startswith("DONE")]
    assert process.returncode == 0 and len(done) == 2, (process.returncode, done)
    return max(done) - began


with tempfile.TemporaryDirectory() as folder:
    cluster = [minicluster, f"--dir={folder}/cluster"]
    measure.run([*cluster, "--nodes=2", "--cpus=2", f"--plugin={build}/spank_plugin/spank_rollcall.so", "start"])
    try:
        def ours(mpi):
            return first_all_reduce([*cluster, "run", "srun", f"--mpi={mpi}", "--ddp", "-N2",
                                     "--ntasks-per-node=1", build / "trainer" / "rollcall-train", "--dry-run"])

        results = measure.interleaved({
            "torchrun + python": lambda: first_all_reduce(
                [torchrun, "--standalone", "--nproc_per_node=2", pathlib.Path(__file__).with_name("peer_all_reduce.py")]),
            "srun --ddp": lambda: ours("none"),
            "srun --ddp --mpi=pmix": lambda: ours("pmix"),
        }, options.runs)
    finally:
        subprocess.run([*cluster, "stop"], check=False, capture_output=True)

measure.report("start to first all-reduce, 2 ranks", "s", results, ("torchrun + python", "srun --ddp"), options.json)
