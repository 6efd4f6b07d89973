"""--global-batch: the same steps on any number of ranks, and another number is another training."""
import json

import pytest
import trainer_ranks

pytestmark = pytest.mark.python

OPTIONS = ("--data=fake", "--model=resnet20", "--image-size=32", "--fake-size=200", "--optimizer=sgd", "--lr-schedule=none", "--lr=0.01",
           "--valid-epochs=0", "--log-steps=1",
           "--global-batch=16", "--batch-size=8", "--lr-schedule=linear")


def records(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(record["step"], record["learning_rate"]) for record in lines if record["event"] == "step"]


def test_a_training_continues_with_the_same_steps_on_another_number_of_ranks(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--epochs=1", "--max-steps=4", ranks=2)
    whole = records(tmp_path)
    resumed = tmp_path / "resumed"
    trainer_ranks.run(resumed, *OPTIONS, "--epochs=1", "--max-steps=4", "--checkpoint-steps=2", "--keep-last=9", ranks=2)
    for later in resumed.glob("step-0000000[34].h5"):
        later.unlink()
    printed = trainer_ranks.run(resumed, *OPTIONS, "--epochs=1", "--max-steps=4", ranks=1)
    assert "a step keeps its 16 images from 2 ranks (--grad-accumulation=2)" in printed
    assert records(resumed)[-2:] == whole[-2:]  # the rate of a step does not depend on the number of ranks


def test_another_global_batch_is_another_training(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    printed = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", "--global-batch=32", ranks=1, code=76)
    assert "--global-batch was 16 and is 32" in printed


def test_another_micro_batch_on_as_many_ranks_is_another_training(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    printed = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", "--batch-size=4", ranks=1, code=76)
    assert "--batch-size was 8 and is 4" in printed


def test_adding_the_option_on_resume_is_named_as_such(tmp_path):
    without = [option for option in OPTIONS if not option.startswith("--global-batch")]
    trainer_ranks.run(tmp_path, *without, "--max-steps=1", ranks=1)
    printed = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1, code=76)
    assert "--global-batch was 0 and is 16" in printed and "--lr-scaling" not in printed


def test_a_global_batch_above_the_training_set_names_the_largest(tmp_path):
    printed = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", "--global-batch=1000", ranks=1, code=64)
    assert "rollcall: --global-batch: 1000: is more than the 170 images of the training set; try --global-batch=170" in printed


def test_what_cannot_be_divided_is_refused_once_with_the_nearest_that_can(tmp_path):
    printed = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", "--global-batch=15", ranks=2, code=64)
    assert printed.count("rollcall: --global-batch: 15: cannot be divided among 2 ranks into micro-batches of at most 8 images; "
                         "try --global-batch=14, or using another number of ranks") == 1
