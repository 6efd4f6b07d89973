"""The records of a training that repeatedly lost a rank and resumed contain each step exactly once."""
import json
import random
import signal
import time

import pytest

import trainer_ranks

pytestmark = pytest.mark.python
STEPS, IMAGES_OF_STEP = 10, 32
# Steps of some tenths of a second: a rank that is killed once a save is told of has not done the next step, most times.
OPTIONS = ("--model=resnet20", "--image-size=32", "--batch-size=16", "--progress=none", "--data=fake", "--fake-size=1000",
           f"--max-steps={STEPS}", "--log-steps=100", "--valid-epochs=0", "--checkpoint-epochs=0", "--lr=0.001", "--train-num-workers=1",
           "--rank-seconds=0")


def lines(folder):
    """An unfinished last line is being written, or was truncated by a kill."""
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("}\n")] if path.exists() else []


def counted(records):
    """The valid step records: when a run resumes from a checkpoint, later ones are void."""
    steps = []
    for record in records:
        if record["event"] == "resume":
            steps = [step for step in steps if step["step"] <= record["global_step"]]
        steps += [record] if record["event"] == "step" else []
    return steps


def lose_rank_1_after_the_save_of(step, folder, *options):
    before = len(lines(folder))
    processes = trainer_ranks.start(folder, *OPTIONS, *options)
    while not any(record["event"] == "checkpoint" and record["step"] >= step for record in lines(folder)[before:]):
        assert processes[0].poll() is None, processes[0].communicate()
        time.sleep(0.001)
    processes[1].send_signal(signal.SIGKILL)
    for process in processes:
        process.communicate(timeout=240)
    assert [process.returncode for process in processes] == [69, -signal.SIGKILL]


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.long)])
def test_each_step_is_in_exactly_one_record_after_lost_ranks(tmp_path, mode):
    options = ("--checkpoint-steps=2", f"--checkpoint-mode={mode}", "--checkpoint-overlap=wait")
    for step in sorted(random.Random(3).sample(range(2, STEPS, 2), 2)):
        lose_rank_1_after_the_save_of(step, tmp_path, *options)
    trainer_ranks.run(tmp_path, *OPTIONS, *options)
    records = lines(tmp_path)
    assert len([record for record in records if record["event"] == "failed"]) == 2
    steps = counted(records)
    ends = [0, *(record["step"] for record in steps)]
    assert ends[-1] == STEPS and [record["steps"] for record in steps] == [end - begin for begin, end in zip(ends, ends[1:], strict=False)]
    assert [record["samples"] for record in steps] == [IMAGES_OF_STEP * record["steps"] for record in steps]
