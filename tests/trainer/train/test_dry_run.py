"""--dry-run and --find-lr: what they say of a training is what the training then does, and they leave nothing behind."""
import json
import subprocess

import pytest
import small_trainings
import trainer_ranks

pytestmark = pytest.mark.python
TRAINING = (*trainer_ranks.SMALL, "--fake-size=100", "--num-classes=10", "--epochs=2", "--valid-epochs=0")


def said(text):
    """The object in the output of a run with --json."""
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))


@pytest.mark.parametrize("options", [("--optimizer=sgd", "--grad-accumulation=2"), ("--parallel=fsdp",)], ids=lambda options: options[0])
def test_a_dry_run_estimates_what_the_training_does(tmp_path, options):
    dry = said(trainer_ranks.run(tmp_path / "dry", *TRAINING, *options, "--dry-run", "--json"))
    assert sorted(path.name for path in (tmp_path / "dry").rglob("*") if path.is_file()) == [], "nothing is written"
    trainer_ranks.run(tmp_path / "run", *TRAINING, *options)
    assert dry["steps"] == [record["step"] for record in trainer_ranks.records(tmp_path / "run", "epoch")][-1]
    assert (dry["training_images"], dry["validation_images"], dry["classes"]) == (85, 10, 10)
    assert dry["parameters"] == sum(weights.size for name,
                                    weights in trainer_ranks.model_in(trainer_ranks.checkpoints(tmp_path / "run")[-1]).items()
                                    if name.endswith((".weight", ".bias")))
    written = trainer_ranks.checkpoints(tmp_path / "run")[-1].stat().st_size
    assert 0.8 * written < dry["checkpoint_bytes"] < written, "headers are not counted"
    assert 1 <= dry["measured_steps"] <= 20 and dry["images_per_second"] > 0 and dry["memory_bytes"] < dry["memory_limit_bytes"]


def test_a_dry_run_shows_a_table(tmp_path):
    text = trainer_ranks.run(tmp_path, *TRAINING, "--batch-size=16", "--dry-run")
    rows = [line.split(" ")[0] for line in text.splitlines()]
    assert [row for row in rows if row in ("data", "model", "step", "memory", "checkpoints", "training")] == [
        "data", "model", "step", "memory", "checkpoints", "training"], text
    assert "85 training and 10 validation images, 10 classes" in text and "enough for a --batch-size of about " in text, text


def test_a_batch_that_does_not_fit_is_refused_before_it_is_loaded(tmp_path):
    text = trainer_ranks.run(tmp_path, "--data=fake", "--fake-size=20000", "--model=resnet18", "--batch-size=2000", "--train-num-workers=1",
                             "--prefetch=1", "--dry-run", code=64)
    refused, = [line for line in text.splitlines() if line.startswith("rollcall: ")]
    assert refused.startswith("rollcall: --batch-size: 2000: needs about ") and " of memory on each rank, which may use " in refused, text
    proposed = int(refused.split("try --batch-size=")[1].split()[0])
    assert 8 < proposed < 2000


def test_a_file_system_without_space_for_a_checkpoint_is_refused(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    mounted = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=64k none {full} && exec \"$@\"", "sh"]
    if subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    done = subprocess.run([*mounted, trainer_ranks.PROGRAM, *TRAINING, f"--checkpoint-dir={full}/checkpoints", "--dry-run"], capture_output=True,
                          text=True, env=trainer_ranks.environment(tmp_path, 0, 1))
    assert done.returncode == 74, done.stderr
    assert f"rollcall: --checkpoint-dir: {full}/checkpoints: has " in done.stderr and "of free space, but a checkpoint takes " in done.stderr


def test_find_lr_suggests_a_rate_at_which_the_loss_falls(tmp_path):
    tree = small_trainings.make_tree(tmp_path / "pictures", (32, 32))
    options = small_trainings.options({**small_trainings.SMALL, "data": str(tree), "optimizer": "sgd"})
    options = [option for option in options if not option.startswith("--lr=")]
    found = said(trainer_ranks.run(tmp_path / "found", *options, "--find-lr", "--json"))
    rates = [point["lr"] for point in found["points"]]
    assert rates == sorted(rates) and rates[0] == pytest.approx(1e-6) and len(rates) <= 100
    assert 1e-4 < found["suggested_lr"] < 1 and found["suggested_lr"] in rates
    assert not list((tmp_path / "found").rglob("*.h5"))


def test_find_lr_shows_every_fifth_rate(tmp_path):
    text = trainer_ranks.run(tmp_path, *TRAINING, "--find-lr", ranks=1)
    shown = [line for line in text.splitlines() if line.startswith("--lr=")]
    assert 1 <= len(shown) <= 20 and all("  loss " in line for line in shown)
    assert "The loss falls fastest with --lr=" in text or "The loss hardly falls with any of these rates." in text
