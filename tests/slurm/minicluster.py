"""Drives scripts/minicluster for the tests: start, run, poll, stop."""

import os
import pathlib
import shutil
import subprocess
import time

SOURCE = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
SCRIPT = SOURCE / "scripts" / "minicluster"

# Prints its environment, NUL-separated, after a line of its own: tasks' outputs arrive whole, one write each.
PRINT_ENVIRONMENT = (
    "/usr/bin/python3", "-S", "-c",
    "import os,json,sys; sys.stdout.write(json.dumps(dict(os.environ))+'\\n'); sys.stdout.flush()",
)


def missing_program():
    """The first program that a cluster needs and this machine lacks, or None."""
    for program in ("munged", "slurmctld", "slurmd", "srun"):
        if shutil.which(program) is None and not pathlib.Path("/usr/sbin", program).exists():
            return program
    return None


def clean_environment():
    """This process's environment without what a Slurm job or a rollcall around the tests would add."""
    prefixes = ("SLURM", "ROLLCALL_", "PMIX_", "SBATCH_", "SALLOC_")
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS")
    return {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k not in names}


def poll(condition, what, seconds=20.0):
    """Waits until condition() is true and returns its value; fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


class Minicluster:
    """One cluster in a folder of its own. `prefix` is put before every command (runuser for another user)."""

    def __init__(self, folder, *options, prefix=()):
        self.folder = pathlib.Path(folder)
        self.options = options
        self.prefix = prefix

    def script(self, *arguments, check=True, env=None, timeout=60):
        command = [*self.prefix, str(SCRIPT), f"--dir={self.folder}", *map(str, arguments)]
        result = subprocess.run(command, env=env or clean_environment(), text=True, timeout=timeout,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/tmp")
        assert not check or result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        return result

    def start(self):
        self.script(*self.options, "start")
        return self

    def stop(self):
        self.script("stop")

    def run(self, *command, env=None, check=True, timeout=60):
        """Runs a command with SLURM_CONF set; `env` is added to the clean environment."""
        return self.script("run", *command, env={**clean_environment(), **(env or {})}, check=check, timeout=timeout)

    def environments(self, *srun_options, env=None, command="srun"):
        """The environments of a step's tasks, by rank, as `srun OPTIONS` gave them."""
        result = self.run(command, *srun_options, *PRINT_ENVIRONMENT, env=env)
        return by_rank(result.stdout), result.stderr

    def batch(self, script, *options, env=None, folder=None):
        """Submits a batch script, waits until it ended, and returns its output (standard error included)."""
        folder = pathlib.Path(folder or self.folder / "tmp")
        path = folder / "script.sh"
        path.write_text(script)
        output = folder / "batch-%j.out"
        result = self.run("sbatch", "--wait", "--parsable", f"--output={output}", *options, str(path), env=env, check=False)
        assert result.stdout.strip(), result.stderr
        job = result.stdout.split()[0]
        return pathlib.Path(str(output).replace("%j", job)).read_text()

    def script_python(self):
        """PRINT_ENVIRONMENT as one word of a shell script."""
        return " ".join("'" + word.replace("'", "'\\''") + "'" for word in PRINT_ENVIRONMENT)

    def nodes_in_state(self, *states):
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.split("\n")
        return [line.split()[0] for line in lines if line and line.split()[1].rstrip("*") in states]


def by_rank(output):
    """The JSON lines of PRINT_ENVIRONMENT in `output`, sorted by rank."""
    import json

    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return sorted(found, key=lambda e: int(e.get("SLURM_PROCID", -1)))
