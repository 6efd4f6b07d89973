"""Every setting of the trainer is tested: its effect is shown, and equals the reference where it changes numbers.

TABLE has a row for each setting of `rollcall-train --print-config`; a setting without one fails. A row is one of
- Numbers or Pixels: a short training with the setting changed equals the reference's with the same change (reference/), and the
  reference's training without the change is another one, so that a program which ignored the setting would be noticed;
- a function: what else the setting does, shown by running the program;
- Elsewhere: the name of a test elsewhere that shows it, checked to exist and to name the setting.
"""
import dataclasses
import json
import os
import pathlib
import subprocess

import pytest
import reference.training
import setting_effects
import small_trainings
import trainer_ranks
import whole_training
from setting_effects import BASE, reference_of

pytestmark = pytest.mark.python
pytest.importorskip("h5py")

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
ADAMW = {"optimizer": "adamw", "lr": 0.001, "adam-eps": 1e-5}


@dataclasses.dataclass
class Numbers:
    """On pictures that need no resizing, where both sides see the same bits: weights and moments are compared too."""

    change: dict
    around: dict = dataclasses.field(default_factory=dict)  # further settings, of both trainings
    ranks: int = 1
    tolerance: float = whole_training.SAME  # of losses and of how far the weights moved; what the change does is far more
    each_step: bool = False  # whole_training.both's


def rounded(change, around=None, ranks=1, tolerance=whole_training.ROUNDED):
    """Numbers whose last bits differ between torch's C++ and Python."""
    return Numbers(change, around or {}, ranks, tolerance, each_step=True)


@dataclasses.dataclass
class Pixels:
    """On pictures of all sizes: the losses of a network that hardly learns tell of every pixel that it saw, a wide one's most."""

    change: dict
    around: dict = dataclasses.field(default_factory=dict)
    tolerance: float = 1e-5


@dataclasses.dataclass
class Elsewhere:
    path: str
    name: str


@dataclasses.dataclass
class Trees:
    all_sizes: str
    same_bits: str


@pytest.fixture(scope="session")
def trees(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    return Trees(str(small_trainings.make_tree(folder / "all sizes", train=4, valid=2)),
                 str(small_trainings.make_tree(folder / "same bits", (32, 32), train=4, valid=2)))


def difference(one, other):
    """How far two references are apart: 1 where records are of other steps, otherwise by losses and weights."""
    if [(r["event"], r["step"], r["samples"]) for r in one.records] != [(r["event"], r["step"], r["samples"]) for r in other.records]:
        return 1.0
    if {name: value.shape for name, value in one.state.items()} != {name: value.shape for name, value in other.state.items()}:
        return 1.0
    losses = [abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(one.records, other.records)]
    weights = [name for name, value in one.state.items() if value.ndim > 1]
    return max(*losses, whole_training.distance(one.state, other.state, other.initial, weights))


def prove_numbers(row, tmp_path, trees):
    base = {**BASE, **small_trainings.SAME_BITS, "data": trees.same_bits, **row.around}
    changed = {**base, **row.change}
    _, theirs = whole_training.both(tmp_path, changed, row.ranks, row.tolerance, row.each_step)
    assert difference(theirs, reference_of(base, row.ranks)) > 50 * row.tolerance, "the change shows too little here to prove anything"


def prove_pixels(row, tmp_path, trees):
    base = {**BASE, "model": "resnet18", "lr": 1e-9, "data": trees.all_sizes, **row.around}
    changed = {**base, **row.change}
    theirs, unchanged = reference_of(changed).records, reference_of(base).records
    assert max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(theirs, unchanged)) > 10 * row.tolerance, "the change shows too little"
    whole_training.compare_records(whole_training.train_ours(tmp_path, changed).records, theirs, row.tolerance)


def init(tmp_path, trees):
    for value in "fan-in", "goyal":
        prove_numbers(Numbers({"init": value}), tmp_path / value, trees)


def auto_augment(tmp_path, trees):
    for value in "trivial", "augmix", "3-augment":
        prove_pixels(Pixels({"auto-augment": value}, tolerance=2e-3), tmp_path / value, trees)


BACKGROUND_SAVES = "tests/trainer/checkpoint/test_background_saves.py"
TENSORBOARD = "tests/trainer/metrics/test_tensorboard.py"
TABLE = {
    "data": Numbers({"data": "fake"}, {"fake-size": 40}),
    "class-names": setting_effects.class_names,
    "train-num-workers": setting_effects.train_num_workers,
    "valid-num-workers": setting_effects.valid_num_workers,
    "prefetch": setting_effects.prefetch,
    "fake-size": Numbers({"fake-size": 50}, {"data": "fake", "fake-size": 40}),
    "image-size": Pixels({"image-size": 40}),
    "image-size-schedule": Pixels({"image-size-schedule": "40,1,3"}, {"image-size": 64, "epochs": 3}),
    "valid-image-size": Pixels({"valid-image-size": 48}),
    "valid-resize": Pixels({"valid-resize": 48}),
    "interpolation": Pixels({"interpolation": "bicubic"}, tolerance=1e-4),
    "crop-scale-min": Pixels({"crop-scale-min": 0.7}),
    "crop-scale-max": Pixels({"crop-scale-max": 0.3}),
    "crop-ratio-min": Pixels({"crop-ratio-min": 1.2}),
    "crop-ratio-max": Pixels({"crop-ratio-max": 0.9}),
    "flip": Pixels({"flip": 1.0}, {"flip": 0.0}),
    "vertical-flip": Pixels({"vertical-flip": 0.6}),
    "valid-flip": Numbers({"valid-flip": True}, {"lr": 0.03}, tolerance=2e-6),
    "mean": Numbers({"mean": "0.5,0.4,0.3"}),
    "std": None,  # below: also where the model computes
    "image-dtype": None,  # below: both of its other types
    "last-batch": Numbers({"last-batch": "pad"}, {"batch-size": 12}),
    "repeated-augmentation": Numbers({"repeated-augmentation": 3}, {"batch-size": 4}, ranks=2),
    "shuffle-window": Numbers({"shuffle-window": 5}),
    "sampling": Numbers({"sampling": "balanced"}, {"data": "fake", "fake-size": 60, "batch-size": 4, "epochs": 2}, ranks=2),
    "exif-orientation": None,  # below: pictures that are turned
    "dct-scaling": setting_effects.dct_scaling,
    "bad-samples": setting_effects.bad_samples,
    "max-bad-samples": Elsewhere(
        "tests/trainer/data/test_bad_samples.py", "test_too_many_bad_samples_end_the_run_and_keep_checkpoints"),
    "auto-augment": auto_augment,
    "randaugment-ops": Pixels({"randaugment-ops": 1}, {"auto-augment": "randaugment"}, tolerance=2e-3),
    "randaugment-magnitude": Pixels({"randaugment-magnitude": 25}, {"auto-augment": "randaugment"}, tolerance=2e-3),
    "randaugment-mstd": Pixels({"randaugment-mstd": 4.0}, {"auto-augment": "randaugment-timm"}, tolerance=2e-3),
    "brightness": Pixels({"brightness": 0.6}, tolerance=1e-3),
    "contrast": Pixels({"contrast": 0.6}, tolerance=1e-3),
    "saturation": Pixels({"saturation": 0.8}, tolerance=1e-3),
    "hue": Pixels({"hue": 0.3}, tolerance=1e-3),
    "random-erase": Pixels({"random-erase": 0.7}),
    "random-erase-value": Pixels({"random-erase-value": "random"}, {"random-erase": 0.7}),
    "mixup": Numbers({"mixup": 0.5}),
    "cutmix": Numbers({"cutmix": 1.0}),
    "model": Numbers({"model": "resnet18"}),
    "num-classes": Numbers({"num-classes": 12}),
    "resnet-stem": Numbers({"resnet-stem": "deep"}, {"model": "resnet18"}),
    "blurpool": Numbers({"blurpool": True}),
    "init": init,
    "zero-init-residual": Numbers({"zero-init-residual": False}),
    "stochastic-depth": Numbers({"stochastic-depth": 0.6}),
    "dropout": Numbers({"dropout": 0.4}, {"batch-size": 4}, ranks=2),
    "freeze": setting_effects.freeze,
    "channels-last": setting_effects.channels_last,
    "epochs": Numbers({"epochs": 2}),
    "max-steps": Numbers({"max-steps": 3}),
    "early-stopping": setting_effects.early_stopping,
    "recipe": setting_effects.recipe,
    "sweep": Elsewhere("tests/trainer/train/test_sweep.py", "test_an_element_takes_the_options_of_its_line"),
    "global-batch": Numbers({"global-batch": 24}, {"batch-size": 8}, ranks=2),
    "batch-size": Numbers({"batch-size": 16}),
    "grad-accumulation": Numbers({"grad-accumulation": 2}, {"batch-size": 4}),
    "seed": Numbers({"seed": 3}),
    "optimizer": rounded({"optimizer": "adamw"}, {"lr": 0.001, "adam-eps": 1e-5}),
    "lr": Numbers({"lr": 0.006}),
    "lr-scaling": Numbers({"lr-scaling": "sqrt"}, {"batch-size": 4}, ranks=2),
    "lr-factors": setting_effects.lr_factors,
    "lr-schedule": Numbers({"lr-schedule": "cosine"}),
    "lr-end-factor": Numbers({"lr-end-factor": 0.5}, {"lr-schedule": "linear"}),
    "lr-power": Numbers({"lr-power": 0.5}, {"lr-schedule": "polynomial"}),
    "lr-milestones": Numbers({"lr-milestones": "0.4,0.8"}, {"lr-schedule": "milestones"}),
    "lr-step-epochs": Numbers({"lr-step-epochs": 0.5}, {"lr-schedule": "step"}),
    "lr-step-factor": Numbers({"lr-step-factor": 0.6}, {"lr-schedule": "step", "lr-step-epochs": 0.5}),
    "warmup-epochs": Numbers({"warmup-epochs": 0.5}),
    "warmup-start-factor": Numbers({"warmup-start-factor": 0.3}, {"warmup-epochs": 0.5}),
    "scale-optim-params": rounded({"scale-optim-params": True}, {**ADAMW, "batch-size": 4}, ranks=2),
    "momentum": Numbers({"momentum": 0.3}),
    "nesterov": Numbers({"nesterov": True}),
    "weight-decay": Numbers({"weight-decay": 0.5}),
    "weight-decay-all": Numbers({"weight-decay-all": True}, {"weight-decay": 0.5}),
    "adam-beta1": rounded({"adam-beta1": 0.5}, ADAMW),
    "adam-beta2": rounded({"adam-beta2": 0.5}, ADAMW),
    "adam-eps": rounded({"adam-eps": 1e-3}, ADAMW),
    "lars-trust": rounded({"lars-trust": 0.01}, {"optimizer": "lars", "lr": 1.0}),
    "rmsprop-alpha": rounded({"rmsprop-alpha": 0.8}, {"optimizer": "rmsprop", "lr": 0.001, "adam-eps": 0.03}),
    "ema": setting_effects.ema,
    "ema-steps": setting_effects.ema_steps,
    "clip-grad-norm": rounded({"clip-grad-norm": 0.7}),
    "precision": Numbers({"precision": "bf16"}),
    "class-weights": setting_effects.class_weights,
    "loss": Numbers({"loss": "bce"}, {"mixup": 0.5, "label-smoothing": 0.1}),
    "bce-target-threshold": Numbers({"bce-target-threshold": 0.2}, {"loss": "bce", "cutmix": 1.0, "label-smoothing": 0.1}),
    "label-smoothing": Numbers({"label-smoothing": 0.3}),
    "parallel": setting_effects.parallel,
    "elastic": Elsewhere("tests/trainer/train/elastic/test_elastic_training.py", "test_a_killed_rank_is_replaced_with_bit_identical_results"),
    "replicate-to": Elsewhere(
        "tests/trainer/train/elastic/test_elastic_replicas.py", "test_a_killed_rank_repeats_only_the_steps_since_the_last_replica"),
    "replicate-steps": Elsewhere("tests/trainer/train/elastic/test_elastic_replicas.py", "test_a_checkpoint_newer_than_the_replica_is_used"),
    "elastic-exact": Elsewhere("tests/trainer/train/elastic/test_elastic_exact.py", "test_any_number_of_ranks_gives_bit_identical_results"),
    "elastic-exact-threads": Elsewhere("tests/trainer/train/elastic/test_elastic_exact.py", "test_elastic_exact_threads_defines_the_result"),
    "gradient-compression": Numbers({"gradient-compression": "bf16"}, {"batch-size": 4}, ranks=2),
    "find-unused-parameters": Elsewhere("tests/trainer/config/train_config_test.cpp", "FindUnusedParameters"),
    "static-graph": Elsewhere("tests/trainer/config/train_config_test.cpp", "StaticGraph"),
    "broadcast-buffers": Elsewhere("tests/trainer/config/train_config_test.cpp", "BroadcastBuffers"),
    "first-bucket": Elsewhere("tests/trainer/config/train_config_test.cpp", "FirstBucket"),
    "bucket": Elsewhere("tests/trainer/config/train_config_test.cpp", "Bucket"),
    "shard-degree": Elsewhere("tests/trainer/config/train_config_test.cpp", "ShardDegree"),
    "replicate-degree": Elsewhere("tests/trainer/config/train_config_test.cpp", "ReplicateDegree"),
    "reshard-after-forward": Elsewhere("tests/trainer/config/train_config_test.cpp", "ReshardAfterForward"),
    "param-dtype": Numbers({"param-dtype": "bf16"}, {"parallel": "fsdp", "batch-size": 4, "model": "resnet18"}, ranks=2, tolerance=1e-3),
    "reduce-dtype": Numbers({"reduce-dtype": "bf16"}, {"parallel": "fsdp", "batch-size": 4}, ranks=2),
    "accumulate": Elsewhere("tests/trainer/config/train_config_test.cpp", "Accumulate"),
    "cpu-offload": Elsewhere("tests/trainer/config/train_config_test.cpp", "CpuOffload"),
    "sync-bn": rounded({"sync-bn": True}, {"batch-size": 4}, ranks=2, tolerance=1e-3),
    "tf32": Elsewhere("tests/trainer/device/device_test.cpp", "UsesTheRequestedArithmetic"),
    "deterministic": Elsewhere("tests/trainer/device/device_test.cpp", "UsesTheRequestedArithmetic"),
    "cuda-graph": Elsewhere("tests/trainer/device/test_device.py", "test_steps_in_a_graph_are_bit_identical_to_eager_ones"),
    "own-kernels": Elsewhere("tests/trainer/device/test_device.py", "test_own_kernels_off_uses_libtorch_operators"),
    "device": Elsewhere("tests/trainer/device/test_device.py", "test_a_training_on_a_device_is_bit_identical_to_one_on_cpus"),
    "backend": setting_effects.backend,
    "collective-timeout": setting_effects.collective_timeout,
    "checkpoint-dir": setting_effects.checkpoint_dir,
    "checkpoint-epochs": setting_effects.checkpoint_epochs,
    "checkpoint-steps": setting_effects.checkpoint_steps,
    "keep-last": setting_effects.keep_last,
    "keep-best": Elsewhere(BACKGROUND_SAVES, "test_keep_last_keep_best_and_keep_every_are_combined"),
    "keep-every": Elsewhere(BACKGROUND_SAVES, "test_keep_last_keep_best_and_keep_every_are_combined"),
    "checkpoint-mode": Elsewhere(BACKGROUND_SAVES, "test_every_save_is_written_or_skipped_and_the_last_is_written"),
    "checkpoint-stage": setting_effects.checkpoint_stage,
    "index-dir": setting_effects.index_dir,
    "checkpoint-overlap": Elsewhere(BACKGROUND_SAVES, "test_every_save_is_written_or_skipped_and_the_last_is_written"),
    "checkpoint-read-back": setting_effects.checkpoint_read_back,
    "checkpoint-retries": Elsewhere(BACKGROUND_SAVES, "test_a_failed_save_is_a_warning_and_the_next_one_succeeds"),
    "checkpoint-failures": Elsewhere(BACKGROUND_SAVES, "test_too_many_failures_in_a_row_stop_all_ranks"),
    "checkpoint-timeout": Elsewhere(
        "tests/trainer/checkpoint/test_stalled_file_system.py", "test_saves_continue_after_one_exceeded_the_checkpoint_timeout"),
    "run-name": Elsewhere(
        "tests/trainer/train/run_folder/test_one_training_one_folder.py", "test_array_tasks_get_own_folders_unless_a_run_name_is_given"),
    "lease-timeout": Elsewhere("tests/trainer/train/run_folder/test_lease.py", "test_a_holder_on_another_host_is_judged_by_its_renewals"),
    "max-skipped-steps": Elsewhere(
        "tests/trainer/train/test_not_finite.py", "test_non_finite_gradients_skip_steps_and_end_the_run_at_the_limit"),
    "save-before-limit": Elsewhere(
        "tests/trainer/train/test_save_before_limit.py", "test_all_ranks_save_and_exit_before_the_limit_known_to_rank_0"),
    "resume": setting_effects.resume,
    "verify": setting_effects.verify,
    "init-from": Elsewhere(BACKGROUND_SAVES, "test_init_from_loads_all_but_a_head_with_other_classes"),
    "evaluate": Elsewhere("tests/trainer/train/inference/test_evaluate.py", "test_counts_equal_those_of_torchvision"),
    "evaluate-split": Elsewhere("tests/trainer/train/inference/test_evaluate.py", "test_splits_of_one_folder_are_those_of_the_training"),
    "valid-epochs": Numbers({"valid-epochs": 2}, {"epochs": 2}),
    "run-dir": setting_effects.run_dir,
    "benchmark-epochs": setting_effects.benchmark_epochs,
    "progress": setting_effects.progress,
    "log-steps": Numbers({"log-steps": 3}),
    "rank-seconds": setting_effects.rank_seconds,
    "tensorboard": Elsewhere(TENSORBOARD, "test_tensorboard_curves_match_the_records_also_after_a_resume"),
    "trace-steps": Elsewhere("tests/trainer/metrics/test_trace.py", "test_the_trace_contains_all_ranks_model_parts_and_collectives"),
    "tensorboard-histograms": Elsewhere(TENSORBOARD, "test_tensorboard_histograms_match_weights_and_gradients"),
    "report": Elsewhere("tests/trainer/report/test_report.py", "test_report_off_writes_none_and_a_failed_report_is_no_error"),
}


def image_dtype(tmp_path, trees):
    """Levels show nothing by themselves, where pictures are not resized: they are what float32 is made from."""
    prove_pixels(Pixels({"image-dtype": "bfloat16"}, {"mixup": 0.4}), tmp_path / "bfloat16", trees)
    levels = {**BASE, **small_trainings.SAME_BITS, "data": trees.same_bits, "image-dtype": "uint8"}
    whole_training.both(tmp_path / "uint8", levels, 1, 1e-5, False)
    mixed, unrounded = reference_of({**levels, "mixup": 0.4}), reference_of({**levels, "mixup": 0.4, "image-dtype": "float32"})
    assert difference(mixed, unrounded) > 1e-5
    whole_training.both(tmp_path / "mixed", {**levels, "mixup": 0.4}, 1, 1e-5, False)


def std(tmp_path, trees):
    """Also of levels, which are normalised where the model computes."""
    change = {"std": "0.3,0.25,0.2"}
    for row in Numbers(change), rounded(change, {"image-dtype": "uint8"}):
        prove_numbers(row, tmp_path / row.around.get("image-dtype", "float32"), trees)


def exif_orientation(tmp_path, _trees):
    """Images that are rotated by their EXIF orientation."""
    from PIL import Image
    root = small_trainings.make_tree(tmp_path / "tree", train=4, valid=2)
    for i, path in enumerate(sorted(root.rglob("*.jpeg")) + sorted(root.rglob("*.JPG"))):
        exif = Image.Exif()
        exif[0x0112] = 1 + i % 8
        Image.open(path).save(path, format="JPEG", exif=exif, quality=92)
    prove_pixels(Pixels({"exif-orientation": True}), tmp_path / "run", Trees(str(root), ""))


TABLE["exif-orientation"] = exif_orientation
TABLE["image-dtype"] = image_dtype
TABLE["std"] = std

# Of the rows that compare numbers, those without which a setting could be ignored that no other short test compares with Python; what
# becomes of pictures has tests of its own, without trainings.
SHORT = {"adam-beta1", "adam-beta2", "bce-target-threshold", "blurpool", "clip-grad-norm", "crop-scale-min", "dropout", "flip",
         "global-batch", "grad-accumulation", "gradient-compression", "label-smoothing", "lr-scaling", "lr-schedule", "lr-step-factor",
         "max-steps", "mean", "mixup", "momentum", "nesterov", "rmsprop-alpha", "sampling", "seed", "shuffle-window", "stochastic-depth",
         "sync-bn", "warmup-epochs", "weight-decay"}
LONG = {name for name, row in TABLE.items() if isinstance(row, Numbers | Pixels) and name not in SHORT} | {
    "auto-augment", "image-dtype", "exif-orientation", "dct-scaling", "init", "parallel", "progress", "backend", "lr-factors",
    "valid-num-workers"}
assert SHORT | LONG <= TABLE.keys()


@pytest.mark.parametrize("setting", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in TABLE])
def test_each_setting_has_its_documented_effect(setting, tmp_path, trees):
    row = TABLE[setting]
    if isinstance(row, Numbers):
        prove_numbers(row, tmp_path, trees)
    elif isinstance(row, Pixels):
        prove_pixels(row, tmp_path, trees)
    elif isinstance(row, Elsewhere):
        text = (ROOT / row.path).read_text()
        assert row.name in text and f"{setting}" in text, f"{row.path} has no test {row.name} of --{setting}"
    else:
        row(tmp_path, trees)


@pytest.mark.long
def test_every_recipe_trains_as_python_does(tmp_path, trees):
    files = setting_effects.published_recipes()
    assert len(files) >= 11
    for file in files:
        setting_effects.train_recipe(tmp_path, trees, file)


def printed_settings():
    """{name: value} of the trainer's settings; the launcher's follow in an object of their own."""
    printed = subprocess.run([trainer_ranks.PROGRAM, "--print-config", "--json"], capture_output=True, text=True, check=True,
                             env=trainer_ranks.environment(pathlib.Path("/nonexistent"), 0, 1)).stdout
    settings, _ = json.JSONDecoder().raw_decode(printed)
    return {name: entry["value"] for name, entry in settings.items() if name != "site"}


def test_every_setting_of_the_trainer_has_a_row():
    """A new setting: add a row to TABLE, with the reference's side of it in reference/ where it changes numbers."""
    names = printed_settings().keys()
    assert names - TABLE.keys() == set(), "settings without a row in TABLE"
    assert TABLE.keys() - names == set(), "rows of settings that are gone"


def test_the_defaults_equal_those_of_the_reference():
    """The reference's defaults are written by hand: a default that changes by accident is noticed."""
    values = printed_settings()
    for name, default in reference.training.DEFAULTS.items():
        said = {"true": True, "false": False}[values[name]] if isinstance(default, bool) else type(default)(values[name])
        assert said == default, name
