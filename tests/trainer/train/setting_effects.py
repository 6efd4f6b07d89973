"""Effects of trainer settings other than on numbers, proved by running the program: functions for rows of test_trainer_settings.py."""
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import tomllib

import pytest
import launcher_runs
import reference.training
import small_trainings
import torch
import trainer_ranks
import whole_training

# One epoch of four steps with a validation behind it; every step is a record.
BASE = {**small_trainings.SMALL, "optimizer": "sgd", "epochs": 1, "log-steps": 1}
SMALLEST = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=4", "--fake-size=60", "--valid-epochs=0")


@functools.cache
def trained_reference(settings, ranks):
    return reference.training.train(dict(settings), ranks)


def reference_of(settings, ranks=1):
    return trained_reference(tuple(sorted(settings.items())), ranks)


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
    large = small_trainings.make_tree(tmp_path / "large", (400, 300), train=2, valid=1)
    settings = {**BASE, "model": "resnet18", "data": str(large), "crop-scale-min": 0.9, "lr": 1e-9}
    theirs = reference_of(settings).records[0]["loss"]
    plain, scaled = (whole_training.train_ours(tmp_path / value, {**settings, "dct-scaling": value == "on"}).records[0]["loss"]
                     for value in ("off", "on"))
    assert abs(plain - theirs) < 1e-5 * theirs and 1e-4 * theirs < abs(scaled - theirs) < 0.05 * theirs


def published_recipes():
    return sorted((pathlib.Path(trainer_ranks.PROGRAM).parent.parent / "share/rollcall/recipes").glob("*.toml"))


def train_recipe(tmp_path, trees, file):
    """A published recipe trains as Python does with the values of its file."""
    small = {**small_trainings.SMALL, **small_trainings.SAME_BITS, "data": trees.same_bits, "global-batch": 16, "batch-size": 8, "epochs": 1,
             "lr": 0.004, "log-steps": 1, "valid-image-size": 0, "image-size-schedule": "none", "precision": "fp32"}
    del small["lr-schedule"], small["weight-decay"]
    published = tomllib.loads(file.read_text())["trainer"]
    wanted = {**published, **small}
    wanted["lr-milestones"] = ",".join(published.get("lr-milestones", ["30", "60", "80"]))
    assert trainer_ranks.run(tmp_path / file.stem, f"--recipe={file.stem}", *small_trainings.options(small), ranks=1)
    ours = [json.loads(line) for line in (tmp_path / file.stem / "metrics.jsonl").read_text().splitlines()]
    theirs = reference_of(wanted).records
    whole_training.compare_records([r for r in ours if r["event"] in {"step", "epoch", "validation"}], theirs, whole_training.ROUNDED)


def recipe(tmp_path, trees):
    """One of each optimizer; the user's own settings have precedence."""
    files = {file.stem: file for file in published_recipes()}
    for name in ("goyal-90", "mlperf-lars", "rsb-a3"):
        train_recipe(tmp_path, trees, files[name])
    shown = subprocess.run([trainer_ranks.PROGRAM, "--recipe=goyal-90", "--lr=1", "--print-config", "--json"], capture_output=True, text=True,
                           check=True, env={**trainer_ranks.environment(tmp_path, 0, 1), "ROLLCALL_EPOCHS": "7"}).stdout
    config = json.JSONDecoder().raw_decode(shown)[0]
    assert config["lr"] == {"value": "1", "origin": "--lr"} and config["epochs"]["origin"] == "ROLLCALL_EPOCHS"
    assert config["momentum"] == {"value": "0.9", "origin": "recipe goyal-90"}


def trained_with_average(tmp_path, trees, settings):
    """The average differs from the weights, and changes nothing else."""
    settings = {**BASE, **small_trainings.SAME_BITS, "data": trees.same_bits, **settings}
    ours, theirs = whole_training.both(tmp_path, settings)
    plain = reference_of({name: value for name, value in settings.items() if not name.startswith("ema")})
    assert whole_training.distance(theirs.average, plain.state, plain.initial, ["fc.weight"]) > 0.01
    assert torch.equal(theirs.state["fc.weight"], plain.state["fc.weight"])
    return ours, theirs


def ema(tmp_path, trees):
    ours, _ = trained_with_average(tmp_path, trees, {"ema": 0.9})
    [validation] = [record for record in ours.records if record["event"] == "validation"]
    assert validation["ema_loss"] != validation["loss"] and "average of the weights: loss" in ours.printed


def ema_steps(tmp_path, trees):
    _, each = trained_with_average(tmp_path / "1", trees, {"ema": 0.9})
    _, second = trained_with_average(tmp_path / "2", trees, {"ema": 0.9, "ema-steps": 2})
    assert not torch.equal(each.average["fc.weight"], second.average["fc.weight"])


def freeze(tmp_path, trees):
    """What is frozen stays as it was, also where ranks divide the model, and the rest trains as in PyTorch."""
    settings = {**BASE, **small_trainings.SAME_BITS, "data": trees.same_bits, "batch-size": 4, "freeze": "conv1,bn1,layer1.0"}
    for parallel in "ddp", "fsdp":
        ours, _ = whole_training.both(tmp_path / parallel, {**settings, "parallel": parallel}, ranks=2)
        start = reference_of({**settings, "freeze": ""}, 2).initial
        same = {name for name, value in ours.state.items() if value.equal(start[name]) and "running" not in name}
        assert {"conv1.weight", "bn1.weight", "layer1.0.conv2.weight"} <= same and "layer1.1.conv1.weight" not in same
    for prefix, reason in ("layer9", "try --freeze=layer"), ("layer", "no parameter's name begins so"):
        assert reason in train(tmp_path / "refused", f"--freeze={prefix}", code=64)


def lr_factors(tmp_path, trees):
    """As param_groups, with DDP and FSDP; other optimizers have them in test_training_parity.py. A training may continue with others."""
    settings = {**BASE, **small_trainings.SAME_BITS, "data": trees.same_bits, "batch-size": 4, "freeze": "conv1",
                "lr-factors": "layer1=0.1,layer1.1=0.5,bn1=0.1,fc=3"}
    for parallel in "ddp", "fsdp":
        _, theirs = whole_training.both(tmp_path / parallel, {**settings, "parallel": parallel}, ranks=2)
        plain = reference_of({**settings, "parallel": parallel, "lr-factors": ""}, 2)
        assert whole_training.distance(theirs.state, plain.state, plain.initial, ["layer1.0.conv1.weight", "fc.weight"]) > 0.1
    options = ("--checkpoint-steps=1", "--freeze=layer1", "--optimizer=adamw")
    train(tmp_path / "run", *options, "--max-steps=2", "--lr-factors=fc=3")
    refused = train(tmp_path / "run", *options, "--max-steps=4", "--lr-factors=layer2=0.1,fc=3", code=76)
    assert "--lr-factors was fc=3 and is layer2=0.1,fc=3" in refused
    assert "resumed from" in train(tmp_path / "run", *options, "--max-steps=4", "--lr-factors=layer2=0.1,fc=3", "--resume=continue-with-changes")
    for factors, reason in ("layer9=0.1", "try --lr-factors=layer1=0.1"), ("layer1.0=2", "layer1.0: is not trained because of --freeze"), (
            "fc=0", "must be LAYER=FACTOR with a finite factor above 0; try --freeze=fc"), ("fc=-1", "above 0"), ("fc", "must be"), (
            "fc=1e300", "finite"), ("fc=1,fc=2", "is the second factor for fc"):
        assert reason in train(tmp_path / "refused", *options, f"--lr-factors={factors}", code=64), factors


def class_weights(tmp_path, trees):
    """Those of the data's counts equal the reference's; those of a file, too, and a file that does not fit is refused."""
    fake = {**BASE, "data": "fake", "fake-size": 60}
    for more in {"mixup": 0.5, "label-smoothing": 0.1}, {"loss": "bce"}:
        balanced = {**fake, **more, "class-weights": "balanced"}
        _, theirs = whole_training.both(tmp_path / f"{len(more)}", balanced)
        assert abs(theirs.records[0]["loss"] - reference_of({**fake, **more}).records[0]["loss"]) > 1e-4
    counts, path = {}, tmp_path / "weights.csv"
    for label in reference.training.pictures.open_data({**reference.training.DEFAULTS, **fake}).train_labels():
        counts[label] = counts.get(label, 0) + 1
    lines = [f"{name}, {sum(counts.values()) / (len(counts) * counts[name]) if name in counts else 1!r}" for name in range(10)]
    path.write_text("\n".join(lines) + "\n")
    of_file = whole_training.train_ours(tmp_path / "file", {**fake, "class-weights": str(path)})
    whole_training.compare_records(of_file.records, reference_of({**fake, "class-weights": "balanced"}).records, whole_training.ROUNDED)
    resumed = {**fake, "class-weights": str(path), "epochs": 2}
    other = tmp_path / "other.csv"
    path.rename(other)
    assert "resumed from" in trainer_ranks.run(tmp_path / "file", *small_trainings.options({**resumed, "class-weights": str(other)}), ranks=1)
    path.write_text("\n".join(lines).replace("0, ", "0, 1") + "\n")
    refused = trainer_ranks.run(tmp_path / "file", *small_trainings.options({**resumed, "epochs": 3}), ranks=1, code=76)
    assert f"--class-weights was {other}#" in refused and f"and is {path}#" in refused
    path.with_name("weights.csv#1a2b3c4d").write_text("\n".join(lines) + "\n")
    assert "ends like a checksum" in trainer_ranks.run(
        tmp_path / "refused", *small_trainings.options({**fake, "class-weights": f"{path}#1a2b3c4d"}), ranks=1, code=64)
    for text, reason in ("0,1\n", "has no weight for 1"), ("0,1\n0,2\n", "has two weights for 0"), ("cat,1\n", "cat is not a class"), (
            "0,-1\n", "is not a name, a comma and a positive number"):
        path.write_text(text)
        assert reason in trainer_ranks.run(tmp_path / "refused", *small_trainings.options({**fake, "class-weights": str(path)}), ranks=1,
                                           code=64)


def early_stopping(tmp_path, _trees):
    """It counts validations since the best one, also those before a resume, and a training that it ended stays ended."""
    options = ("--valid-epochs=1", "--epochs=9", "--early-stopping=2")
    printed = train(tmp_path / "whole", *options)
    found = trainer_ranks.records(tmp_path / "whole", "validation")
    best = max(range(len(found)), key=lambda i: found[i]["top1"])
    assert len(found) == best + 3 < 9 and "the training ends (--early-stopping)" in printed, printed
    again = train(tmp_path / "whole", *options)
    assert trainer_ranks.records(tmp_path / "whole", "validation") == found, again
    train(tmp_path / "parts", *options, f"--epochs={best + 2}")
    train(tmp_path / "parts", *options)
    assert trainer_ranks.records(tmp_path / "parts", "validation") == found


def broken_tree(folder):
    root = small_trainings.make_tree(folder)
    bad = sorted(path for path in (root / "train").rglob("*.jpeg"))[5]
    bad.write_bytes(bad.read_bytes()[:200])
    return root, bad


def bad_samples(tmp_path, _trees):
    root, bad = broken_tree(tmp_path / "tree")
    settings = {**BASE, "data": str(root)}
    ours = whole_training.train_ours(tmp_path / "skip", settings)
    assert f"{bad}" in ours.printed and [r["samples"] for r in ours.records if r["event"] == "epoch"] == [63]
    printed = trainer_ranks.run(tmp_path / "fail", *small_trainings.options({**settings, "bad-samples": "fail"}), ranks=1, code=65)
    assert str(bad) in printed


def channels_last(tmp_path, trees):
    """Another memory format adds up in another order: the last bits are Python's of the same format."""
    losses = {}
    for on in (True, False):
        settings = {**BASE, **small_trainings.SAME_BITS, "data": trees.same_bits, "channels-last": on}
        losses[on] = [r["loss"] for r in whole_training.train_ours(tmp_path / str(on), settings).records]
        assert losses[on] == pytest.approx([r["loss"] for r in reference_of(settings).records], rel=1e-5)
    assert losses[True] != losses[False]


def parallel(tmp_path, _trees):
    """Settings of fsdp are rejected with ddp and none, and those of ddp with fsdp; none requires a single rank."""
    for kind, foreign in (("ddp", "--reduce-dtype=bf16"), ("fsdp", "--bucket=1"), ("none", "--reduce-dtype=bf16")):
        assert f"--parallel={kind}" in train(tmp_path / f"{kind} refused", f"--parallel={kind}", foreign, ranks=1, code=64)
    outputs = [train(tmp_path / kind, f"--parallel={kind}", "--max-steps=1", ranks=2) for kind in ("ddp", "fsdp")]
    assert all("2 ranks on" in printed for printed in outputs)
    assert "2 ranks would each train alone" in train(tmp_path / "none", "--parallel=none", "--max-steps=1", ranks=2, code=76)
    assert "1 rank on" in train(tmp_path / "alone", "--parallel=none", "--max-steps=1")


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
    """A stopped rank is an error on the other one after the timeout, and not before."""
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
    """The file is first written in the stage; nothing is left there."""
    stage, trace = tmp_path / "stage", tmp_path / "trace"
    stage.mkdir()
    (tmp_path / "a").mkdir()
    command = ["strace", "-f", "-o", trace, "-e", "trace=open,openat,rename,renameat,renameat2", trainer_ranks.PROGRAM, *SMALLEST,
               "--max-steps=1", f"--checkpoint-dir={tmp_path}/a", f"--checkpoint-stage={stage}"]
    subprocess.run(command, env=trainer_ranks.environment(tmp_path, 0, 1), check=True, capture_output=True)
    assert re.search(rf'"{stage}/[^"]*step-00000001[^"]*", [A-Z_|]*O_CREAT', trace.read_text())
    assert steps_saved(tmp_path / "a") == [1] and not [path for path in stage.rglob("*") if path.is_file()]


def class_names(tmp_path, trees):
    """Lists of a tree's images are the same training as the tree; with other numbers of the classes it is another one."""
    for part in ("train", "val"):
        files, classes = reference.pictures.files_of(pathlib.Path(trees.same_bits) / part)
        (tmp_path / f"{part}.csv").write_text("label,path\n" + "".join(f'"{classes[label]}",{path}\n' for path, label in files))
    settings = {**BASE, **small_trainings.SAME_BITS, "data": trees.same_bits}
    theirs = reference_of(settings)
    ours = whole_training.train_ours(tmp_path / "a", {**settings, "data": tmp_path})
    whole_training.compare(ours, theirs, whole_training.SAME)
    (tmp_path / "names.txt").write_text("\n".join(reversed(classes)))
    other = whole_training.train_ours(tmp_path / "b", {**settings, "data": tmp_path}, more=[f"--class-names={tmp_path}/names.txt"])
    assert [record["samples"] for record in other.records] == [record["samples"] for record in theirs.records]
    assert abs(other.records[0]["loss"] - theirs.records[0]["loss"]) > 1e-3


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
    """Bypasses the page cache: with O_DIRECT, or after POSIX_FADV_DONTNEED."""
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
