"""Checkpoints on a file system that stalls for a while, as Lustre does at a server failover: frozen with FIFREEZE."""
import contextlib
import pathlib
import signal
import time

import own_file_system
import pytest

import trainer_ranks
from trainer_ranks import SMALL, records

pytestmark = [pytest.mark.python, pytest.mark.long]

STALL = 6  # seconds
SHORT = 2  # what a time-out takes that is to pass in a stall
EVERY = 10  # steps from one save to the next


@pytest.fixture(name="room")
def fixture_room(tmp_path):
    with contextlib.ExitStack() as stack:
        try:
            room = stack.enter_context(own_file_system.mounted(tmp_path))
        except own_file_system.Refused as refused:
            pytest.skip(str(refused))
        yield room


def wait_for(condition, processes, what):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, what
        assert all(process.poll() is None for process in processes), trainer_ranks.finish(processes)
        time.sleep(0.02)


def written(run):
    return [record["written"] for record in records(run, "checkpoint")] if (run / "metrics.jsonl").exists() else []


def send(processes, number):
    for process in processes:
        process.send_signal(number)


def is_stopped(process):
    return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def freeze_between_saves(room, processes, run):
    """In the midst of a save every rank may stand still in a write of its own, and none of them waits for another. So the
    ranks are stopped to find out where they are."""
    def is_between():
        steps = len(records(run, "step"))
        return steps % EVERY in range(EVERY // 4, EVERY // 2) and records(run, "checkpoint")[-1]["step"] == steps - steps % EVERY

    while True:
        wait_for(is_between, processes, "no moment between two saves")
        send(processes, signal.SIGSTOP)
        try:
            wait_for(lambda: all(map(is_stopped, processes)), processes, "a rank goes on")
            if is_between():
                room.freeze()
                return
        finally:
            send(processes, signal.SIGCONT)


def train_through_a_stall(tmp_path, room, *options):
    """What is printed by two ranks whose file system stands still after their first save, and the numbers of steps at its begin and end."""
    run = tmp_path / "run"
    processes = trainer_ranks.start(run, *SMALL, "--optimizer=sgd", "--lr-schedule=none", "--momentum=0", "--fake-size=80", "--valid-epochs=0",
                                    "--checkpoint-epochs=0", f"--checkpoint-steps={EVERY}", "--epochs=100000", "--log-steps=1",
                                    "--lr=0.001", "--keep-last=2", f"--checkpoint-dir={room.folder}", f"--run-dir={run}", *options)
    try:
        wait_for(lambda: len(written(run)) >= 1, processes, "nothing was saved")
        freeze_between_saves(room, processes, run)
        begin = len(records(run, "step"))
        time.sleep(STALL)  # the stall itself
        end = len(records(run, "step"))
        saves = len(written(run))
        room.thaw()
        wait_for(lambda: sum(written(run)[saves:]) >= 2, processes, "nothing was saved after the stall")
        send(processes, signal.SIGTERM)
        return trainer_ranks.finish(processes, code=75), (begin, end), run
    finally:
        for process in processes:
            process.kill()


@pytest.mark.parametrize("overlap", ["skip", "wait"])
def test_a_stall_longer_than_the_collective_timeout_loses_no_save(tmp_path, room, overlap):
    output, (begin, end), run = train_through_a_stall(tmp_path, room, f"--collective-timeout={SHORT}", f"--checkpoint-overlap={overlap}")
    assert "was not written" not in output and all(written(run))
    if overlap == "skip":
        assert end > begin + EVERY + 5, "training waited for a save in the background"


def test_a_synchronous_save_outlasts_the_stall(tmp_path, room):
    output, _, run = train_through_a_stall(tmp_path, room, f"--collective-timeout={SHORT}", "--checkpoint-mode=sync")
    assert "was not written" not in output and all(written(run))


def test_saves_continue_after_one_exceeded_the_checkpoint_timeout(tmp_path, room):
    output, _, run = train_through_a_stall(tmp_path, room, f"--checkpoint-timeout={SHORT}", "--checkpoint-retries=0")
    assert written(run).count(False) == 1, output
    assert output.count("was not written") == 1 and "raising --checkpoint-timeout" in output
