#!/usr/bin/env python3
"""Interrupts one training again and again, each time in another way and at a random moment, and submits it again; N times.

The ways: a stop signal (USR1, TERM) before, in or after a step, a save or a validation; the job's time limit; a requeue, of a script
that says --resume=never too; SIGKILL; a second submission of the same script beside the first; a submission with a changed option; a
file system that stands still, and one that is full. After each, what was promised must be in the folder and verify, and the next
submission must go on from the newest checkpoint or refuse with a line that says why. In the end the training must have come to the
bits, the losses and the validations of one that nobody interrupted. Prints how often each way was taken and where it fell."""
import argparse
import collections
import importlib.util
import itertools
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

os.environ.setdefault("ROLLCALL_BUILD_DIR", str(pathlib.Path(__file__).parents[3] / "build" / "release"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import own_file_system
import trainer_ranks
from kill_trainings import DEADLINE, Wrong, failed_saves, inspect, left_behind, present, reported, records_of
from trainer_ranks import SMALL, records

INTERRUPTED, ENDED, LOST_PEER, LEASE_HELD, ANOTHER_TRAINING, NOT_SAVED = 75, 1, 69, 73, 76, 74
# An epoch has 8 steps and a validation; its checkpoint is 1.5 MiB.
OPTIONS = (*SMALL, "--optimizer=sgd", "--lr-schedule=none", "--momentum=0", "--lr=0.001", "--batch-size=4", "--fake-size=80", "--valid-epochs=1",
           "--epochs=1000000", "--log-steps=1", "--progress=none", "--checkpoint-steps=3", "--keep-last=3", "--seed=5",
           "--lease-timeout=0", "--checkpoint-retries=1", "--checkpoint-failures=2", "--collective-timeout=60")
CHECKPOINT = 3 << 19
STALL = 2  # seconds


class Campaign:
    def __init__(self, folder, room, parallel, seed):
        self.folder, self.room = folder, room
        self.options = (*OPTIONS, f"--parallel={parallel}", f"--checkpoint-dir={room.folder}", f"--run-dir={folder}")
        self.random = random.Random(seed)
        self.fell = collections.Counter()
        self.job = 1000
        self.environment = {}
        self.resume = ()
        self.last_start = 3.0

    # ------------------------------------------------------------ one submission

    def submit(self, *more, env=None):
        return trainer_ranks.start(self.folder, *self.options, *self.resume, *more, env={**self.environment, **(env or {})})

    def wait_for_steps(self, processes, count):
        """Until this submission has done so many steps; records of earlier ones do not count."""
        before, begun = len(records_of(self.folder, "step")), time.monotonic()
        while len(records_of(self.folder, "step")) < before + count:
            if any(process.poll() is not None for process in processes):
                raise Wrong("a run ended by itself:\n" + "".join("".join(process.communicate()) for process in processes))
            if time.monotonic() - begun > DEADLINE:
                raise Wrong(f"not {count} steps in {DEADLINE} s")
            time.sleep(0.005)
        if count == 1:
            self.last_start = time.monotonic() - begun

    def wait_for_a_random_moment(self, processes, start_too=True):
        """In the middle of starting, one time in ten; else up to a second after a few steps."""
        if start_too and self.random.random() < 0.1:
            time.sleep(self.random.random() * self.last_start)
            return "in the start"
        self.wait_for_steps(processes, self.random.randint(1, 12))
        time.sleep(self.random.random())
        saving = any(".tmp-" in name for name in os.listdir(self.room.folder))
        return "a save under way" if saving else "between saves"

    def reap(self, processes, codes, what):
        """`codes`: the accepted ones of rank 0 and of rank 1, in pairs."""
        output = []
        for process in processes:
            try:
                output.append("".join(process.communicate(timeout=DEADLINE)))
            except Exception as expired:
                raise Wrong(f"{what}: a rank still lives after {DEADLINE} s") from expired
        got = tuple(process.returncode for process in processes)
        if got not in codes:
            raise Wrong(f"{what}: exit codes {got} instead of one of {codes}:\n" + "".join(output))
        return "".join(output)

    # ------------------------------------------------------------ ways to interrupt; each returns the moment

    def stop(self, number, what):
        processes = self.submit()
        try:
            where = self.wait_for_a_random_moment(processes, start_too=False)
            for process in processes:
                process.send_signal(number)
            self.reap(processes, [(INTERRUPTED, 0)], what)
        finally:
            self.end(processes)
        self.saved_at_the_end(what)
        return where

    def usr1(self):
        return self.stop(signal.SIGUSR1, "USR1")

    def term(self):
        return self.stop(signal.SIGTERM, "TERM")

    def signal_in_the_start(self):
        """Before the first step no handler may be installed yet; the folder is unchanged, or has one step more."""
        processes = self.submit()
        try:
            time.sleep(self.random.random() * self.last_start)
            for process in processes:
                process.send_signal(signal.SIGTERM)
            ended = (-signal.SIGTERM, ENDED, LOST_PEER)  # before the program heard signals; before it trained; with such a peer
            accepted = [(INTERRUPTED, 0), *itertools.product(ended, ended)]
            self.reap(processes, accepted, "TERM in the start")
        finally:
            self.end(processes)
        return "in the start"

    def time_limit(self):
        seconds = self.random.randint(4, 9)
        processes = self.submit("--save-before-limit=60", env={"SLURM_JOB_END_TIME": str(int(time.time()) + 60 + seconds)})
        try:
            self.reap(processes, [(INTERRUPTED, 0)], "time limit")
        finally:
            self.end(processes)
        self.saved_at_the_end("time limit")
        return f"{seconds} s after the submission"

    def requeue(self):
        """Slurm ends the job, and starts it again under its number: it goes on, whatever --resume said of its first start."""
        self.job += 1
        job = {"SLURM_JOB_ID": str(self.job)}
        self.environment, self.resume = {**job, "SLURM_RESTART_COUNT": "0"}, ()
        where = self.stop(signal.SIGTERM, "requeue, first start")
        self.environment, self.resume = {**job, "SLURM_RESTART_COUNT": "1"}, (self.random.choice(["--resume=never", "--resume=auto"]),)
        newest = max(present(self.room.folder))
        resumed = len(records_of(self.folder, "resume"))
        try:
            self.stop(signal.SIGTERM, "requeue, second start")
        finally:
            self.environment, self.resume = {}, ()
        if [record["global_step"] for record in records_of(self.folder, "resume")[resumed:]] != [newest]:
            raise Wrong("a restarted job did not go on from its own checkpoint")
        return where

    def kill(self):
        processes = self.submit()
        victims = self.random.choice([[0], [1], [0, 1]])
        try:
            where = self.wait_for_a_random_moment(processes)
            for rank in victims:
                processes[rank].send_signal(signal.SIGKILL)
            wanted = tuple(-signal.SIGKILL if rank in victims else LOST_PEER for rank in range(2))
            self.reap(processes, [wanted], "KILL")
        finally:
            self.end(processes)
        return where

    def second_submission(self):
        """Is refused by the lease's line, and does no harm to the first."""
        first = self.submit()
        second = []
        try:
            where = self.wait_for_a_random_moment(first, start_too=False)
            second = self.submit(env={"ROLLCALL_RENDEZVOUS_FOLDER": self.other_rendezvous()})
            output = self.reap(second, [(LEASE_HELD, LEASE_HELD)], "a second submission")
            if output.count("rollcall: ") != 1 or "writes there" not in output:
                raise Wrong(f"a second submission was not refused by one line:\n{output}")
            self.wait_for_steps(first, 2)
            for process in first:
                process.send_signal(signal.SIGTERM)
            self.reap(first, [(INTERRUPTED, 0)], "beside a second submission")
        finally:
            self.end(first + second)
        self.saved_at_the_end("beside a second submission")
        return where

    def changed_option(self):
        """Is refused, each difference named; the folder is as it was."""
        option, text = self.random.choice([("--lr=0.002", "--lr was"), ("--seed=6", "--seed was"), ("--momentum=0.9", "--momentum was"),
                                           ("--batch-size=8", "--batch-size was"), ("--model=resnet18", "--model was")])
        before = {path.name: path.stat().st_mtime_ns for path in self.room.folder.glob("*.h5")}
        processes = self.submit(option)
        try:
            output = self.reap(processes, [(ANOTHER_TRAINING, ANOTHER_TRAINING)], f"with {option}")
        finally:
            self.end(processes)
        if text not in output or output.count("rollcall: ") != 1:
            raise Wrong(f"{option} was not refused by name:\n{output}")
        if {path.name: path.stat().st_mtime_ns for path in self.room.folder.glob("*.h5")} != before:
            raise Wrong(f"{option} was refused and changed the folder")
        return option

    def stalled_file_system(self):
        """Stands still at a random moment for a while: nothing fails. Then the run is stopped."""
        processes = self.submit()
        try:
            where = self.wait_for_a_random_moment(processes, start_too=False)
            self.room.freeze()
            time.sleep(STALL)  # the stall itself
            self.room.thaw()
            failed = len(failed_saves(self.folder))
            self.wait_for_steps(processes, 4)
            for process in processes:
                process.send_signal(signal.SIGTERM)
            self.reap(processes, [(INTERRUPTED, 0)], "after a stall")
        finally:
            self.end(processes)
        if len(failed_saves(self.folder)) != failed:
            raise Wrong("a save failed after a stall")
        self.saved_at_the_end("after a stall")
        return where

    def full_disk(self):
        """With no room for a checkpoint the run ends by itself after two failed saves; what was there stays."""
        processes = self.submit("--checkpoint-overlap=wait", "--checkpoint-steps=2")
        try:
            where = self.wait_for_a_random_moment(processes, start_too=False)
            with self.room.filled(CHECKPOINT // 3):
                output = self.reap(processes, [(NOT_SAVED, NOT_SAVED)], "on a full disk")
        finally:
            self.end(processes)
        if "was not written" not in output:
            raise Wrong(f"nothing was said of a full disk:\n{output}")
        return where

    # ------------------------------------------------------------ checks after each interruption

    def other_rendezvous(self):
        folder = self.folder / "second"
        folder.mkdir(exist_ok=True)
        return str(folder)

    @staticmethod
    def end(processes):
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def saved_at_the_end(self, what):
        """A run that was asked to stop has saved its last step."""
        last, newest = records_of(self.folder, "step")[-1]["step"], max(present(self.room.folder), default=0)
        if newest != last:
            raise Wrong(f"{what}: the last step was {last}, and the newest checkpoint is of step {newest}")

    def one_interruption(self, way):
        newest, resumed = max(present(self.room.folder), default=0), len(records_of(self.folder, "resume"))
        steps = len(records_of(self.folder, "step"))
        where = getattr(self, way)()
        inspect(self.room.folder, reported(self.folder))
        self.fell[f"{way.replace('_', ' ')}: {where}; left {left_behind(self.room.folder)}"] += 1
        first = [record["global_step"] for record in records_of(self.folder, "resume")[resumed:]][:1]
        trained = len(records_of(self.folder, "step")) > steps
        if newest and trained and first != [newest]:
            raise Wrong(f"{way}: the newest checkpoint was of step {newest}, and the run resumed from {first}")

    def ends_like_an_uninterrupted_run(self):
        """Two more steps; then compared with a run that nobody interrupted, step by step and bit by bit."""
        newest = max(present(self.room.folder), default=0)
        last = f"--max-steps={newest + 2}"
        trainer_ranks.finish(self.submit(last))
        straight = self.folder / "straight"
        # As long as all interrupted runs together, and on a machine that does something else besides.
        trainer_ranks.finish(trainer_ranks.start(straight, *self.options, f"--checkpoint-dir={straight}", f"--run-dir={straight}", last),
                             seconds=240 + newest)
        for event in ("step", "validation", "epoch"):
            straight_records = {record["step"]: record for record in records(straight, event)}
            for record in records(self.folder, event):  # of steps that were done twice, both times
                if event == "step":
                    record.pop("samples"), straight_records.get(record["step"], {}).pop("samples", None)
                if record["step"] in straight_records and record != straight_records[record["step"]]:
                    raise Wrong(f"{record} instead of {straight_records[record['step']]}")
            if missing := straight_records.keys() - {record["step"] for record in records(self.folder, event)}:
                raise Wrong(f"no {event} record of steps {sorted(missing)[:5]}")
        name = f"step-{newest + 2:08d}.h5"
        if differing := trainer_ranks.differences(self.room.folder / name, straight / name):
            raise Wrong(f"{name} differs from that of a run that was never interrupted: {differing[:5]}")
        return newest + 2


WAYS = ("usr1", "term", "signal_in_the_start", "time_limit", "requeue", "kill", "second_submission", "changed_option",
        "stalled_file_system", "full_disk")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--interruptions", type=int, default=len(WAYS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp")
    options = parser.parse_args()
    if importlib.util.find_spec("h5py") is None:
        print("skipped: no h5py, which compares the last checkpoints")
        sys.exit(5)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # takes its ranks with it
    with tempfile.TemporaryDirectory(prefix="interrupt-trainings-") as name:
        folder = pathlib.Path(name)
        (folder / "run").mkdir()
        try:
            with own_file_system.mounted(folder) as room:
                campaign = Campaign(folder / "run", room, options.parallel, options.seed)
                order = []
                for number in range(1, options.interruptions + 1):
                    order = order or campaign.random.sample(WAYS, len(WAYS))
                    way = "usr1" if number == 1 else order.pop()  # so that there is a checkpoint to refuse or to go on from
                    try:
                        campaign.one_interruption(way)
                    except Wrong as wrong:
                        sys.exit(f"seed {options.seed}, interruption {number}, {way}: {wrong}")
                try:
                    steps = campaign.ends_like_an_uninterrupted_run()
                except Wrong as wrong:
                    sys.exit(f"seed {options.seed}: {wrong}")
        except own_file_system.Refused as refused:
            print(f"skipped: {refused}")
            sys.exit(5)
    print(f"{options.interruptions} interruptions of a training by 2 ranks (seed {options.seed}, {options.parallel}): nothing that was promised "
          f"was lost; {steps} steps ended in the bits of a run that was not interrupted")
    for what, count in sorted(campaign.fell.items()):
        print(f"  {count:4} {what}")


if __name__ == "__main__":
    main()
