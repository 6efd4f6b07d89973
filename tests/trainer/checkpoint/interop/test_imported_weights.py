"""Weights as the usual PyTorch trainers save them: found among other objects, none of which is executed."""
import argparse
import collections
import json
import pathlib
import zipfile

import numpy
import pytest
import reference.networks
import torch
import torch.distributed.checkpoint.format_utils
import torch.distributed.tensor
import trainer_ranks
from test_checkpoint_exchange import Malicious, same, save, tool

pytestmark = pytest.mark.python


def trained():
    """A model and its optimizer after a step, so that there are moments."""
    torch.manual_seed(5)
    model = reference.networks.make("resnet20", num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.nn.functional.cross_entropy(model(torch.randn(4, 3, 32, 32)), torch.arange(4)).backward()
    optimizer.step()
    return model, optimizer


def of_torchvisions_reference():
    """What references/classification/train.py saves with --model-ema and --amp."""
    model, optimizer = trained()
    average = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda old, new, _: 0.5 * (old + new), use_buffers=True)
    average.update_parameters(model)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=5),
        torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 60])], milestones=[5])
    args = argparse.Namespace(data_path="/data/imagenet", model="resnet20", lr=0.5, norm_weight_decay=None, model_ema=True,
                              output_dir=pathlib.PurePosixPath("out"), distributed=True, gpu=0, device="cuda")
    return model, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "lr_scheduler": schedule.state_dict(),
                   "epoch": 7, "args": args, "model_ema": average.state_dict(),
                   "scaler": torch.amp.GradScaler("cpu").state_dict()}


def of_timm():
    """What timm's CheckpointSaver saves of a compiled model with --amp and --model-ema; `metric` is NumPy's mean."""
    model, optimizer = trained()
    args = argparse.Namespace(model="resnet20", amp=True, mean=(0.485, 0.456, 0.406), opt_betas=None, aug_splits=0)
    return model, {"epoch": 3, "arch": "resnet20", "optimizer": optimizer.state_dict(), "version": 2, "args": args,
                   "amp_scaler": torch.amp.GradScaler("cpu").state_dict(),
                   "state_dict": {f"_orig_mod.{key}": value for key, value in model.state_dict().items()},
                   "state_dict_ema": model.state_dict(), "metric": numpy.mean([75.0, 76.5])}


class AttributeDict(dict):
    """Of hyper-parameters, as Lightning's."""


def of_lightning():
    """What Lightning's ModelCheckpoint saves of a module with `self.model` and a criterion that has a weight."""
    model, optimizer = trained()
    state = collections.OrderedDict((f"model.{key}", value) for key, value in model.state_dict().items())
    state["criterion.weight"] = torch.ones(10)
    return model, {"epoch": 2, "global_step": 80, "pytorch-lightning_version": "2.6.6", "state_dict": state,
                   "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 2}}}},
                   "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5), "kth_value": torch.tensor(1.0)}},
                   "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [], "hparams_name": "kwargs",
                   "hyper_parameters": AttributeDict(lr=0.1, betas=(0.9, 0.99))}


def beside(state):
    """A checkpoint with all kinds of Python objects beside the weights."""
    return {"model": state, "random": numpy.random.default_rng(1).bit_generator.state, "python": (3, tuple(range(5)), None),
            "seed": 2**64 - 1, "history": numpy.arange(3), "names": {"a", "b"}, "bytes": b"\x00\xff", "counts": collections.Counter("aab"),
            "by_class": collections.defaultdict(list, {1: [2]}), "last": collections.deque([1.5], maxlen=3), "dtype": torch.bfloat16,
            "device": torch.device("cpu"), "size": torch.Size([1, 2]), "path": pathlib.PurePosixPath("/x"), "frozen": frozenset([1]),
            "array": bytearray(b"x"), "function": collections.OrderedDict, "complex": 1j}


def imported(saved, tmp_path, *options, **how):
    torch.save(saved, tmp_path / "in.pth", **how)
    text = tool("import", *options, "--overwrite", tmp_path / "in.pth", tmp_path / "x.h5")
    tool("export", "--overwrite", tmp_path / "x.h5", tmp_path / "out.pth")
    return text, torch.load(tmp_path / "out.pth", weights_only=True)


@pytest.mark.parametrize("made", [of_torchvisions_reference, of_timm, of_lightning])
def test_import_skips_everything_but_the_weights(made, tmp_path):
    model, saved = made()
    text, found = imported(saved, tmp_path)
    assert "resnet20 with 10 classes" in text
    same(dict(found), model.state_dict())


@pytest.mark.parametrize("made, key, before, left_out", [
    (of_torchvisions_reference, "model_ema", "module.", ["n_averaged"]), (of_timm, "state_dict", "_orig_mod.", []),
    (of_timm, "state_dict_ema", "", []), (of_lightning, "", "model.", ["criterion.weight"])])
def test_prefixes_of_wrappers_are_removed_and_reported(made, key, before, left_out, tmp_path):
    model, saved = made()
    text, found = imported(saved, tmp_path, f"--key={key}", "--json")
    told = json.loads(text)
    assert (told["model"], told["prefix"], told["left_out"]) == ("resnet20", before, left_out)
    model.load_state_dict(found, strict=True)
    text = tool("import", f"--key={key}", "--overwrite", tmp_path / "in.pth", tmp_path / "x.h5")
    assert (f'the prefix "{before}" is removed' in text) == bool(before)
    assert ("left out: " in text) == bool(left_out)


def test_a_model_is_found_under_any_module_name(tmp_path):
    """Lightning modules may give the model any name; tensors beside it are reported."""
    model, _ = trained()
    state = {f"net.{key}": value for key, value in model.state_dict().items()} | {"metric.a": torch.ones(2), "metric.b": torch.ones(2)}
    text, found = imported({"state_dict": state}, tmp_path)
    assert "resnet20 with 10 classes" in text and 'the prefix "net." is removed' in text and "left out: metric.a and 1 more" in text
    same(dict(found), model.state_dict())


@pytest.mark.parametrize("names", [("net.", "teacher.net."), ("model.", "ema."), ("", "ema.")])
@pytest.mark.parametrize("within", [None, "state_dict", "safetensors"])
def test_key_selects_one_of_two_models_in_a_state_dict(names, within, tmp_path):
    models = [trained()[0].state_dict() for _ in names]
    models[1] = {key: value + 1 for key, value in models[1].items()}
    both = {name + key: value for name, model in zip(names, models) for key, value in model.items()}
    path = tmp_path / ("in.safetensors" if within == "safetensors" else "in.pth")
    save({within: both} if within == "state_dict" else both, path)
    text, key = import_error(path, tmp_path), names[1][:-1]
    assert "holds several models, whose names have different prefixes: " in text and all(f'"{name}"' in text for name in names)
    assert "try rollcall-checkpoint import --key=" in text
    told = json.loads(tool("import", f"--key={key}", "--json", path, tmp_path / "x.h5"))
    assert (told["model"], told["prefix"]) == ("resnet20", names[1])
    tool("export", tmp_path / "x.h5", tmp_path / "out.pth")
    same(torch.load(tmp_path / "out.pth"), models[1])
    text = tool("import", "--key=other", "--overwrite", path, tmp_path / "x.h5", code=65)
    assert "keys that begin with other." in text
    linear = {f"{name}.w": torch.ones(2) for name in ("a", "b", "b.c")}  # of no model that is known
    same(dict(imported(linear, tmp_path, "--key=b")[1]), {"w": torch.ones(2), "c.w": torch.ones(2)})


def test_tensors_beside_a_nested_state_dict_require_a_key(tmp_path):
    one = {f"w{i}": torch.ones(2) for i in range(4)}
    for key in ("optimizer", "state_dict"):
        torch.save({"a": torch.ones(2), "b": torch.zeros(2), key: one}, tmp_path / "in.pth")
        text = import_error(tmp_path / "in.pth", tmp_path)
        assert f"holds 2 tensors beside the dict {key}; try rollcall-checkpoint import --key={key}" in text
        same(dict(imported({"loss": torch.ones(2), key: one}, tmp_path)[1]), one)  # a metric is no model
        same(dict(imported({"a": torch.ones(2), "b": torch.zeros(2), key: one}, tmp_path, f"--key={key}")[1]), one)


def test_an_unknown_model_keeps_all_its_tensors(tmp_path):
    inner = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    average = torch.optim.swa_utils.AveragedModel(inner)
    same(dict(imported(average.state_dict(), tmp_path)[1]), inner.state_dict())
    state = {**{f"model.{key}": value for key, value in inner.state_dict().items()}, "criterion.weight": torch.ones(3)}
    same(dict(imported({"state_dict": state}, tmp_path)[1]), {**inner.state_dict(), "criterion.weight": torch.ones(3)})


def test_weights_without_batch_counters_or_in_half_are_recognised(tmp_path):
    model, _ = trained()
    bare = {key: value for key, value in model.state_dict().items() if not key.endswith("num_batches_tracked")}
    for state in (bare, model.half().state_dict()):
        text, found = imported(state, tmp_path)
        assert "resnet20 with 10 classes" in text
        same(dict(found), state)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_other_python_objects_are_skipped_in_every_pickle_protocol(protocol, tmp_path):
    state = {"w": torch.arange(6.0).reshape(2, 3), "buffer": torch.nn.Buffer(torch.ones(2)),
             "parameter": torch.nn.Parameter(torch.ones(3))}
    state["parameter"].of_a_program = 1
    found = imported(beside(state), tmp_path, pickle_protocol=protocol)[1]
    same(dict(found), {key: value.detach() for key, value in state.items()})


def test_import_takes_the_only_state_dict_or_the_one_given_by_key(tmp_path):
    one, other = {"w": torch.ones(2)}, {"w": torch.zeros(3)}
    same(dict(imported({"net": one, "epoch": 3, "optimizer": {"state": {0: one}}}, tmp_path)[1]), one)
    same(dict(imported({"state": {"model": one, "seed": 1}}, tmp_path)[1]), one)
    same(dict(imported({"generator": one, "critic": other}, tmp_path, "--key=critic")[1]), other)
    same(dict(imported({"state": {"a": one, "b": other}}, tmp_path, "--key=state.b")[1]), other)
    torch.save({"generator": one, "critic": other}, tmp_path / "two.pth")
    text = tool("import", tmp_path / "two.pth", tmp_path / "y.h5", code=65)
    assert "several state dicts: generator, critic; try rollcall-checkpoint import --key=generator" in text


def test_unknown_objects_among_the_weights_are_rejected_by_name(tmp_path):
    for name, saved, named in [
            ("object", {"model": {"w": torch.ones(2), "x": Malicious(tmp_path / "ran")}},
             "holds x, which is an object of Python's posix.system"),
            ("array", {"model": {"w": torch.ones(2), "x": numpy.ones(2)}}, "holds x, which is an object of Python's numpy"),
            ("module", {"model": torch.nn.Linear(2, 2), "epoch": 1}, "its model is an object of Python's torch.nn.modules.linear.Linear"),
            ("type", {"w": torch.ones(2, dtype=torch.complex64)}, "torch.ComplexFloatStorage"),
            ("negated", {"w": torch._neg_view(torch.ones(2))}, "torch.Tensor with metadata"),
            ("sparse", {"w": torch.eye(2).to_sparse()}, "_rebuild_sparse_tensor")]:
        torch.save(saved, tmp_path / f"{name}.pth")
        text = tool("import", tmp_path / f"{name}.pth", tmp_path / "x.h5", code=65)
        assert named in text and "no code was run" in text, text
    same(dict(imported({"model": {"w": torch.ones(2)}, "x": Malicious(tmp_path / "ran")}, tmp_path)[1]), {"w": torch.ones(2)})
    assert not (tmp_path / "ran").exists()


OPTIONS = (*trainer_ranks.SMALL, "--fake-size=20", "--max-steps=1", "--lr=0", "--num-classes=10", "--valid-epochs=0")


def begun_with(path, folder, *options, ranks=1):
    """The parameters after a step of rate 0, and what the training printed."""
    text = trainer_ranks.run(folder, *OPTIONS, f"--init-from={path}", *options, ranks=ranks)
    return trainer_ranks.model_in(folder / "step-00000001.h5"), text


def expect_parameters(found, model):
    expected = {key: value.detach().float().numpy() for key, value in model.named_parameters()}
    assert [key for key, value in expected.items() if not numpy.array_equal(found[key], value)] == []


@pytest.mark.parametrize("made", [of_torchvisions_reference, of_timm, of_lightning])
def test_init_from_loads_checkpoints_of_other_trainers(made, tmp_path):
    model, saved = made()
    torch.save(saved, tmp_path / "in.pth")
    found, text = begun_with(tmp_path / "in.pth", tmp_path / "run")
    assert f"the model starts from {tmp_path}/in.pth" in text
    expect_parameters(found, model)


@pytest.mark.parametrize("ending, options, ranks", [(".pth", (), 1), (".safetensors", ("--parallel=fsdp",), 2), (".h5", (), 1)])
def test_init_from_converts_dtype_prefix_and_head(ending, options, ranks, tmp_path):
    """Half precision, no counters of batches, and a head with other classes; behind the name of a Lightning module."""
    model = trained()[0].half()
    state = {f"net.{key}": value for key, value in model.state_dict().items() if not key.endswith("num_batches_tracked")}
    state["criterion"] = torch.ones(3)  # beside the model
    path = tmp_path / f"in{ending}"
    if ending == ".h5":
        torch.save({f"x.{key}": value for key, value in state.items() if "fc." not in key}, tmp_path / "in.pth")
        tool("import", tmp_path / "in.pth", path)  # of no known model: kept as it is
    else:
        save(state, path)
    found, text = begun_with(path, tmp_path / "run", *options, ranks=ranks)
    before = "x.net." if ending == ".h5" else "net."
    for change in (f'prefix "{before}" removed from its keys', "float16 converted to float32", "num_batches_tracked, which the file lacks"):
        assert change in text
    if ending == ".h5":
        assert "except for its last layer: fc.weight is in this model but not in the file" in text
        found |= {key: value.detach().float().numpy() for key, value in model.named_parameters() if key.startswith("fc.")}
    expect_parameters(found, model)


def refused(state, tmp_path, code=76):
    torch.save(state, tmp_path / "refused.pth")
    return trainer_ranks.run(tmp_path / "run", *OPTIONS, f"--init-from={tmp_path}/refused.pth", ranks=1, code=code)


@pytest.mark.parametrize("before", ["", "net."])
def test_init_from_rejects_weights_of_a_larger_network(before, tmp_path):
    """As with load_state_dict(strict=True). Only the last layer may differ; it is then initialised anew."""
    larger = {before + key: value for key, value in reference.networks.SmallImages(5, num_classes=10).state_dict().items()}
    assert "is of another model: layer1.3.conv1.weight is in the file but not in this model" in refused(larger, tmp_path)
    whole = {before + key: value for key, value in trained()[0].state_dict().items()}
    refusal = refused({**whole, f"{before}fc.scale": torch.ones(10)}, tmp_path)
    assert "is of another model: fc.scale is in the file but not in this model" in refusal
    head = {**{key: value for key, value in whole.items() if "fc." not in key}, f"{before}fc.0.weight": torch.ones(10, 64),
            f"{before}layer1.0.num_batches_tracked": torch.tensor(3)}
    torch.save(head, tmp_path / "head.pth")
    assert "except for its last layer: fc.weight is in this model but not in the file" in begun_with(tmp_path / "head.pth", tmp_path / "run")[1]


@pytest.mark.parametrize("names", [("student.", "ema."), ("model.", "ema."), ("", "ema.")])
def test_init_from_rejects_a_state_dict_of_two_models(names, tmp_path):
    """The second lacks num_batches_tracked and is otherwise complete."""
    student, model = trained()[0].state_dict(), trained()[0]
    bare = {key: value for key, value in model.state_dict().items() if not key.endswith("num_batches_tracked")}
    both = {**{names[0] + key: value for key, value in student.items()}, **{names[1] + key: value for key, value in bare.items()}}
    text, shown = refused(both, tmp_path), names[0] or '""'
    assert f"holds several models: {shown}, ema.; try running torch.save({{k[4:]: v for k, v in state_dict.items()" in text
    assert "if k.startswith('ema.')}, FILE) in Python" in text
    state_dict = both  # and so one is made
    torch.save({k[4:]: v for k, v in state_dict.items() if k.startswith('ema.')}, tmp_path / "one.pth")
    expect_parameters(begun_with(tmp_path / "one.pth", tmp_path / "run")[0], model)


@pytest.mark.parametrize("made, taken, other", [(of_torchvisions_reference, "model", "model_ema"), (of_timm, "state_dict", "state_dict_ema")])
def test_the_chosen_state_dict_and_the_other_are_reported(made, taken, other, tmp_path):
    saved = made()[1]
    told = f"{taken} was chosen; the file also holds {other} (rollcall-checkpoint import --key={other})"
    assert told in imported(saved, tmp_path)[0]
    assert told in begun_with(tmp_path / "in.pth", tmp_path / "run")[1]
    assert "also holds" not in imported(saved, tmp_path, f"--key={other}")[0]
    text = json.loads(imported(saved, tmp_path, "--json")[0])
    assert (text["key"], text["other_keys"]) == (taken, [other])
    assert "also holds" not in imported(of_lightning()[1], tmp_path)[0]  # a criterion, metrics and moments are no models


def test_errors_of_init_from_and_resume_suggest_a_remedy(tmp_path):
    torch.save({"generator": {"w": torch.ones(2)}, "critic": {"w": torch.ones(2)}}, tmp_path / "two.pth")
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, f"--init-from={tmp_path}/two.pth", ranks=1, code=65)
    assert "--init-from: " in text and "try rollcall-checkpoint import --key=generator" in text
    torch.save({"w": torch.ones(2)}, tmp_path / "other.pth")
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, f"--resume={tmp_path}/other.pth", ranks=1, code=65)
    assert "--resume: " in text and "holds the weights of a model only, not the state of a training; try --init-from=FILE" in text
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, f"--init-from={tmp_path}/other.pth", ranks=1, code=76)
    assert "is of another model: conv1.weight is in this model but not in the file" in text


def import_error(path, tmp_path, code=65):
    return tool("import", path, tmp_path / "x.h5", code=code)


def test_errors_for_torchscript_suggest_the_conversion(tmp_path):
    model = torch.nn.Linear(2, 2)
    torch.jit.script(model).save(tmp_path / "script.pt")
    text = import_error(tmp_path / "script.pt", tmp_path)
    assert "is a TorchScript model; try running torch.save(torch.jit.load(FILE).state_dict(), NEW_FILE)" in text
    torch.save(torch.jit.load(tmp_path / "script.pt").state_dict(), tmp_path / "new.pth")  # and so it is
    tool("import", tmp_path / "new.pth", tmp_path / "new.h5")
    with zipfile.ZipFile(tmp_path / "new.pth") as stored, zipfile.ZipFile(tmp_path / "small.pth", "w", zipfile.ZIP_DEFLATED) as small:
        for name in stored.namelist():
            small.writestr(name, stored.read(name))
    assert "is a compressed or encrypted zip archive" in import_error(tmp_path / "small.pth", tmp_path)


def test_errors_for_sharded_checkpoints_suggest_the_conversion(tmp_path):
    torch.distributed.checkpoint.save({"model": torch.nn.Linear(2, 2).state_dict()}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    text = import_error(tmp_path / "dcp", tmp_path, code=66)
    assert f"try python -m {torch.distributed.checkpoint.format_utils.__name__} dcp_to_torch {tmp_path}/dcp FILE.pth" in text
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, f"--init-from={tmp_path}/dcp", ranks=1, code=66)
    assert "--init-from: " in text and f"dcp_to_torch {tmp_path}/dcp FILE.pth" in text
    torch.distributed.checkpoint.format_utils.dcp_to_torch_save(tmp_path / "dcp", tmp_path / "one.pth")
    same(dict(imported(torch.load(tmp_path / "one.pth", weights_only=True), tmp_path)[1]),
         dict(torch.load(tmp_path / "one.pth", weights_only=True)["model"]))

    (tmp_path / "zero").mkdir()
    (tmp_path / "zero" / "zero_to_fp32.py").write_text("")
    assert "zero_to_fp32.py in it" in import_error(tmp_path / "zero", tmp_path, code=66)
    part = {"module": {"w": torch.zeros(0)}, "ds_config": {}, "ds_version": "0.18.0", "param_shapes": [{"w": torch.Size([3])}]}
    for name, saved in {"model": part, "optimizer": {"optimizer_state_dict": {"zero_stage": 3}, "ds_version": "0.18.0"}}.items():
        torch.save(saved, tmp_path / f"{name}_states.pt")
        text = import_error(tmp_path / f"{name}_states.pt", tmp_path)
        assert "one rank's part of a DeepSpeed checkpoint; try running the script zero_to_fp32.py" in text
    whole = {"w": torch.ones(3)}
    same(dict(imported({**part, "module": whole}, tmp_path)[1]), whole)  # ZeRO-1 and 2

    for name in ("model-00001-of-00003.safetensors", "pytorch_model-00002-of-00003.bin", "model.safetensors.index.json"):
        (tmp_path / name).write_text("{}")
        assert "of several files of a model" in import_error(tmp_path / name, tmp_path).replace("the several", "several")
    torch.save(whole, tmp_path / "model-00001-of-00001.bin")
    tool("import", tmp_path / "model-00001-of-00001.bin", tmp_path / "y.h5")


def test_a_dtensor_shard_is_rejected_by_name(tmp_path, monkeypatch):
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        divided = torch.distributed.tensor.distribute_tensor(torch.ones(4), mesh, [torch.distributed.tensor.Shard(0)])
        torch.save({"model": {"w": divided}}, tmp_path / "rank0.pth")
    finally:
        torch.distributed.destroy_process_group()
    text = import_error(tmp_path / "rank0.pth", tmp_path)
    assert "holds w, which is an object of Python's torch.distributed.tensor.DTensor" in text and "full_state_dict=True" in text
