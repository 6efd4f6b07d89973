"""Drives scripts/minicluster for the tests: start, run, poll, stop; and what tests of steps ask alike."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
SCRIPT = SOURCE / "scripts" / "minicluster"

# Writes a task's environment to FOLDER/JOB.STEP.RANK.json. A file a task, since srun mixes long lines of several tasks.
RECORD_ENVIRONMENT = (
    "import os,json,sys; e=dict(os.environ); "
    "name='.'.join(e.get(k,'none') for k in ('SLURM_JOB_ID','SLURM_STEP_ID','SLURM_PROCID')); "
    "open(sys.argv[1]+'/'+name+'.json','x').write(json.dumps(e))"
)


# The Debian release whose Slurm the clusters are of (scripts/second-slurm); empty: this machine's own.
SLURM = os.environ.get("ROLLCALL_TEST_SLURM", "")


def missing_program():
    """Why there can be no cluster here, or None."""
    if SLURM:
        command = [SOURCE / "scripts" / "second-slurm", f"--suite={SLURM}", "--print-root"]
        root = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        return None if pathlib.Path(root, "bin", "slurmd").exists() else f"the Slurm of {SLURM}"
    for program in ("munged", "slurmctld", "slurmd", "srun"):
        if shutil.which(program) is None and not pathlib.Path("/usr/sbin", program).exists():
            return program
    return None


def clean_environment():
    """This process's environment without what a Slurm job or a rollcall around the tests would add."""
    prefixes = ("SLURM", "ROLLCALL_", "PMIX_", "PMI_", "OMPI_", "SBATCH_", "SALLOC_")
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS")
    return {k: v for k, v in os.environ.items() if k == "ROLLCALL_DEPS" or not k.startswith(prefixes) and k not in names}


def poll(condition, what, seconds=120.0):
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

    program = SCRIPT
    slurm = [f"--slurm={SLURM}"] if SLURM else []

    def __init__(self, folder, *options, prefix=()):
        self.folder = pathlib.Path(folder)
        self.options = options
        self.prefix = prefix

    def script(self, *arguments, check=True, env=None, timeout=300):
        command = [*self.prefix, str(self.program), f"--dir={self.folder}", *map(str, arguments)]
        result = subprocess.run(command, env=env or clean_environment(), text=True, timeout=timeout,
                                capture_output=True, cwd="/tmp")
        assert not check or result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        return result

    def start(self):
        self.script(*self.slurm, *self.options, "start")
        return self

    def stop(self):
        self.script("stop")

    def run(self, *command, env=None, check=True, timeout=60):
        """Runs a command with SLURM_CONF set; `env` is added to the clean environment."""
        return self.script("run", *command, env={**clean_environment(), **(env or {})}, check=check, timeout=timeout)

    def recorder(self):
        """A command that records its environment, and a function that reads what all its runs recorded, by rank."""
        folder = self.new_folder()

        def read():
            found = [json.loads(file.read_text()) for file in folder.glob("*.json")]
            return sorted(found, key=lambda e: (e.get("SLURM_STEP_ID", ""), int(e.get("SLURM_PROCID", -1))))

        return ["/usr/bin/python3", "-S", "-c", RECORD_ENVIRONMENT, str(folder)], read

    def environments(self, *srun_options, env=None):
        """The environments of a step's tasks, by rank, and what `srun OPTIONS` wrote to standard error."""
        command, read = self.recorder()
        result = self.run("srun", *srun_options, *command, env=env)
        return read(), result.stderr

    def new_folder(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.folder / "tmp"))

    def batch(self, script, *options, env=None):
        """Submits a batch script, waits until it ended, and returns its output (standard error included). Not by
        `sbatch --wait`, which looks after 2 s only, and then less and less often."""
        folder = self.new_folder()
        path = folder / "script.sh"
        path.write_text(script)
        output = folder / "batch-%j.out"
        result = self.run("sbatch", "--parsable", f"--output={output}", *options, str(path), env=env, check=False)
        assert result.stdout.strip(), result.stderr
        job = result.stdout.split()[0]
        self.wait_for_job(job)
        return pathlib.Path(str(output).replace("%j", job)).read_text()

    def wait_for_job(self, job):
        """Until a batch job, and every element of an array, has ended."""
        ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}

        def states():
            return set(self.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.split())

        poll(lambda: states() <= ended, f"end of job {job}", 60)

    def restart_node_with(self, node, content, path):
        """Restarts a node on which `path`, a file or folder, is `content`. Root only."""
        in_its_place = ["unshare", "--mount", "--propagation=private", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"',
                        str(content), str(path)]
        type(self)(self.folder, prefix=in_its_place).script("restart-node", node)

    def nodes_in_state(self, *states):
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.split("\n")
        return [line.split()[0] for line in lines if line and line.split()[1].rstrip("*") in states]


class Netcluster(Minicluster):
    """A cluster whose nodes are hosts of their own, on a network of its own; commands run on its login host. Root only."""

    program = SOURCE / "scripts" / "netcluster"


def tasks_per_node(text):
    """Slurm's "2(x3),1" as [2, 2, 2, 1]."""
    counts = []
    for part in text.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        counts += [int(count)] * int(times or 1)
    return counts


def check_world(environments, size):
    """Every task's ranks are Slurm's own, and all tasks agree on one endpoint."""
    assert [e["RANK"] for e in environments] == [str(rank) for rank in range(size)]
    for e in environments:
        node = e["SLURM_NODEID"]
        assert (e["RANK"], e["LOCAL_RANK"]) == (e["SLURM_PROCID"], e["SLURM_LOCALID"])
        assert e["WORLD_SIZE"] == e["SLURM_STEP_NUM_TASKS"] == str(size)
        assert e["NODE_RANK"] == e["GROUP_RANK"] == node
        assert int(e["LOCAL_WORLD_SIZE"]) == tasks_per_node(e["SLURM_STEP_TASKS_PER_NODE"])[int(node)]
        assert e["MASTER_PORT"] == re.match(r"\d+", e["SLURM_STEP_RESV_PORTS"])[0]
    assert {e["MASTER_ADDR"] for e in environments} == {"localhost"}
    assert len({e["MASTER_PORT"] for e in environments}) == 1


def rollcall_lines(text):
    return [line for line in text.splitlines() if "rollcall: " in line]


def processes_of(folder):
    """Pids of running processes whose command line or environment names `folder`."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if "\nState:\tZ" in (entry / "status").read_text(errors="replace") or int(entry.name) == os.getpid():
                continue
            if str(folder).encode() + b"/" in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def run(command, env=None, **kwargs):
    """Of a program on this machine, outside any cluster."""
    return subprocess.run([str(word) for word in command], env={**clean_environment(), **(env or {})}, text=True, timeout=120,
                          capture_output=True, **kwargs)
