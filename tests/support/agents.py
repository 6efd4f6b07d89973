"""Runs of `rollcall run` and torchrun for tests of several folders."""
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).parents[2]
ROLLCALL = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build/release")) / "runtime/rollcall"
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


def wait_until(holds):
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def wait_for_words(agent, words):
    """Until its standard error holds them. Returns what it holds."""
    os.set_blocking(agent.stderr.fileno(), False)
    said = b""

    def holds():
        nonlocal said
        with contextlib.suppress(BlockingIOError):
            said += os.read(agent.stderr.fileno(), 1 << 16)
        return words in said.decode()
    wait_until(holds)
    os.set_blocking(agent.stderr.fileno(), True)
    return said.decode()


def free_port():
    """Below the ephemeral ports, so that no connection takes it before its agent does. Tests of this user get it in turn."""
    with open(pathlib.Path.home() / ".cache" / "rollcall-next-port", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        last = int(file.read() or 0)
        for turn in range(last + 1, last + 2500):
            with contextlib.suppress(OSError), socket.socket() as listener:
                listener.bind(("127.0.0.1", 30000 + turn % 2500))
                file.truncate(0)
                file.write(str(turn))
                return 30000 + turn % 2500
    raise AssertionError("no port of 30000 to 32499 is free")


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


# Each worker notes what it was told, then works until the file `go` is there.
WORK = """
    import json, os, sys, time
    folder = os.path.dirname(__file__)
    name = ".".join(os.environ[key] for key in ("ROLLCALL_GENERATION", "RANK"))
    told = {key: os.environ[key] for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR",
                                             "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "ROLLCALL_RUN")}
    with open(os.path.join(folder, name + ".part"), "w") as file:
        json.dump({**told, "pid": os.getpid(), "agent": os.getppid()}, file)
    os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name + ".json"))
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
"""


class Nodes:
    """Agents of one run, all on this host."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.work = folder / "work.py"
        self.work.write_text(textwrap.dedent(WORK))
        self.options = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-id=test", *options]
        self.agents = []

    def start(self, *options):
        self.agents.append(start(*self.options, *options, self.work))
        return self.agents[-1]

    def generation(self, number, size):
        """What the workers of a generation were told, by rank, once all have started."""
        files = [self.folder / f"{number}.{rank}.json" for rank in range(size)]
        end = time.monotonic() + DEADLINE
        while not all(file.exists() for file in files):
            assert time.monotonic() < end, [agent.poll() for agent in self.agents]
            time.sleep(0.01)
        told = [json.loads(file.read_text()) for file in files]
        assert [(int(t["RANK"]), int(t["WORLD_SIZE"])) for t in told] == [(rank, size) for rank in range(size)]
        assert len({(t["MASTER_ADDR"], t["MASTER_PORT"]) for t in told}) == 1
        return told

    def finish(self):
        (self.folder / "go").write_text("")
        return [agent.wait(timeout=DEADLINE) for agent in self.agents]

    def close(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGCONT)
                agent.kill()
            agent.communicate()
