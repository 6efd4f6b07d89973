"""Trains the same thing with rollcall-train and with the reference, and compares all that both leave. Shared by tests of whole trainings."""
import dataclasses
import json

import numpy
import torch

import reference.training
import trainer_ranks
from small_trainings import options

# Tolerances, as parts of how far something moved: two sides that do the same in the same order, and those that round differently
# (AdamW and norms of gradients in torch's C++ and Python), compared step by step.
SAME, ROUNDED = 1e-5, 5e-5
# Settings of the program that the reference need not know: what they are changes no number.
QUIET = {"progress": "lines", "checkpoint-epochs": 0, "train-num-workers": 1, "valid-num-workers": 0}


@dataclasses.dataclass
class Ours:
    records: list
    state: dict
    moments: dict
    average: dict  # of the weights, with --ema
    loss_scale: float
    skipped_steps: int
    printed: str


def read_checkpoint(path):
    import h5py
    state = {name: torch.from_numpy(numpy.array(value)) for name, value in trainer_ranks.model_in(path).items()}
    with h5py.File(path) as file:
        moments = {}
        for key in state:
            group = file.get("optimizer/state/" + key, file.get("optimizer/state/" + key.replace(".", "/")))
            if group is not None:
                moments[key] = {name: torch.as_tensor(numpy.array(group[name][()])) for name in group}
        average = {key: torch.from_numpy(numpy.array(file["ema/" + key.replace(".", "/")][()])) for key in state if "ema" in file}
        return state, moments, average, float(file["loss_scale/scale"][()]), int(file["progress/skipped_steps"][()])


def train_ours(folder, settings, ranks=1, more=(), env=None):
    printed = trainer_ranks.run(folder, *options({**QUIET, **settings}), *more, ranks=ranks, env=env)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    records = [line for line in lines if line["event"] in ("step", "epoch", "validation")]
    return Ours(records, *read_checkpoint(trainer_ranks.checkpoints(folder)[-1]), printed)


COMPARED = {"step": ("epoch", "learning_rate"), "epoch": ("epoch",), "validation": ("epoch",)}


def compare_records(ours, theirs, tolerance):
    """Same events at the same steps with the same numbers; one image may be on the other side of a near tie."""
    assert [(r["event"], r["step"]) for r in ours] == [(r["event"], r["step"]) for r in theirs]
    for our, their in zip(ours, theirs):
        where = f"{our} instead of {their}"
        assert our["samples"] == their["samples"], where
        for name in COMPARED[our["event"]]:
            assert abs(our[name] - their[name]) <= 1e-12 * abs(their[name]), where
        for prefix in [""] + ["ema_"] * ("ema_loss" in their):
            assert abs(our[prefix + "loss"] - their[prefix + "loss"]) <= tolerance * their[prefix + "loss"], where
            for name in ("top1", "top5"):
                assert abs(our[prefix + name] - their[prefix + name]) * their["samples"] < 1.5, where
            precision = prefix + "mean_average_precision"
            assert (precision in our) == (precision in their), where
            assert abs(our.get(precision, 0) - their.get(precision, 0)) <= 1e-6, where


def distance(ours, theirs, start, names):
    """How far two states are apart, as a part of how far the second moved."""
    def squares(a, b):
        return sum((a[name].double() - b[name].double()).square().sum().item() for name in names)
    return (squares(ours, theirs) / max(squares(theirs, start), 1e-30)) ** 0.5


def compare_states(ours, theirs, start, tolerance):
    """Weights, kernel by kernel, and statistics, as parts of how far they moved from `start`."""
    assert list(ours) == list(theirs)
    of_kind = {"statistics": [name for name in theirs if "running" in name],
               "norms and biases": [name for name, value in theirs.items() if value.ndim == 1 and "running" not in name],
               **{name: [name] for name, value in theirs.items() if value.ndim > 1}}
    far = {kind: distance(ours, theirs, start, names) for kind, names in of_kind.items()}
    assert max(far.values()) <= tolerance, {kind: value for kind, value in far.items() if value > tolerance}
    assert all(int(ours[name]) == int(theirs[name]) for name in theirs if "num_batches" in name)


def compare_moments(ours, theirs, tolerance):
    assert {key: sorted(value) for key, value in ours.items()} == {key: sorted(value) for key, value in theirs.items()}
    for part in next(iter(theirs.values()), {}):
        zero = {key: torch.zeros_like(value[part]) for key, value in theirs.items()}
        far = distance({k: v[part] for k, v in ours.items()}, {k: v[part] for k, v in theirs.items()}, zero, list(theirs))
        assert far <= tolerance, f"{part}: {far}"


def compare(ours, theirs, tolerance):
    compare_records(ours.records, theirs.records, tolerance)
    compare_states(ours.state, theirs.state, theirs.initial, tolerance)
    compare_moments(ours.moments, theirs.moments, tolerance)
    compare_states(ours.average, theirs.average, theirs.initial, tolerance) if theirs.average else None
    assert bool(ours.average) == bool(theirs.average)
    assert (ours.loss_scale, ours.skipped_steps) == (theirs.loss_scale, theirs.skipped_steps)


def follow(folder, tolerance):
    """For the reference's after_step: its step is the program's checkpoint of that step, from which it then goes on."""
    before = {}

    def compare_step(training):
        path = folder / f"step-{training.step:08}.h5"
        state, moments, _, _, _ = read_checkpoint(path)
        path.unlink()
        compare_states(state, training.state(), before or training.initial, tolerance)
        compare_moments(moments, training.moments(), tolerance)
        training.go_on_from(state, moments)
        before.update(state)

    return compare_step


def both(folder, settings, ranks=1, tolerance=SAME, each_step=False):
    """Trains twice and compares; (ours, theirs).

    With `each_step` the reference takes every step from where the program took it: for trainings whose two sides round differently.
    There a ReLU whose input is nearly zero makes much of a last bit; after enough steps one of them has, on one processor or another.
    """
    saves = ("--checkpoint-steps=1", "--checkpoint-mode=sync", "--keep-last=1000") if each_step else ()
    settings = {**settings, "log-steps": 1} if each_step else settings  # a save makes a record of its step
    ours = train_ours(folder, settings, ranks, saves)
    theirs = reference.training.train(settings, ranks, after_step=follow(folder, tolerance) if each_step else None)
    compare(ours, theirs, tolerance)
    return ours, theirs
