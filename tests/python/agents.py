"""Runs of `rollcall run` and torchrun for the tests beside."""
import os
import pathlib
import socket
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).parents[2]
ROLLCALL = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build/dev")) / "runtime/rollcall"
DEADLINE = 120  # seconds: for a machine that does much else


def environment(**more):
    """This process's own, without what an enclosing launcher said."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "TORCHELASTIC_", "SLURM_", "OMP_NUM"))}
    return {**kept, "PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1", **more}


STARTED = []


def start(*arguments, env=None, **popen):
    """One agent, in the background."""
    STARTED.append(subprocess.Popen([ROLLCALL, "run", *map(str, arguments)], env=environment(**(env or {})), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen))
    return STARTED[-1]


def end_all():
    """What a test that failed left behind; workers die with their agent."""
    while STARTED:
        agent = STARTED.pop()
        if agent.poll() is None:
            agent.kill()
            agent.communicate()


def run(*arguments, env=None, **popen):
    """One agent to its end; what it and its workers wrote is in stdout and stderr."""
    return subprocess.run([ROLLCALL, "run", *map(str, arguments)], env=environment(**(env or {})), text=True,
                          capture_output=True, timeout=DEADLINE, **popen)


def torchrun(*arguments, env=None, **popen):
    return subprocess.run([sys.executable, "-m", "torch.distributed.run", *map(str, arguments)], env=environment(**(env or {})),
                          text=True, capture_output=True, timeout=DEADLINE, **popen)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def living_in_sessions_with(text):
    """Processes whose command line holds `text`."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if text in (folder / "cmdline").read_text() and "Z" != (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def script(folder, text, name="work.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def lines(text):
    return [line for line in text.splitlines() if line]
