"""Non-finite numbers: the step is skipped, a diverged model is reported, and neither replaces a good checkpoint."""
import json

import pytest
import small_trainings
import trainer_ranks

pytestmark = pytest.mark.python
h5py = pytest.importorskip("h5py")

SETTINGS = {**small_trainings.SMALL, "optimizer": "sgd", "epochs": 2, "log-steps": 1, "data": "fake", "fake-size": 60, "valid-epochs": 0,
            "checkpoint-steps": 1, "checkpoint-mode": "sync", "keep-last": 9, "num-classes": 10}
LARGE = {"model": "resnet18"}  # where numbers are so large that they overflow on the way back, and not on the way forward


def options(**changes):
    return small_trainings.options({**SETTINGS, **changes})


def errors(text):
    return [line for line in text.splitlines() if line.strip().startswith("rollcall: ") and "warning" not in line]


def weight(path):
    with h5py.File(path) as file:
        return file["model/conv1/weight"][()]


def make_gradients_overflow(path):
    """One large weight of the last layer, and a batch norm that divides by almost nothing: the loss stays finite."""
    with h5py.File(path, "r+") as file:
        file["model/fc/weight"][0, 0] = 1e38
        small = file["model/layer4/1/conv2/weight"]
        small[...] = small[()] * 1e-8


@pytest.mark.parametrize("ranks, parallel", [(1, "ddp"), pytest.param(2, "ddp", marks=pytest.mark.long), (2, "fsdp")])
def test_non_finite_gradients_skip_steps_and_end_the_run_at_the_limit(tmp_path, ranks, parallel):
    given = options(parallel=parallel, **LARGE)
    trainer_ranks.run(tmp_path, *given, "--max-steps=1", ranks=ranks)
    first = trainer_ranks.checkpoints(tmp_path)[-1]
    make_gradients_overflow(first)
    text = trainer_ranks.run(tmp_path, *given, "--verify=metadata", "--max-skipped-steps=2", ranks=ranks, code=65)
    assert text.count("gradients are not finite (in ") == 2 and len(errors(text)) == 1
    assert "not finite in 2 steps in a row, up to step 3" in errors(text)[0]
    assert [record["skipped_steps"] for record in trainer_ranks.records(tmp_path, "skipped_step")] == [1, 2]
    # The step that was left out was saved, as it was the first of the two: with the weights of before.
    saved = trainer_ranks.checkpoints(tmp_path)
    assert [path.name for path in saved] == ["step-00000001.h5", "step-00000002.h5"]
    assert (weight(saved[0]) == weight(saved[1])).all()


def test_max_skipped_steps_of_zero_allows_any_number(tmp_path):
    given = options(**LARGE, **{"checkpoint-steps": 0})
    trainer_ranks.run(tmp_path, *given, "--max-steps=1", ranks=1)
    make_gradients_overflow(trainer_ranks.checkpoints(tmp_path)[-1])
    text = trainer_ranks.run(tmp_path, *given, "--verify=metadata", "--max-skipped-steps=0", "--max-steps=3", ranks=1)
    assert "skipped steps so far: 2" in text


def test_a_diverged_model_is_an_error_and_not_a_result(tmp_path):
    """The loss of the last step precedes its update: validation detects the divergence, and the previous file stays."""
    given = options(**{"valid-epochs": 1, "keep-last": 1, "keep-best": 0, "checkpoint-steps": 0})
    trainer_ranks.run(tmp_path, *given, "--max-steps=1", ranks=1)
    text = trainer_ranks.run(tmp_path, *given, "--lr=1e6", "--resume=continue-with-changes", "--max-steps=2", ranks=1, code=65)
    assert "is not finite after step 2: the model has diverged" in errors(text)[0] and "finished" not in text
    assert [path.name for path in trainer_ranks.checkpoints(tmp_path)] == ["step-00000001.h5", "step-00000002.h5"]
    assert "end" not in [json.loads(line)["event"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()[-2:]]


def test_non_finite_weights_are_not_saved(tmp_path):
    """Loss and gradients are finite, and the step is not."""
    given = options(**LARGE)
    trainer_ranks.run(tmp_path, *given, "--max-steps=1", ranks=1)
    with h5py.File(trainer_ranks.checkpoints(tmp_path)[-1], "r+") as file:
        file["model/fc/weight"][0, 0] = 1e36
    text = trainer_ranks.run(tmp_path, *given, "--verify=metadata", "--lr=1000", "--weight-decay=1000", "--resume=continue-with-changes",
                             ranks=1, code=65)
    assert "conv1.weight: is not finite after step 2, so no checkpoint of this step was written" in errors(text)[0]
    assert [path.name for path in trainer_ranks.checkpoints(tmp_path)] == ["step-00000001.h5"]


@pytest.mark.parametrize("ranks, parallel", [(1, "ddp"), pytest.param(2, "ddp", marks=pytest.mark.long), (2, "fsdp")])
@pytest.mark.parametrize("name, told", [("optimizer/state/{}/exp_avg_sq", "optimizer/state/fc.weight/exp_avg_sq"),
                                        ("model/layer3/2/bn2/running_var", "layer3.2.bn2.running_var")])
def test_non_finite_moments_and_statistics_are_not_saved(tmp_path, name, told, ranks, parallel):
    """An infinite moment does not show in the loss: its weight is never changed again."""
    given = options(optimizer="adamw", parallel=parallel)
    trainer_ranks.run(tmp_path, *given, "--max-steps=1", ranks=ranks)
    with h5py.File(trainer_ranks.checkpoints(tmp_path)[-1], "r+") as file:
        key = next(key for key in ("fc.weight", "fc/weight") if f"optimizer/state/{key}" in file)
        file[name.format(key)][...] = float("inf")
    text = trainer_ranks.run(tmp_path, *given, "--verify=metadata", ranks=ranks, code=65)
    line = errors(text)[0]
    assert f"{told}: is not finite after step 2, so no checkpoint" in line or (ranks > 1 and "in another rank's part" in line)
    assert [path.name for path in trainer_ranks.checkpoints(tmp_path)] == ["step-00000001.h5"]


def test_resuming_a_diverged_model_advises_an_earlier_checkpoint(tmp_path):
    trainer_ranks.run(tmp_path, *options(), "--max-steps=2", ranks=1)
    with h5py.File(trainer_ranks.checkpoints(tmp_path)[-1], "r+") as file:
        file["model/fc/weight"][0, :] = 1e38
    text = trainer_ranks.run(tmp_path, *options(), "--verify=metadata", ranks=1, code=65)
    assert "--resume=FILE with a checkpoint from before the one that this run resumed from" in errors(text)[0]


def test_before_the_first_checkpoint_nothing_advises_to_resume(tmp_path):
    given = options(**LARGE)
    trainer_ranks.run(tmp_path / "first", *given, "--max-steps=1", ranks=1)
    weights = trainer_ranks.checkpoints(tmp_path / "first")[-1]
    with h5py.File(weights, "r+") as file:
        file["model/fc/weight"][0, 0] = 1e36
    text = trainer_ranks.run(tmp_path / "second", *given, f"--init-from={weights}", "--verify=metadata", "--lr=1000",
                             "--weight-decay=1000", ranks=1, code=65)
    assert ("is not finite after step 1, so no checkpoint of this step was written, and there is no checkpoint yet; "
            "try lowering --lr, or --warmup-epochs=1 (rank 0 on ") in errors(text)[0]
    assert not trainer_ranks.checkpoints(tmp_path / "second")
