"""--ema in what a training leaves: the best checkpoint, exports, starts from it, and resumes with and without it.

Its numbers are compared with torch's AveragedModel in test_training_parity.py."""
import subprocess

import pytest
import trainer_ranks
from trainer_ranks import SMALL, records

pytestmark = pytest.mark.python
h5py = pytest.importorskip("h5py")

OPTIONS = (*SMALL, "--data=fake", "--fake-size=60", "--num-classes=10", "--epochs=3", "--valid-epochs=1", "--train-num-workers=1",
           "--optimizer=sgd", "--lr=0.05", "--lr-schedule=none", "--keep-last=9")
FROZEN = ("--lr=0", "--weight-decay=0")  # weights stay; statistics do not
KEY = "layer3.0.conv1.weight"


def tensors(path, group):
    with h5py.File(path) as file:
        return {key: file[group + "/" + key.replace(".", "/")][()] for key in (name.decode() for name in file["model_keys"])}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    trainer_ranks.run(folder, *OPTIONS, "--ema=0.9", ranks=1)
    return folder


def test_the_best_checkpoint_is_chosen_by_the_average(trained):
    validations = records(trained, "validation")
    best = max(validations, key=lambda record: (record["ema_top1"], -record["step"]))
    with h5py.File(trainer_ranks.checkpoints(trained)[-1]) as file:
        assert file["progress/best_metric"][()] == pytest.approx(best["ema_top1"])
        assert file["progress/best_step"][()] == best["step"]
    assert all(record["ema_loss"] != record["loss"] for record in validations)


@pytest.mark.parametrize("options, group", [((), "ema"), (("--weights=average",), "ema"), (("--weights=model",), "model")])
def test_export_writes_the_average_unless_the_weights_are_asked_for(trained, tmp_path, options, group):
    torch = pytest.importorskip("torch")
    program = trainer_ranks.pathlib.Path(trainer_ranks.PROGRAM).parent / "rollcall-checkpoint"
    path = trainer_ranks.checkpoints(trained)[-1]
    subprocess.run([program, "export", *options, path, tmp_path / "out.pth"], check=True, capture_output=True)
    exported, expected = torch.load(tmp_path / "out.pth", weights_only=True), tensors(path, group)
    assert list(exported) == list(expected)
    assert all((exported[key].numpy() == value).all() for key, value in expected.items())
    assert (tensors(path, "ema")[KEY] != tensors(path, "model")[KEY]).any()


def test_init_from_starts_from_the_average(trained, tmp_path):
    path = trainer_ranks.checkpoints(trained)[-1]
    printed = trainer_ranks.run(tmp_path, *OPTIONS, *FROZEN, f"--init-from={path}", "--max-steps=1", "--ema=0.9", "--ema-steps=9", ranks=1)
    assert f"the model starts from {path} (the average of its weights)" in printed
    begun = trainer_ranks.checkpoints(tmp_path)[-1]
    for group in ("model", "ema"):  # a new average begins with the weights
        assert (tensors(begun, group)[KEY] == tensors(path, "ema")[KEY]).all()


@pytest.mark.long
def test_a_resumed_training_needs_the_same_average(trained, tmp_path):
    plain = tmp_path / "plain"
    trainer_ranks.run(plain, *OPTIONS, "--max-steps=3", ranks=1)
    more = ("--max-steps=5", *FROZEN)
    printed = trainer_ranks.run(plain, *OPTIONS, "--max-steps=5", "--ema=0.9", ranks=1, code=76)
    assert "is of another training: --ema was 0 and is 0.9; try" in printed
    printed = trainer_ranks.run(plain, *OPTIONS, *more, "--ema=0.9", "--resume=continue-with-changes", ranks=1)
    assert "warning: --ema: 0.9: " in printed and "has no average of the weights; it begins with the weights" in printed
    path = trainer_ranks.checkpoints(plain)[-1]
    assert (tensors(path, "ema")[KEY] == tensors(path, "model")[KEY]).all()
    printed = trainer_ranks.run(plain, *OPTIONS, *more, "--max-steps=7", ranks=1, code=76)
    assert "--ema was 0.9 and is 0" in printed
    trainer_ranks.run(plain, *OPTIONS, "--max-steps=7", *FROZEN, "--resume=continue-with-changes", ranks=1)
    with h5py.File(trainer_ranks.checkpoints(plain)[-1]) as file:
        assert "ema" not in file
