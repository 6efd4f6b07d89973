"""The machine on which scripts/gpu-check runs: its LibTorch, its GPU, and how programs of the bundle are started there."""
import json
import os
import pathlib
import re
import subprocess

from report import Failure

FIND_TORCH = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
# Of a process of its own: a torch that cannot be imported is one line of the report.
TELL_VERSIONS = """
import json, torch
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                  "nccl": ".".join(map(str, torch.cuda.nccl.version()))}))
"""
# Of the job that this may run in, nothing concerns the programs.
FOREIGN = ("SLURM_", "PMIX_", "PMI_", "OMPI_", "ROLLCALL_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_RANK")


class Machine:
    def __init__(self, bundle, python):
        self.bundle, self.python = bundle.resolve(), python
        if not (self.bundle / "bundle.json").is_file():
            raise Failure(f"{bundle}: is not a bundle; try scripts/gpu-check bundle on a machine with a compiler")
        self.torch = pathlib.Path(output([python, "-c", FIND_TORCH], 60).strip() or "/nowhere")
        self.made = json.loads((self.bundle / "bundle.json").read_text())
        self.version = torch_version(self.torch)
        if not self.version.startswith(self.made["torch"] + "."):
            raise Failure(f"{python}: has LibTorch {self.version}, and the bundle was built for {self.made['torch']}; try --python, or "
                          f"scripts/gpu-check bundle --torch")
        # The plugin is believed only where nobody else may write; a copy may have other permissions than the original.
        subprocess.run(["chmod", "-R", "go-w", self.bundle], check=False, capture_output=True)

    def environment(self, **variables):
        """Libraries for one command only: what Python finds by itself must stay what it is."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        folders = [str(self.bundle / "lib"), str(self.torch / "lib"), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
        return {**own, "LD_LIBRARY_PATH": ":".join(filter(None, folders)), **variables}

    def run(self, program, *arguments, seconds=120, good=(0,), **variables):
        """stdout of a program of the bundle, which must end with one of the exit codes `good`."""
        return output([self.bundle / "bin" / program, *arguments], seconds, good, self.environment(**variables))

    def why_no_gpu(self):
        try:
            self.run("rollcall-train", "--dry-run", "--device=cuda", OMP_NUM_THREADS="1")
            return ""
        except (Failure, OSError, subprocess.SubprocessError) as error:
            return reason(str(error))

    def facts(self):
        """Versions; those that Python or the driver do not tell are left out."""
        facts = {"bundle": self.made, "libtorch": self.version, "cpus": os.cpu_count()}
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader"]
        for name, command in (("gpu", query), ("python", [self.python, "-c", TELL_VERSIONS])):
            try:
                text = output(command, 120).strip()
                facts[name] = json.loads(text) if name == "python" else text
            except (Failure, OSError, subprocess.SubprocessError, ValueError) as error:
                facts[name] = f"not told: {str(error)[-200:]}"
        return facts


def torch_version(folder):
    file = folder / "version.py"
    found = re.search(r"__version__ = '([^']+)'", file.read_text()) if file.is_file() else None
    return found.group(1) if found else "none"


def reason(error):
    """Of what a program of rollcall says: without the setting, and what to try."""
    told = re.search(r"rollcall: --device: cuda: (.*?)(; try |$)", error, re.M)
    return told.group(1) if told else error.splitlines()[-1]


def output(command, seconds, good=(0,), env=None):
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=seconds, env=env, check=False,
                              stdin=subprocess.DEVNULL)
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}; try naming another --python") from None
    if done.returncode not in good:
        told = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Failure(f"{pathlib.Path(command[0]).name}: exit code {done.returncode}: {' '.join(told[-3:])}")
    return done.stdout
