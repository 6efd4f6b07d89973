#!/usr/bin/env python3
"""Kills -9 a rank of a training that saves every step, or all its ranks, at a random moment, and starts it again; N times.

After each kill, every checkpoint that the run reported as written must be there, but for those that retention removed for newer ones, all
must verify, and the next start must go on from the newest. In the end the training must have come to the same bits as one that nobody killed.
Prints where the kills fell."""
import argparse
import collections
import importlib.util
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("ROLLCALL_BUILD_DIR", str(pathlib.Path(__file__).parents[3] / "build" / "release"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import trainer_ranks
from trainer_ranks import SMALL, checkpoints, records

TOOL = trainer_ranks.BUILD / "trainer" / "rollcall-checkpoint"
KEPT = 3
LOST_PEER = 69
# Kills are to come while a save is under way: a model of 43 MiB.
OPTIONS = (*SMALL, "--model=resnet18", "--optimizer=sgd", "--lr-schedule=none", "--momentum=0", "--lr=0.001", "--batch-size=2", "--fake-size=80",
           "--valid-epochs=0", "--checkpoint-epochs=0", "--epochs=1000000", "--log-steps=1", "--progress=none",
           "--collective-timeout=60")
# A survivor may wait 60 s for a rank that was killed before they met.
DEADLINE = 120


class Wrong(Exception):
    """A violated expectation."""


def records_of(folder, event):
    """Records of one kind. The last line of metrics.jsonl may be in the middle of being written, or cut off by a kill."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [record for record in (json.loads(line) for line in lines if line.endswith("}\n")) if record["event"] == event]


def reported(folder):
    """Steps whose checkpoints were reported as written."""
    return [record["step"] for record in records_of(folder, "checkpoint") if record["written"]]


def failed_saves(folder):
    """Steps whose checkpoints were reported as not written."""
    return [record["step"] for record in records_of(folder, "checkpoint") if not record["written"]]


def present(folder):
    return [int(path.name[5:13]) for path in checkpoints(folder)]


def tool(*arguments):
    done = subprocess.run([str(TOOL), *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def left_behind(folder):
    """States of the files that are no checkpoints, as `rollcall-checkpoint ls` names them."""
    code, out, errors = tool("ls", "--json", folder)
    if code != 0:
        raise Wrong(f"ls: {errors}")
    states = sorted({file["state"] for file in json.loads(out)["files"]} - {"committed"})
    return " and ".join(states) or "no other file"


def inspect(folder, steps):
    """All that was reported is there, or gave way to newer ones; all that is there verifies."""
    there = present(folder)
    for step in steps:
        if step not in there and sum(newer > step for newer in there) < KEPT:
            raise Wrong(f"step {step} was reported as written; there are {there}")
    if there:
        code, out, errors = tool("verify", folder)
        if code != 0:
            raise Wrong(f"verify: {out}{errors}")


def stacks_of(pid):
    """Where the threads of a process stand, for whoever looks for the cause."""
    try:
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"], capture_output=True, text=True, timeout=60,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no stacks: {error}"
    return done.stdout


class Campaign:
    def __init__(self, folder, parallel, seed):
        self.folder = folder
        self.options = (*OPTIONS, f"--parallel={parallel}", f"--keep-last={KEPT}")
        self.random = random.Random(seed)
        self.fell = collections.Counter()
        self.committed = self.unreported = self.early = 0
        self.start_seconds, self.save_seconds = [3.0], [0.3]

    def wait_for_saves(self, processes, count):
        """Until the run has reported so many saves more than when it was started."""
        before, begun = len(reported(self.folder)), time.monotonic()
        seen, seen_at = 0, begun
        while seen < count:
            if any(process.poll() is not None for process in processes):
                raise Wrong("a run ended by itself:\n" + "".join(process.communicate()[1] for process in processes))
            if time.monotonic() - begun > DEADLINE:
                raise Wrong(f"{seen} saves in {DEADLINE} s")
            time.sleep(0.005)
            now = len(reported(self.folder)) - before
            if now > seen:
                passed = time.monotonic() - seen_at
                (self.save_seconds if seen else self.start_seconds).append(passed / (now - seen))
                seen, seen_at = now, seen_at + passed

    def kill(self, processes):
        """At a random moment: of the start, one time in eight; else within the next two saves after some that succeeded."""
        saves = self.random.randint(0, 7)
        fraction, victims = self.random.random(), self.random.choice([[0], [1], [0, 1]])
        self.wait_for_saves(processes, saves)
        self.early += saves == 0
        time.sleep(fraction * (2 * statistics.median(self.save_seconds[-20:]) if saves else statistics.median(self.start_seconds[-20:])))
        for rank in victims:
            processes[rank].send_signal(signal.SIGKILL)
        saving = any(".tmp-" in name for name in os.listdir(self.folder))
        who = "all ranks" if len(victims) == 2 else f"rank {victims[0]}"
        return victims, f"{who}, {'a save under way' if saving else 'between saves'}"

    def reap(self, processes, victims):
        try:
            output = [process.communicate(timeout=DEADLINE) for process in processes]
        except subprocess.TimeoutExpired as expired:
            stacks = [stacks_of(process.pid) for process in processes if process.poll() is None]
            raise Wrong("\n".join([f"a rank still lives {DEADLINE} s after its peer was killed", *stacks])) from expired
        for rank, process in enumerate(processes):
            wanted = -signal.SIGKILL if rank in victims else LOST_PEER
            if process.returncode != wanted:
                raise Wrong(f"rank {rank} ended with {process.returncode} instead of {wanted}:\n{output[rank][1]}")

    def one_kill(self):
        newest, before = max(present(self.folder), default=0), reported(self.folder)
        resumed_before = records_of(self.folder, "resume")
        processes = trainer_ranks.start(self.folder, *self.options, "--checkpoint-steps=1",
                                        f"--checkpoint-overlap={self.random.choice(['skip', 'wait'])}")
        try:
            victims, moment = self.kill(processes)
            self.reap(processes, victims)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        steps = reported(self.folder)
        self.fell[f"{moment}: left {left_behind(self.folder)}"] += 1
        inspect(self.folder, steps)
        # A run that was killed early may not have come so far as to resume.
        resumed = [record["global_step"] for record in records_of(self.folder, "resume")[len(resumed_before):]]
        if resumed not in ([[newest]] if newest and len(steps) > len(before) else [[], [newest]]):
            raise Wrong(f"the newest checkpoint was of step {newest}, and the run resumed from {resumed}")
        self.committed += len(steps) - len(before)
        self.unreported += len(set(present(self.folder)) - set(steps) - {newest})

    def ends_like_an_uninterrupted_run(self):
        """Two more steps; compared with a run that nobody killed, step by step and bit by bit."""
        newest = max(present(self.folder), default=0)
        trainer_ranks.run(self.folder, *self.options, f"--max-steps={newest + 2}")
        straight = self.folder / "straight"
        trainer_ranks.run(straight, *self.options, f"--max-steps={newest + 2}")
        losses = {record["step"]: record["loss"] for record in records(straight, "step")}
        for record in records(self.folder, "step"):  # a run that was killed may have come further than its last checkpoint
            if record["step"] in losses and record["loss"] != losses[record["step"]]:
                raise Wrong(f"loss of step {record['step']}: {record['loss']}, never killed {losses[record['step']]}")
        name = f"step-{newest + 2:08d}.h5"
        differing = trainer_ranks.differences(self.folder / name, straight / name)
        if differing:
            raise Wrong(f"{name} differs from that of a run that was never killed: {differing[:5]}")
        return newest + 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--folder", type=pathlib.Path, help="on the file system to write to")
    options = parser.parse_args()
    if importlib.util.find_spec("h5py") is None:
        print("skipped: no h5py, which compares the last checkpoints")
        sys.exit(5)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # takes its ranks with it
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="kill-trainings-") as folder:
        campaign = Campaign(pathlib.Path(folder), options.parallel, options.seed)
        try:
            for kill in range(1, options.kills + 1):  # noqa: B007 (printed on failure)
                campaign.one_kill()
            steps = campaign.ends_like_an_uninterrupted_run()
        except Wrong as wrong:
            sys.exit(f"seed {options.seed}, kill {kill}: {wrong}")
    print(f"{options.kills} kills of a training by 2 ranks (seed {options.seed}, {options.parallel}): none of {campaign.committed} reported "
          f"checkpoints was lost, {campaign.unreported} unreported ones survived; {steps} steps ended in the bits of a run that was not killed")
    for what, count in sorted(campaign.fell.items()):
        print(f"  {count:4} {100 * count / options.kills:6.1f} %  {what}")
    print(f"  {campaign.early} during the start")


if __name__ == "__main__":
    main()
