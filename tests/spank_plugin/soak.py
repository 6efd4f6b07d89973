#!/usr/bin/env python3
"""Thousands of steps on a throwaway cluster, many at once, while jobs are cancelled, name servers do not answer and slurmds are killed.
Exits with 1 if a step hangs, a rank joins the world of another step, a node becomes unusable, or processes or files are left over."""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from minicluster import SLURM, SOURCE, Minicluster, clean_environment, missing_program, processes_of
from test_what_hangs import stand_in

NODES, CPUS = 6, 16
LAUNCH_ABORTED = "aborted before step completely launched"
HUNG = 180  # seconds: all that a step waits for ends before
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", SOURCE / "build" / "release"))


@dataclasses.dataclass(frozen=True)
class Step:
    """One srun: `worlds` are the sizes of those that its ranks meet in; none where it is to end with `code` instead."""
    number: int
    kind: str
    options: tuple
    worlds: tuple
    code: int = 0
    launch: tuple = ("--ddp",)
    prefix: tuple = ()  # of the program
    environment: tuple = ()  # pairs
    further: tuple = ()  # options of the second component of a het step
    cancelled_after: float | None = None


@dataclasses.dataclass
class Run:
    step: Step
    began: float = 0
    ended: float = 0
    code: int | None = None  # none: hung
    errors: str = ""
    met: list = dataclasses.field(default_factory=list)


# ---------------------------------------------------------------- what is run


def shape(rng):
    """Options of srun, and the number of tasks."""
    nodes, per_node = rng.randint(1, NODES), rng.choice([1, 1, 2, 3, 4])
    how = rng.choice(["block", "cyclic", "tasks", "arbitrary", "plane"])
    if how == "tasks":
        return ("-n", str(nodes * per_node)), nodes * per_node
    if how == "arbitrary":
        hosts = [f"jwb{rng.randint(1, NODES):04}" for _ in range(rng.randint(1, 8))]
        return ("-m", "arbitrary", "-n", str(len(hosts)), "-w", ",".join(hosts)), len(hosts)
    distribution = {"block": "block", "cyclic": "cyclic", "plane": "plane=2"}[how]
    return ("-N", str(nodes), "-n", str(nodes * per_node), "--ntasks-per-node", str(per_node), "-m", distribution), nodes * per_node


def make_step(rng, number, rollcall, folder):
    """Any kind of step of any shape; cancelled at some moment, or not."""
    options, tasks = shape(rng)
    kinds = {"plugin": 8, "pmix": 2, "exec": 3, "exec over pmix": 2, "exec inside": 2, "file": 2, "het": 2, "silent name server": 1}
    kind = rng.choices(list(kinds), list(kinds.values()))[0]
    step = Step(number, kind, options, (tasks,), cancelled_after=rng.uniform(0, 1.5) if rng.random() < 0.08 else None)
    in_front = (str(rollcall), "exec", "--")
    if "arbitrary" in options and kind.startswith("exec"):  # only slurmctld knows rank 0's node: the plugin asks it
        kind = "exec inside"
    if kind == "pmix":
        return dataclasses.replace(step, kind=kind, launch=("--ddp", "--mpi=pmix"))
    if kind == "exec":
        return dataclasses.replace(step, kind=kind, launch=(), prefix=in_front)
    if kind == "exec over pmix":
        return dataclasses.replace(step, kind=kind, launch=("--mpi=pmix",), prefix=in_front)
    if kind == "exec inside":
        return dataclasses.replace(step, kind=kind, prefix=in_front)
    if kind == "file":
        return dataclasses.replace(step, environment=(("ROLLCALL_RENDEZVOUS", "file"), ("ROLLCALL_RENDEZVOUS_FOLDER", str(folder))))
    if kind == "het":
        first, second = rng.randint(1, 3), rng.randint(1, 4)
        return dataclasses.replace(step, options=("-n", str(first)), further=("-n", str(second)), worlds=(first + second,))
    if kind == "silent name server":
        return dataclasses.replace(step, launch=("--ddp=host.template=hangs-{host},task.timeout=2",), worlds=(), code=69)
    return step


# ---------------------------------------------------------------- running it


class Soak:
    def __init__(self, cluster, library, program, folder):
        self.cluster, self.program, self.folder = cluster, program, folder
        self.daemon_environment = {**clean_environment(), "LD_PRELOAD": str(library)}
        self.troubles = []  # (from, until) of what was done to a slurmd
        self.over = threading.Event()

    def command(self, step, place):
        program = [*step.prefix, str(self.program), str(place)]
        command = ["srun", *step.launch, f"--job-name=soak-{step.number}", *step.options, *program]
        return command + [":", *step.further, *program] if step.further else command

    def run(self, step):
        if self.over.is_set():
            return None
        run = Run(step, began=time.monotonic())
        place = self.folder / str(step.number)
        place.mkdir()
        full = [str(self.cluster.program), f"--dir={self.cluster.folder}", "run", *self.command(step, place)]
        process = subprocess.Popen(full, env={**clean_environment(), **dict(step.environment), "ROLLCALL_RENDEZVOUS_TIMEOUT": "60"},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/tmp")
        if step.cancelled_after is not None:
            time.sleep(step.cancelled_after)
            self.cancel(step)
        try:
            run.errors = process.communicate(timeout=HUNG)[1]
            run.code = process.returncode
        except subprocess.TimeoutExpired:
            self.cancel(step)
            process.kill()
            run.errors = process.communicate()[1]
        run.ended = time.monotonic()
        run.met = [file.read_text().split() for file in place.glob("*.met")]
        return run

    def cancel(self, step):
        self.cluster.run("scancel", f"--name=soak-{step.number}", check=False)

    def make_trouble(self, rng):
        """A slurmd after the other ends, in good order or not, and comes back."""
        while not self.over.wait(rng.uniform(4, 12)):
            node = f"jwb{rng.randint(1, NODES):04}"
            began = time.monotonic()
            if rng.random() < 0.5:
                os.kill(int((self.cluster.folder / "run" / f"slurmd.{node}.pid").read_text()), signal.SIGKILL)
                self.over.wait(rng.uniform(0, 2))
            # On a busy machine it may not be up within the time that the script gives it; what is left at the end tells.
            self.cluster.script("restart-node", node, env=self.daemon_environment, check=False)
            self.troubles.append((began, time.monotonic()))

    def met_trouble(self, run):
        return any(began < run.ended and run.began < ended for began, ended in self.troubles)


# ---------------------------------------------------------------- judging it


def worlds_of(run):
    """The ranks that say the same of their world, by that."""
    worlds = collections.defaultdict(list)
    for rank, size, *world in run.met:
        worlds[(*world, int(size))].append(int(rank))
    return worlds


def what_is_wrong(run, excused):
    """Lines about one step. `excused`: it was cancelled, or a slurmd of its time ended: it may fail, but nothing else."""
    worlds = worlds_of(run)
    wrong = [f"ranks met in {len(worlds)} worlds: {sorted(worlds)}"] if len(worlds) > max(1, len(run.step.worlds)) else []
    wrong += [f"ranks {sorted(ranks)} of {size}" for (*_, size), ranks in worlds.items()
              if len(set(ranks)) != len(ranks) or max(ranks) >= size or size not in run.step.worlds]
    if run.code is None:
        wrong.append(f"did not end within {HUNG} s")
    elif not excused and run.code != run.step.code:
        wrong.append(f"exit code {run.code} instead of {run.step.code}")
    elif excused and LAUNCH_ABORTED in run.errors:
        pass  # srun of Slurm 22.05 ends with 0 where a slurmd died before any task was there
    elif run.code == 0 and run.step.worlds and sorted(len(ranks) for ranks in worlds.values()) != sorted(run.step.worlds):
        wrong.append(f"{len(run.met)} ranks met instead of {run.step.worlds}")
    return wrong


def names_met_twice(runs):
    """A world is one step's: two that say the same name and nonce took ranks from each other."""
    steps = collections.defaultdict(set)
    for run in runs:
        for name, *_ in worlds_of(run):
            steps[name].add(run.step.number)
    return [f"world {name} was met by steps {sorted(numbers)}" for name, numbers in steps.items() if len(numbers) > 1]


def files_of(cluster, shared):
    """What steps may leave behind on nodes, Slurm's and rollcall's; not slurmd's own records."""
    folders = [cluster.folder / "tmp", cluster.folder / "spool", pathlib.Path("/dev/shm"), shared]
    return {str(path) for folder in folders for path in folder.rglob("*") if not path.name.startswith("cred_state")}


def is_daemon(pid, cluster):
    """One of the cluster's own, or a child that it has all its life."""
    daemons = {path.read_text().strip() for path in (cluster.folder / "run").glob("*.pid")}
    return pid in daemons or "slurmscriptd" in name_of(pid)


def what_is_left(cluster, shared, before):
    """Nodes that do not get idle, jobs, processes and files after the last step."""
    deadline = time.monotonic() + 90
    while True:
        nodes = cluster.run("sinfo", "-h", "-N", "-o", "%N %T %E").stdout.splitlines()
        bad = [line for line in nodes if line.split()[1] != "idle"]
        jobs = cluster.run("squeue", "-h", "-o", "job %i is %T").stdout.splitlines()
        strays = [f"process {pid}: {name_of(pid)}" for pid in processes_of(cluster.folder) if not is_daemon(pid, cluster)]
        files = sorted(path for path in files_of(cluster, shared) - before if os.path.exists(path))
        if not (bad or jobs or strays or files) or time.monotonic() > deadline:
            return bad + jobs + strays + files
        time.sleep(0.5)


def why_it_may_stay(cluster, line, runs, excused):
    """What a step that was ended from outside may leave behind; nothing for all else."""
    job = re.search(r"(?<!\d)(\d+)(\.0|-0-0)\b", line)
    told = cluster.run("scontrol", "show", "job", job[1], check=False).stdout if job else ""
    name = re.search(r"JobName=soak-(\d+)", told)
    run = next((run for run in runs if name and run.step.number == int(name[1]) and excused(run)), None)
    if run and line.endswith(".endpoint"):
        return "the file of a rank 0 that was killed"
    # The server part of OpenPMIx 4.2 can hang in PMIx_server_finalize where a client was killed in PMIx_Init. No part of
    # rollcall runs in that process then.
    if run and "--mpi=pmix" in run.step.launch:
        return "slurmstepd's PMIx server hangs"
    return None


def name_of(pid):
    try:
        return pathlib.Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100]
    except OSError:
        return "gone"


def report(runs, soak, seconds, wrong):
    by_kind = collections.defaultdict(list)
    for run in runs:
        by_kind[run.step.kind].append(run)
    print(f"{len(runs)} steps in {seconds:.0f} s, {len(soak.troubles)} slurmds ended, "
          f"{sum(run.step.cancelled_after is not None for run in runs)} steps cancelled, {sum(len(run.met) for run in runs)} ranks met")
    for kind, of_kind in sorted(by_kind.items()):
        times = sorted(run.ended - run.began for run in of_kind)
        codes = collections.Counter("hung" if run.code is None else run.code for run in of_kind)
        print(f"  {kind:20} {len(of_kind):5} steps, median {statistics.median(times):6.2f} s, longest {times[-1]:6.2f} s, exit codes "
              + ", ".join(f"{code}: {count}" for code, count in codes.most_common()))
    print("\n".join(wrong) if wrong else "nothing is wrong")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="how many sruns")
    parser.add_argument("--at-once", type=int, default=20, help="how many of them run at once")
    parser.add_argument("--minutes", type=float, default=60, help="no step is started later")
    parser.add_argument("--seed", type=int, default=1, help="of the steps and of what is done to them")
    return parser.parse_args()


def soak(cluster, library, options, folder):
    folder.chmod(0o777)
    shared = folder / "endpoints"
    shared.mkdir()
    rng = random.Random(options.seed)
    steps = [make_step(rng, number, BUILD / "runtime" / "rollcall", shared) for number in range(options.steps)]
    made = Soak(cluster, library, BUILD / "tests" / "meet_in_step", folder)
    cluster.run("srun", "--ddp", f"-N{NODES}", "true")
    before = files_of(cluster, shared)
    trouble = threading.Thread(target=made.make_trouble, args=(rng,))
    clock = threading.Timer(options.minutes * 60, made.over.set)
    began = time.monotonic()
    trouble.start()
    clock.start()
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        runs = [run for run in pool.map(made.run, steps) if run]
    made.over.set()
    clock.cancel()
    trouble.join()
    seconds = time.monotonic() - began

    def excused(run):
        return run.step.cancelled_after is not None or made.met_trouble(run)

    wrong = names_met_twice(runs)
    for run in runs:
        wrong += [f"step {run.step.number} ({run.step.kind}): {line}\n    {' '.join(made.command(run.step, ''))}\n    {run.errors.strip()}"
                  for line in what_is_wrong(run, excused(run))]
    left = what_is_left(cluster, shared, before)
    reasons = {line: why_it_may_stay(cluster, line, runs, excused) for line in left}
    wrong += [f"left over: {line}" for line, reason in reasons.items() if reason is None]
    report(runs, made, seconds, wrong)
    for line in (line for line in left if reasons[line]):
        print(f"left over ({reasons[line]}): {line}")
    return not wrong


def main():
    options = arguments()
    missing = missing_program()
    if missing:
        print(f"soak: skipped: {missing} is not installed")
        return 5
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        library = stand_in(folder)
        plugin = BUILD / "spank_plugin" / SLURM / "spank_rollcall.so"
        # What is left over at the end is judged by what slurmctld then says of its job, which it else forgets after ten minutes.
        cluster = Minicluster(folder / "c", f"--nodes={NODES}", f"--cpus={CPUS}", f"--plugin={plugin}", "--conf=MinJobAge=86400")
        cluster.script(*cluster.slurm, *cluster.options, "start", env={**clean_environment(), "LD_PRELOAD": str(library)})
        try:
            (folder / "met").mkdir()
            return 0 if soak(cluster, library, options, folder / "met") else 1
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
