"""What rollcall-train rejects or reports at its start: values that would train in another place, or not at all."""
import io
import os
import subprocess
import tarfile

import pytest

import small_trainings
import trainer_ranks
from trainer_ranks import SMALL

pytestmark = pytest.mark.python
ONE_STEP = (*SMALL, "--fake-size=20", "--valid-epochs=0", "--max-steps=1", "--checkpoint-epochs=0", "--report=off")


def train(folder, *options, **variables):
    done = subprocess.run([trainer_ranks.PROGRAM, *options], cwd=folder, capture_output=True, text=True, check=False, timeout=240,
                          env={**os.environ, "HOME": str(folder), "SCRATCH": str(folder / "scratch"), **variables})
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name, possible", [(".", "run"), ("..", "run"), ("a/b", "a_b"), ("../a", ".._a"), ("a b", "a_b")])
def test_a_run_name_that_is_no_folder_name_is_rejected(tmp_path, name, possible):
    code, _, error = train(tmp_path, *ONE_STEP, f"--run-name={name}")
    assert code == 64 and error == f"rollcall: --run-name: {name}: cannot be the name of a folder; try --run-name={possible}\n", error
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("scratch", ["~/x", "x"])
def test_a_relative_scratch_path_is_rejected(tmp_path, scratch):
    code, _, error = train(tmp_path, *ONE_STEP, SCRATCH=scratch)
    assert code == 64 and f"SCRATCH is {scratch}, which is not an absolute path; try " in error, error
    assert ("SCRATCH=$HOME/x, without quotes" in error) == scratch.startswith("~")
    assert not (tmp_path / scratch).exists()


@pytest.mark.parametrize("options, code", [(("--data=/no/such",), 66), (("--trace-steps=3-1",), 64)])
def test_a_dry_run_rejects_what_training_rejects(tmp_path, options, code):
    found, out, error = train(tmp_path, "--dry-run", *options)
    assert found == code and "DONE" not in out and error.startswith("rollcall: " + options[0].split("=")[0]), out + error


def test_a_dry_run_opens_the_checkpoint_to_resume_from(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"fc.weight": torch.ones(2)}, tmp_path / "weights.pth")
    (tmp_path / "junk.h5").write_text("junk")
    os.mkfifo(tmp_path / "pipe.h5")
    for name, code, reason in (("none.h5", 66, "No such file"), ("pipe.h5", 66, "is not a regular file"),
                               ("weights.pth", 65, "holds the weights of a model only"), ("junk.h5", 65, "is damaged or not in format")):
        found, out, error = train(tmp_path, "--dry-run", *ONE_STEP, f"--resume={tmp_path}/{name}")
        assert found == code and "DONE" not in out and error.startswith(f"rollcall: --resume: {tmp_path}/{name}: {reason}"), out + error
        assert train(tmp_path, *ONE_STEP, f"--resume={tmp_path}/{name}")[::2] == (code, error)
    assert train(tmp_path, *ONE_STEP, "--run-name=one")[0] == 0
    code, out, error = train(tmp_path, "--dry-run", *ONE_STEP, f"--resume={tmp_path}/scratch/rollcall/one/checkpoints/step-00000001.h5")
    assert code == 0 and "DONE" in out, out + error


def test_a_dry_run_accepts_the_shard_patterns_of_training(tmp_path):
    images = small_trainings.make_tree(tmp_path / "images", (32, 32))
    for number in range(2):
        with tarfile.open(tmp_path / f"train-00{number}.tar", "w") as shard:
            for key, image in enumerate(sorted(path for path in (images / "train").rglob("*.*") if path.is_file())):
                shard.add(image, f"{key:03d}{image.suffix.lower()}")
                label = tarfile.TarInfo(f"{key:03d}.cls")
                label.size = 1
                shard.addfile(label, io.BytesIO(str(key % 8).encode()))
    options = ("--dry-run", *SMALL, "--num-classes=8")
    for pattern in "train-{000..001}.tar", "train-*.tar", "train-[0-9]*.tar", "train-000.tar":
        code, out, error = train(tmp_path, *options, f"--data={tmp_path / pattern}")
        assert code == 0 and "DONE" in out, pattern + out + error
    for pattern, reason in ("train-{000..002}.tar", "train-002.tar: cannot be read: No such file"), ("val-*.tar", "val-*.tar: matches no file"):
        code, out, error = train(tmp_path, *options, f"--data={tmp_path / pattern}")
        assert code == 66 and "DONE" not in out and reason in error, pattern + out + error


def test_a_dry_run_prints_no_timestamps(tmp_path):
    code, out, error = train(tmp_path, "--dry-run", *SMALL)
    assert code == 0 and "DONE rank 0" in out.splitlines(), out + error
    code, out, error = train(tmp_path, "--dry-run")
    assert code == 0 and out.splitlines()[0] == "DONE rank 0", out + error


def test_an_image_size_too_small_is_not_reported_as_out_of_memory(tmp_path):
    options = [option for option in ONE_STEP if not option.startswith(("--model", "--image-size", "--batch-size"))]
    code, out, error = train(tmp_path, *options, "--model=resnet18", "--image-size=8", "--batch-size=1", "--train-num-workers=0")
    assert code == 64 and "one value for each channel" in error and "lowering --batch-size" not in error, out + error


def test_a_long_value_is_truncated_in_the_error(tmp_path):
    code, _, error = train(tmp_path, "--epochs=" + 120_000 * "9")
    assert code == 64 and error.startswith("rollcall: --epochs: 999") and "(120000 bytes)" in error and len(error) < 2000


@pytest.mark.parametrize("rank", [0, 1])
def test_an_option_that_one_rank_alone_has_wrong_is_told_once(tmp_path, rank):
    """The other one waits for it, and then says that it is missing."""
    processes = trainer_ranks.start(tmp_path, *ONE_STEP, "--rendezvous-timeout=1",
                                    prefixes={rank: ["sh", "-c", 'exec "$@" --no-such-option', "sh"]})
    lines = [process.communicate(timeout=240)[1] for process in processes]
    assert processes[rank].returncode == 64, lines
    assert lines[rank] == "rollcall: --no-such-option: unknown option; try --help\n", lines
    assert "--no-such-option" not in lines[1 - rank], lines


def test_an_option_that_all_ranks_have_wrong_is_told_once(tmp_path):
    text = trainer_ranks.run(tmp_path, *ONE_STEP, "--no-such-option", ranks=3, code=64)
    assert text == "rollcall: --no-such-option: unknown option; try --help\n"


def test_the_workers_of_an_agent_print_the_settings_once(tmp_path):
    done = subprocess.run([trainer_ranks.BUILD / "runtime" / "rollcall", "run", "--standalone", "--nproc-per-node=3", "--no-python",
                           trainer_ranks.PROGRAM, "--print-config", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True,
                          timeout=240, env={**os.environ, "HOME": str(tmp_path), "SCRATCH": str(tmp_path)})
    assert done.stdout.count('"batch-size"') == 1, done.stdout


@pytest.mark.parametrize("text, code, message", [
    ("lr = 0.5\n", 78, "sets nothing in a table [trainer]; try writing [trainer] above its keys"),
    ("[train]\nlr = 0.5\n", 78, "sets nothing in a table [trainer]; try writing [trainer] above its keys"),
    ('[trainer]\nrecipe = "goyal-90"\nlr = 1\n', 78, "has the key recipe itself, but a recipe cannot contain another"),
    ("[trainer]\nmomentun = 0.5\n", 78, "momentum"), ("[trainer]\nepochs = 0\n", 78, "epochs"), (None, 66, "No such file or directory")])
def test_a_recipe_that_is_not_one_is_rejected(tmp_path, text, code, message):
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    found, out, error = train(tmp_path, *ONE_STEP, "--recipe=./mine.toml")
    assert found == code and message in error and error.startswith("rollcall: "), out + error


def test_an_unknown_recipe_is_rejected_and_the_list_is_shown_in_any_case(tmp_path):
    code, _, error = train(tmp_path, *ONE_STEP, "--recipe=goyal90")
    assert code == 64 and error == "rollcall: --recipe: goyal90: is not a known recipe; try --recipe=goyal-90\n"
    code, out, _ = train(tmp_path, "--recipe-list", ROLLCALL_RECIPE="none-such")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == [
        "digits", "ffcv-16", "ffcv-88", "goyal-90", "mlperf-lars", "nvidia-dle", "rsb-a1", "rsb-a2", "rsb-a3", "torchvision-v1",
        "torchvision-v2"]


def test_epochs_of_a_schedule_without_effect_are_a_warning(tmp_path):
    options = (*ONE_STEP[:-2], "--max-steps=0", "--epochs=1", "--optimizer=sgd", "--lr-schedule=none", "--lr=1e-4")
    options = [option for option in options if option != "--max-steps=1"]
    _, _, error = train(tmp_path, *options, "--lr-schedule=milestones", "--lr-milestones=0.5,30", "--warmup-epochs=3", "--run-name=a")
    assert "rollcall: warning: --lr-milestones: 30: is not before the end of the training, after 1 epoch\n" in error, error
    assert "rollcall: warning: --warmup-epochs: 3: the training ends before its warm-up does\n" in error, error
    _, _, error = train(tmp_path, *options, "--lr-schedule=milestones", "--lr-milestones=0.5", "--warmup-epochs=0.5", "--run-name=b")
    assert "warning" not in error, error
