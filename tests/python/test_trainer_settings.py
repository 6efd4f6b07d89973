"""Every setting of the trainer is proved: what it changes is shown, and equals the reference where numbers are its point.

TABLE has a row for each setting of `rollcall-train --print-config`; a setting without one fails. A row is one of
- Numbers or Pixels: a short training with the setting changed equals the reference's with the same change (reference/), and the
  reference's training without the change is another one, so that a program which ignored the setting would be noticed;
- a function: what else the setting does, shown by running the program;
- Elsewhere: the name of a test elsewhere that shows it, checked to exist and to name the setting.
"""
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
import launcher_runs
import reference.training
import trainer_ranks
import whole_training

pytest.importorskip("h5py")

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
# One epoch of four steps with a validation behind it; every step is a record.
BASE = {**whole_training.SMALL, "optimizer": "sgd", "epochs": 1, "log-steps": 1}
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
    """Numbers whose last bits are other ones in torch's C++ and Python."""
    return Numbers(change, around or {}, ranks, tolerance, each_step=True)


@dataclasses.dataclass
class Pixels:
    """On pictures of all sizes: the losses of a network that hardly learns tell of every pixel that it saw."""

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
    return Trees(str(whole_training.make_tree(folder / "all sizes", train=4, valid=2)),
                 str(whole_training.make_tree(folder / "same bits", (32, 32), train=4, valid=2)))


@functools.cache
def trained_reference(settings, ranks):
    return reference.training.train(dict(settings), ranks)


def reference_of(settings, ranks=1):
    return trained_reference(tuple(sorted(settings.items())), ranks)


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
    base = {**BASE, **whole_training.SAME_BITS, "data": trees.same_bits, **row.around}
    changed = {**base, **row.change}
    _, theirs = whole_training.both(tmp_path, changed, row.ranks, row.tolerance, row.each_step)
    assert difference(theirs, reference_of(base, row.ranks)) > 50 * row.tolerance, "the change shows too little here to prove anything"


def prove_pixels(row, tmp_path, trees):
    base = {**BASE, "lr": 1e-9, "data": trees.all_sizes, **row.around}
    changed = {**base, **row.change}
    theirs, unchanged = reference_of(changed).records, reference_of(base).records
    assert max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(theirs, unchanged)) > 10 * row.tolerance, "the change shows too little"
    whole_training.compare_records(whole_training.train_ours(tmp_path, changed).records, theirs, row.tolerance)


# ------------------------------------------------------------------------------------------------- what is not a number

SMALLEST = ("--model=resnet18", "--image-size=32", "--batch-size=4", "--fake-size=60", "--valid-epochs=0")


def train(folder, *more, ranks=1, code=0, env=None):
    return trainer_ranks.run(folder, *SMALLEST, "--progress=lines", *more, ranks=ranks, code=code, env=env)


def benchmark(*more):
    command = [trainer_ranks.PROGRAM, "--benchmark-data", "--json", *SMALLEST, *more]
    done = subprocess.run(command, env=trainer_ranks.environment(pathlib.Path("/nonexistent"), 0, 1), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def loader_threads(pid):
    names = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            names.append(pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip())
    return names.count("rollcall-data")


def most_loader_threads(folder, *more):
    """Most threads that load images, looked for in short intervals until the program ends by itself."""
    process, most = trainer_ranks.start(folder, *SMALLEST, "--progress=none", "--epochs=1", *more, ranks=1)[0], 0
    while process.poll() is None:
        most = max(most, loader_threads(process.pid))
        time.sleep(0.005)  # the program needs the processor more than this does
    trainer_ranks.finish([process])
    return most


def train_num_workers(tmp_path, _trees):
    assert most_loader_threads(tmp_path / "a", "--train-num-workers=3") == 3
    assert most_loader_threads(tmp_path / "b", "--train-num-workers=0") == 0


def valid_num_workers(tmp_path, _trees):
    more = ("--train-num-workers=0", "--valid-epochs=1")
    assert most_loader_threads(tmp_path / "a", *more, "--valid-num-workers=3") == 3
    assert most_loader_threads(tmp_path / "b", *more, "--valid-num-workers=0") == 0


def prefetch(_tmp_path, _trees):
    """Batches of 4.8 MB that may be read ahead are kept."""
    def peak(number):
        more = ("--train-num-workers=1", "--image-size=224", "--batch-size=8", "--fake-size=600", "--benchmark-epochs=1")
        return benchmark(*more, f"--prefetch={number}")["peak_memory_bytes"]
    assert 50 * 4.8e6 < peak(60) - peak(2) < 66 * 4.9e6


def benchmark_epochs(_tmp_path, _trees):
    assert [len(benchmark(f"--benchmark-epochs={n}")["epochs"]) for n in (1, 2, 5)] == [1, 1, 4]  # the first of several warms up


def dct_scaling(tmp_path, _trees):
    """Large crops are decoded at half size: other pixels, by a little."""
    large = whole_training.make_tree(tmp_path / "large", (400, 300), train=2, valid=1)
    settings = {**BASE, "data": str(large), "crop-scale-min": 0.9, "lr": 1e-9}
    theirs = reference_of(settings).records[0]["loss"]
    plain, scaled = (whole_training.train_ours(tmp_path / value, {**settings, "dct-scaling": value == "on"}).records[0]["loss"]
                     for value in ("off", "on"))
    assert abs(plain - theirs) < 1e-5 * theirs and 1e-4 * theirs < abs(scaled - theirs) < 0.05 * theirs


def broken_tree(folder):
    root = whole_training.make_tree(folder)
    bad = sorted(path for path in (root / "train").rglob("*.jpeg"))[5]
    bad.write_bytes(bad.read_bytes()[:200])
    return root, bad


def bad_samples(tmp_path, _trees):
    root, bad = broken_tree(tmp_path / "tree")
    settings = {**BASE, "data": str(root)}
    ours = whole_training.train_ours(tmp_path / "skip", settings)
    assert f"{bad}" in ours.printed and [r["samples"] for r in ours.records if r["event"] == "epoch"] == [63]
    printed = trainer_ranks.run(tmp_path / "fail", *whole_training.options({**settings, "bad-samples": "fail"}), ranks=1, code=65)
    assert str(bad) in printed


def channels_last(tmp_path, trees):
    """Another memory format adds up in another order: the last bits are Python's of the same format."""
    losses = {}
    for on in (True, False):
        settings = {**BASE, **whole_training.SAME_BITS, "data": trees.same_bits, "channels-last": on}
        losses[on] = [r["loss"] for r in whole_training.train_ours(tmp_path / str(on), settings).records]
        assert losses[on] == pytest.approx([r["loss"] for r in reference_of(settings).records], rel=1e-5)
    assert losses[True] != losses[False]


def parallel(tmp_path, _trees):
    """fsdp's own settings are refused with the others, and ddp's with fsdp; none is for one rank."""
    for kind, foreign in (("ddp", "--reduce-dtype=bf16"), ("fsdp", "--bucket=1"), ("none", "--reduce-dtype=bf16")):
        assert f"--parallel={kind}" in train(tmp_path / f"{kind} refused", f"--parallel={kind}", foreign, ranks=1, code=64)
    outputs = [train(tmp_path / kind, f"--parallel={kind}", "--max-steps=1", ranks=2) for kind in ("ddp", "fsdp")]
    assert all("2 ranks on" in printed for printed in outputs)
    assert "2 ranks would each train alone" in train(tmp_path / "none", "--parallel=none", "--max-steps=1", ranks=2, code=76)
    assert "1 ranks on" in train(tmp_path / "alone", "--parallel=none", "--max-steps=1")


def backend(tmp_path, _trees):
    for name in ("gloo", "ucx"):
        printed = train(tmp_path / name, f"--backend={name}", "--max-steps=2", "--log-steps=1", ranks=2)
        assert f"backend {name}," in printed
    gloo, ucx = (trainer_ranks.records(tmp_path / name, "step") for name in ("gloo", "ucx"))
    assert len(gloo) == 2 and [r["loss"] for r in ucx] == pytest.approx([r["loss"] for r in gloo], rel=1e-5)


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def collective_timeout(tmp_path, _trees):
    """A rank that is stopped is an error on the other after so many seconds, and not before."""
    processes = trainer_ranks.start(tmp_path, *SMALLEST, "--progress=none", "--log-steps=1", "--collective-timeout=2", ranks=2)
    try:
        metrics = tmp_path / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and '"event":"step"' in metrics.read_text(), "no step was done")
        processes[1].send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        _, errors = processes[0].communicate(timeout=120)
        assert time.monotonic() - stopped > 1.9 and processes[0].returncode != 0
        assert "rank 1" in errors and re.search(r"--collective-timeout|2 s", errors), errors
    finally:
        processes[1].send_signal(signal.SIGCONT)
        processes[1].kill()
        processes[1].communicate()


def steps_saved(folder):
    return [int(path.stem.removeprefix("step-")) for path in trainer_ranks.checkpoints(folder)]


def checkpoint_dir(tmp_path, _trees):
    train(tmp_path / "a", "--max-steps=1", f"--checkpoint-dir={tmp_path}/here")
    assert steps_saved(tmp_path / "here") == [1] and steps_saved(tmp_path / "a") == []
    environment = trainer_ranks.environment(tmp_path / "scratch", 0, 1)
    subprocess.run([trainer_ranks.PROGRAM, *SMALLEST, "--max-steps=1"], env=environment, check=True, capture_output=True)
    assert steps_saved(tmp_path / "scratch/rollcall/run/checkpoints") == [1]
    assert (tmp_path / "scratch/rollcall/run/metrics.jsonl").exists()


def checkpoint_epochs(tmp_path, _trees):  # 4 steps an epoch
    for every, expected in ((1, [4, 8, 12]), (2, [8, 12]), (0, [12])):
        train(tmp_path / str(every), "--fake-size=20", "--epochs=3", f"--checkpoint-epochs={every}", "--keep-last=9")
        assert steps_saved(tmp_path / str(every)) == expected


def checkpoint_steps(tmp_path, _trees):
    train(tmp_path, "--epochs=1", "--checkpoint-steps=5", "--keep-last=9", "--checkpoint-overlap=wait")
    assert steps_saved(tmp_path) == [5, 10, 12]


def keep_last(tmp_path, _trees):
    train(tmp_path, "--epochs=1", "--checkpoint-steps=2", "--keep-last=2", "--checkpoint-overlap=wait")
    assert steps_saved(tmp_path) == [10, 12]


def run_dir(tmp_path, _trees):
    train(tmp_path / "a", "--max-steps=1", f"--run-dir={tmp_path}/there")
    assert (tmp_path / "there/metrics.jsonl").exists() and not (tmp_path / "a/metrics.jsonl").exists()


def rank_seconds(tmp_path, _trees):
    """A record of the ranks after every record of a step but the first, whose times travel with the second; only at the end; or never."""
    for seconds, expected in (("1e-9", [2, 3]), ("auto", [3]), ("0", [])):
        train(tmp_path / seconds, "--max-steps=3", "--log-steps=1", f"--rank-seconds={seconds}")
        assert [record["step"] for record in trainer_ranks.records(tmp_path / seconds, "ranks")] == expected, seconds


def checkpoint_stage(tmp_path, _trees):
    """The file is first made below the stage; nothing stays there."""
    stage, trace = tmp_path / "stage", tmp_path / "trace"
    stage.mkdir()
    (tmp_path / "a").mkdir()
    command = ["strace", "-f", "-o", trace, "-e", "trace=open,openat,rename,renameat,renameat2", trainer_ranks.PROGRAM, *SMALLEST,
               "--max-steps=1", f"--checkpoint-dir={tmp_path}/a", f"--checkpoint-stage={stage}"]
    subprocess.run(command, env=trainer_ranks.environment(tmp_path, 0, 1), check=True, capture_output=True)
    assert re.search(rf'"{stage}/[^"]*step-00000001[^"]*", [A-Z_|]*O_CREAT', trace.read_text())
    assert steps_saved(tmp_path / "a") == [1] and not [path for path in stage.rglob("*") if path.is_file()]


def index_dir(tmp_path, trees):
    """The list of the data's images is made by one run and found by the next one, which reads no class's folder."""
    def folders_listed(name):
        trace = tmp_path / f"trace {name}"
        (tmp_path / name).mkdir()
        command = ["strace", "-f", "-o", trace, "-e", "trace=openat", trainer_ranks.PROGRAM, *SMALLEST, f"--data={trees.same_bits}",
                   "--max-steps=1", f"--checkpoint-dir={tmp_path}/{name}", f"--index-dir={tmp_path}/kept"]
        ahead = {"LD_PRELOAD": str(launcher_runs.CLOCK_AHEAD)}  # the pictures are not from just now
        subprocess.run(command, env={**trainer_ranks.environment(tmp_path, 0, 1), **ahead}, check=True, capture_output=True)
        return re.findall(rf'"{trees.same_bits}/train/([^/"]+)", [A-Z_|]*O_DIRECTORY', trace.read_text())
    assert len(folders_listed("a")) == 8
    assert len(list((tmp_path / "kept").glob("*.index"))) == 2  # of train and val
    assert folders_listed("b") == []


def checkpoint_read_back(tmp_path, _trees):
    """Past the kernel's memory: with O_DIRECT, or after the kernel was told to forget."""
    def trace_of(value):
        trace, folder = tmp_path / f"trace {value}", tmp_path / value
        folder.mkdir()
        command = ["strace", "-f", "-o", trace, "-e", "trace=openat,fadvise64,fcntl", trainer_ranks.PROGRAM, *SMALLEST, "--max-steps=1",
                   f"--checkpoint-dir={folder}", f"--checkpoint-read-back={value}"]
        subprocess.run(command, env=trainer_ranks.environment(tmp_path, 0, 1), check=True, capture_output=True)
        return trace.read_text()
    past = re.compile(r"O_DIRECT\b|POSIX_FADV_DONTNEED")
    assert past.search(trace_of("device")) and not past.search(trace_of("memory"))


def resume(tmp_path, _trees):
    train(tmp_path, "--max-steps=2", "--checkpoint-steps=1", "--checkpoint-overlap=wait")
    assert "step-00000002.h5 at epoch 1, step 2" in train(tmp_path, "--max-steps=3")
    assert "step-00000001.h5 at epoch 1, step 1" in train(tmp_path, "--max-steps=3", f"--resume={tmp_path}/step-00000001.h5")
    assert "resumed" not in train(tmp_path, "--max-steps=3", "--resume=never")


def verify(tmp_path, _trees):
    """A byte of a weight that flipped is found by full, and only by it."""
    train(tmp_path, "--max-steps=1")
    path = trainer_ranks.checkpoints(tmp_path)[0]
    import h5py
    with h5py.File(path) as file:
        offset = file["model/fc/weight"].id.get_offset() + file.userblock_size
    with open(path, "r+b") as file:
        file.seek(offset + 1000)
        byte = file.read(1)[0]
        file.seek(offset + 1000)
        file.write(bytes([byte ^ 1]))
    asked = ("--max-steps=2", f"--resume={path}")
    assert "model/fc/weight" in train(tmp_path / "b", *asked, code=65)
    assert "resumed from" in train(tmp_path / "c", *asked, "--verify=metadata")


def progress(tmp_path, _trees):
    lines, none, bar = (trainer_ranks.run(tmp_path / kind, *SMALLEST, "--max-steps=3", "--log-steps=1", f"--progress={kind}", ranks=1)
                        for kind in ("lines", "none", "bar"))
    erase = "\x1b[K"  # what a bar begins a line anew with
    assert lines.count("loss") >= 3 and erase not in lines
    assert "loss" not in none and erase in bar
    assert erase not in trainer_ranks.run(tmp_path / "auto", *SMALLEST, "--max-steps=3", ranks=1)  # no terminal here


ONE_FOLDER = "tests/python/test_one_training_one_folder.py"
TENSORBOARD = "tests/python/test_tensorboard.py"
BACKGROUND_SAVES = "tests/python/test_background_saves.py"
TABLE = {
    "data": Numbers({"data": "fake"}, {"fake-size": 40}),
    "train-num-workers": train_num_workers,
    "valid-num-workers": valid_num_workers,
    "prefetch": prefetch,
    "fake-size": Numbers({"fake-size": 50}, {"data": "fake", "fake-size": 40}),
    "image-size": Pixels({"image-size": 40}),
    "valid-resize": Pixels({"valid-resize": 48}),
    "crop-scale-min": Pixels({"crop-scale-min": 0.7}),
    "crop-scale-max": Pixels({"crop-scale-max": 0.3}),
    "crop-ratio-min": Pixels({"crop-ratio-min": 1.2}),
    "crop-ratio-max": Pixels({"crop-ratio-max": 0.9}),
    "flip": Pixels({"flip": 1.0}, {"flip": 0.0}),
    "vertical-flip": Pixels({"vertical-flip": 0.6}),
    "image-dtype": Pixels({"image-dtype": "bfloat16"}, {"mixup": 0.4}),
    "last-batch": Numbers({"last-batch": "pad"}, {"batch-size": 12}),
    "shuffle-window": Numbers({"shuffle-window": 5}),
    "exif-orientation": None,  # below: pictures that are turned
    "dct-scaling": dct_scaling,
    "bad-samples": bad_samples,
    "max-bad-samples": Elsewhere("tests/python/test_bad_samples.py", "test_too_many_end_the_run_by_name_and_leave_the_checkpoint_of_before"),
    "auto-augment": Pixels({"auto-augment": "trivial"}, tolerance=2e-3),
    "randaugment-ops": Pixels({"randaugment-ops": 1}, {"auto-augment": "randaugment"}, tolerance=2e-3),
    "randaugment-magnitude": Pixels({"randaugment-magnitude": 25}, {"auto-augment": "randaugment"}, tolerance=2e-3),
    "brightness": Pixels({"brightness": 0.6}, tolerance=1e-3),
    "contrast": Pixels({"contrast": 0.6}, tolerance=1e-3),
    "saturation": Pixels({"saturation": 0.8}, tolerance=1e-3),
    "hue": Pixels({"hue": 0.3}, tolerance=1e-3),
    "random-erase": Pixels({"random-erase": 0.7}),
    "random-erase-value": Pixels({"random-erase-value": "random"}, {"random-erase": 0.7}),
    "mixup": Numbers({"mixup": 0.5}),
    "cutmix": Numbers({"cutmix": 1.0}),
    "model": Numbers({"model": "resnet34"}),
    "num-classes": Numbers({"num-classes": 12}),
    "zero-init-residual": Numbers({"zero-init-residual": False}),
    "channels-last": channels_last,
    "epochs": Numbers({"epochs": 2}),
    "max-steps": Numbers({"max-steps": 3}),
    "batch-size": Numbers({"batch-size": 16}),
    "grad-accumulation": Numbers({"grad-accumulation": 2}, {"batch-size": 4}),
    "seed": Numbers({"seed": 3}),
    "optimizer": rounded({"optimizer": "adamw"}, {"lr": 0.001, "adam-eps": 1e-5}),
    "lr": Numbers({"lr": 0.006}),
    "lr-scaling": Numbers({"lr-scaling": "sqrt"}, {"batch-size": 4}, ranks=2),
    "lr-schedule": Numbers({"lr-schedule": "cosine"}),
    "lr-step-epochs": Numbers({"lr-step-epochs": 0.5}, {"lr-schedule": "step"}),
    "lr-step-factor": Numbers({"lr-step-factor": 0.6}, {"lr-schedule": "step", "lr-step-epochs": 0.5}),
    "warmup-epochs": Numbers({"warmup-epochs": 0.5}),
    "scale-optim-params": rounded({"scale-optim-params": True}, {**ADAMW, "batch-size": 4}, ranks=2),
    "momentum": Numbers({"momentum": 0.3}),
    "nesterov": Numbers({"nesterov": True}),
    "weight-decay": Numbers({"weight-decay": 0.5}),
    "adam-beta1": rounded({"adam-beta1": 0.5}, ADAMW),
    "adam-beta2": rounded({"adam-beta2": 0.5}, ADAMW),
    "adam-eps": rounded({"adam-eps": 1e-3}, ADAMW),
    "clip-grad-norm": rounded({"clip-grad-norm": 0.7}),
    "precision": Numbers({"precision": "bf16"}),
    "label-smoothing": Numbers({"label-smoothing": 0.3}),
    "parallel": parallel,
    "gradient-compression": Numbers({"gradient-compression": "bf16"}, {"batch-size": 4}, ranks=2),
    "find-unused-parameters": Elsewhere("tests/unit/trainer/train_config_test.cpp", "FindUnusedParameters"),
    "static-graph": Elsewhere("tests/unit/trainer/train_config_test.cpp", "StaticGraph"),
    "broadcast-buffers": Elsewhere("tests/unit/trainer/train_config_test.cpp", "BroadcastBuffers"),
    "first-bucket": Elsewhere("tests/unit/trainer/train_config_test.cpp", "FirstBucket"),
    "bucket": Elsewhere("tests/unit/trainer/train_config_test.cpp", "Bucket"),
    "shard-degree": Elsewhere("tests/unit/trainer/train_config_test.cpp", "ShardDegree"),
    "replicate-degree": Elsewhere("tests/unit/trainer/train_config_test.cpp", "ReplicateDegree"),
    "reshard-after-forward": Elsewhere("tests/unit/trainer/train_config_test.cpp", "ReshardAfterForward"),
    "param-dtype": Numbers({"param-dtype": "bf16"}, {"parallel": "fsdp", "batch-size": 4}, ranks=2, tolerance=1e-3),
    "reduce-dtype": Numbers({"reduce-dtype": "bf16"}, {"parallel": "fsdp", "batch-size": 4}, ranks=2),
    "accumulate": Elsewhere("tests/unit/trainer/train_config_test.cpp", "Accumulate"),
    "cpu-offload": Elsewhere("tests/unit/trainer/train_config_test.cpp", "CpuOffload"),
    "sync-bn": rounded({"sync-bn": True}, {"batch-size": 4}, ranks=2, tolerance=1e-3),
    "backend": backend,
    "collective-timeout": collective_timeout,
    "checkpoint-dir": checkpoint_dir,
    "checkpoint-epochs": checkpoint_epochs,
    "checkpoint-steps": checkpoint_steps,
    "keep-last": keep_last,
    "keep-best": Elsewhere(BACKGROUND_SAVES, "test_the_newest_the_best_and_one_of_every_so_many_are_kept"),
    "keep-every": Elsewhere(BACKGROUND_SAVES, "test_the_newest_the_best_and_one_of_every_so_many_are_kept"),
    "checkpoint-mode": Elsewhere(BACKGROUND_SAVES, "test_each_save_is_written_waited_for_or_left_out_and_the_last_one_is_there"),
    "checkpoint-stage": checkpoint_stage,
    "index-dir": index_dir,
    "checkpoint-overlap": Elsewhere(BACKGROUND_SAVES, "test_each_save_is_written_waited_for_or_left_out_and_the_last_one_is_there"),
    "checkpoint-read-back": checkpoint_read_back,
    "checkpoint-retries": Elsewhere(BACKGROUND_SAVES, "test_a_save_that_fails_is_a_warning_and_the_next_one_is_made"),
    "checkpoint-failures": Elsewhere(BACKGROUND_SAVES, "test_too_many_failures_in_a_row_stop_all_ranks"),
    "checkpoint-timeout": Elsewhere("tests/python/test_stalled_file_system.py", "test_after_a_save_that_took_too_long_the_next_ones_are_made"),
    "run-name": Elsewhere(ONE_FOLDER, "test_each_element_of_a_job_array_has_a_folder_and_a_name_decides"),
    "lease-timeout": Elsewhere(ONE_FOLDER, "test_a_holder_elsewhere_is_judged_by_its_renewals"),
    "max-skipped-steps": Elsewhere("tests/python/test_not_finite.py", "test_steps_without_finite_gradients_are_left_out_and_then_end_the_run"),
    "save-before-limit": Elsewhere("tests/python/test_save_before_limit.py", "test_all_ranks_save_and_end_before_the_limit_that_rank_0_knows"),
    "resume": resume,
    "verify": verify,
    "init-from": Elsewhere(BACKGROUND_SAVES, "test_a_training_begins_with_the_model_of_another_and_a_head_of_its_own"),
    "valid-epochs": Numbers({"valid-epochs": 2}, {"epochs": 2}),
    "run-dir": run_dir,
    "benchmark-epochs": benchmark_epochs,
    "progress": progress,
    "log-steps": Numbers({"log-steps": 3}),
    "rank-seconds": rank_seconds,
    "tensorboard": Elsewhere(TENSORBOARD, "test_curves_are_the_numbers_of_the_records_also_of_a_run_that_goes_on"),
    "tensorboard-histograms": Elsewhere(TENSORBOARD, "test_histograms_are_of_the_weights_of_that_step_and_their_gradients"),
    "report": Elsewhere("tests/python/test_report.py", "test_without_a_report_there_is_none_and_a_failed_one_is_no_failure"),
}


def exif_orientation(tmp_path, _trees):
    """Pictures that are turned by what their files say."""
    from PIL import Image
    root = whole_training.make_tree(tmp_path / "tree", train=4, valid=2)
    for i, path in enumerate(sorted(root.rglob("*.jpeg")) + sorted(root.rglob("*.JPG"))):
        exif = Image.Exif()
        exif[0x0112] = 1 + i % 8
        Image.open(path).save(path, format="JPEG", exif=exif, quality=92)
    prove_pixels(Pixels({"exif-orientation": True}), tmp_path / "run", Trees(str(root), ""))


TABLE["exif-orientation"] = exif_orientation


@pytest.mark.parametrize("setting", TABLE)
def test_the_setting_does_what_it_says(setting, tmp_path, trees):
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


def test_the_defaults_are_the_references():
    """The reference's defaults are written by hand: a default that changes by accident is noticed."""
    values = printed_settings()
    for name, default in reference.training.DEFAULTS.items():
        said = {"true": True, "false": False}[values[name]] if isinstance(default, bool) else type(default)(values[name])
        assert said == default, name
