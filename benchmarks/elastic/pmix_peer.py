"""Many processes that meet by PMIx under a real Slurm, for scale_peers.py: `srun --mpi=pmix` on a throwaway cluster of four nodes, all of
which are this host."""
import contextlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from minicluster import Minicluster, missing_program  # noqa: E402

NODES, FENCES = 4, 10


class Skipped(Exception):
    """It cannot be measured here; the text says why."""


def pmix_flags():
    """What compiles and links a client of PMIx."""
    asked = subprocess.run(["pkg-config", "--cflags", "--libs", "pmix"], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise Skipped("pkg-config finds no PMIx (libpmix-dev)")
    return asked.stdout.split()


@contextlib.contextmanager
def cluster(most):
    """run(agents, limit) as below, on a cluster where so many tasks have a CPU each; Skipped where there can be none."""
    if missing := missing_program() or next((name for name in ("cc", "pkg-config") if not shutil.which(name)), None):
        raise Skipped(f"{missing} is not installed")
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as name:  # Slurm's sockets need a short path
        folder = pathlib.Path(name)
        program = folder / "pmix_fence"
        source = pathlib.Path(__file__).with_name("pmix_fence.c")
        subprocess.run(["cc", "-std=gnu11", "-O2", source, "-o", program, *pmix_flags()], check=True)
        slurm = Minicluster(folder / "c", f"--nodes={NODES}", f"--cpus={-(-most // NODES)}")
        try:
            slurm.start()
            yield lambda agents, limit: fences(slurm, program, agents, limit)
        finally:
            slurm.stop()


def fences(slurm, program, agents, limit):
    """Seconds from the first process's PMIx_Init to the last one's return from the first fence, which carries an address of each: Slurm
    starts the processes meanwhile; and of a fence that carries nothing between processes that are all there, from the first one's call to
    the last one's return (the median of ten). None where the step takes longer than `limit` seconds."""
    folder = slurm.new_folder()
    command = ["srun", "--mpi=pmix", f"-N{NODES}", f"-n{agents}", f"--output={folder}/%t", program, FENCES]
    try:
        done = slurm.run(*command, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"joined_seconds": None, "reason": f"srun of {agents} processes went on"}
    if done.returncode != 0:
        raise Skipped(f"{agents} processes: {done.stderr.strip()[-300:]}")
    said = [json.loads(file.read_text()) for file in folder.iterdir()]
    assert sorted(each["rank"] for each in said) == list(range(agents))
    took = [max(moments[1] for moments in turn) - min(moments[0] for moments in turn) for turn in zip(*(each["fences"] for each in said))]
    joined = max(each["fences"][0][1] for each in said) - min(each["begun"] for each in said)
    return {"joined_seconds": joined, "barrier_seconds": statistics.median(took[1:])}
