"""Which checkpoint is the best when a training resumes from another folder or validates on other images."""

import pytest
import trainer_ranks
from folder_runs import OPTIONS, make_pictures

pytestmark = pytest.mark.python
pytest.importorskip("h5py")


VALIDATED = ("--model=resnet18", "--valid-epochs=1", "--fake-size=40", "--keep-last=1", "--epochs=2")


def accuracies(folder):
    return {record["step"]: record["top1"] for record in trainer_ranks.records(folder, "validation")}


def test_the_best_checkpoint_of_another_folder_is_ignored(tmp_path):
    """Its checkpoint is not in this folder: otherwise no checkpoint of this run might ever become the best."""
    one, two = tmp_path / "one", tmp_path / "two"
    trainer_ranks.run(one, *OPTIONS, *VALIDATED, "--epochs=1", ranks=1)
    file = trainer_ranks.checkpoints(one)[0]
    assert (one / "best.h5").readlink().name == file.name
    text = trainer_ranks.run(two, *OPTIONS, *VALIDATED, f"--resume={file}", ranks=1)
    assert f"1 of its 1 best validations no longer count, as their checkpoints are not in {two}" in text
    (step,) = accuracies(two)
    assert accuracies(two)[step] <= next(iter(accuracies(one).values())), "the test's condition"
    assert (two / "best.h5").readlink().name == f"step-{step:08d}.h5" and (two / "best.h5").is_file()


def test_the_best_checkpoint_of_this_folder_is_kept_on_resume(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, *VALIDATED, "--epochs=1", ranks=1)
    best = (tmp_path / "best.h5").readlink().name
    text = trainer_ranks.run(tmp_path, *OPTIONS, *VALIDATED, f"--resume={tmp_path}/best.h5", ranks=1)
    assert "no longer count" not in text
    first, second = accuracies(tmp_path).items()
    assert (tmp_path / "best.h5").readlink().name == (best if second[1] <= first[1] else f"step-{second[0]:08d}.h5")


def test_the_best_stays_until_validated_on_the_changed_images(tmp_path):
    pictures, run = tmp_path / "pictures", tmp_path / "run"
    make_pictures(pictures / "train", 30)
    make_pictures(pictures / "val", 12)
    options = (*OPTIONS, *VALIDATED, f"--data={pictures}", "--epochs=4", "--checkpoint-steps=1", "--checkpoint-mode=sync")
    trainer_ranks.run(run, *options, "--max-steps=8", ranks=1)
    best = (run / "best.h5").readlink().name
    (pictures / "val" / "class 0" / "0.png").rename(pictures / "val" / "class 0" / "zero.png")
    text = trainer_ranks.run(run, *options, "--max-steps=10", "--valid-epochs=0", "--resume=continue-with-changes", ranks=1)
    assert "the validation images changed, so the best checkpoint is chosen again" in text
    assert (run / "best.h5").readlink().name == best and (run / "best.h5").is_file()
    trainer_ranks.run(run, *options, "--max-steps=12", ranks=1)
    (last,) = [step for step in accuracies(run) if step > 10]
    assert (run / "best.h5").readlink().name == f"step-{last:08d}.h5" and not (run / best).exists()
