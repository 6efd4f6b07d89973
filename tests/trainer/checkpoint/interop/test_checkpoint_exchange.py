"""rollcall-checkpoint converts models from and to PyTorch: files of torch.save and safetensors; no pickle is executed."""
import collections
import os
import pickle
import subprocess
import zipfile

import parity
import pytest
import torch
import torchvision

pytestmark = pytest.mark.python
PROGRAM = parity.TOOL.parents[1] / "trainer" / "rollcall-checkpoint"


def tool(*arguments, code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout + done.stderr


def every_type():
    state = {str(t).removeprefix("torch."): (torch.arange(24).reshape(2, 3, 4) - 5).to(t)
             for t in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16,
                       torch.int32, torch.int64)}
    return {**state, "bool": torch.tensor([True, False, True]), "scalar": torch.tensor(7), "empty": torch.zeros(0, 3),
            "negative_zero": torch.tensor([-0.0, float("inf"), float("-inf")])}


def same(left, right):
    assert list(left) == list(right)
    for key, value in left.items():
        assert (value.dtype, value.shape) == (right[key].dtype, right[key].shape), key
        assert torch.equal(value, right[key]), key


def save(state, path):
    if path.suffix == ".safetensors":
        pytest.importorskip("safetensors.torch").save_file(state, path)
    else:
        torch.save(state, path)


def load(path):
    if path.suffix == ".safetensors":
        return pytest.importorskip("safetensors.torch").load_file(path)
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_every_dtype_round_trips(ending, tmp_path):
    state = every_type()
    save(state, tmp_path / f"in{ending}")
    tool("import", tmp_path / f"in{ending}", tmp_path / "x.h5")
    tool("export", tmp_path / "x.h5", tmp_path / f"out{ending}")
    found = load(tmp_path / f"out{ending}")
    same({key: state[key] for key in sorted(state)}, {key: found[key] for key in sorted(found)})


def test_torch_load_reads_exported_files_like_those_of_torch_save(tmp_path):
    torch.save(every_type(), tmp_path / "in.pth")
    tool("import", tmp_path / "in.pth", tmp_path / "x.h5")
    tool("export", "--to=torch", tmp_path / "x.h5", tmp_path / "out")
    found = torch.load(tmp_path / "out", weights_only=True, mmap=True)
    assert isinstance(found, collections.OrderedDict)
    same(dict(found), every_type())
    with zipfile.ZipFile(tmp_path / "out") as archive:
        assert archive.testzip() is None
    torch.save(found, tmp_path / "again.pth")  # and what it gives can be saved
    same(torch.load(tmp_path / "again.pth", weights_only=True), every_type())


def test_exported_archives_use_zip64_entries(tmp_path):
    """Sizes and offsets are 64-bit fields in every file, so a small file proves that one beyond 4 GiB is readable."""
    torch.save({"w": torch.ones(3)}, tmp_path / "in.pth")
    tool("import", tmp_path / "in.pth", tmp_path / "x.h5")
    tool("export", tmp_path / "x.h5", tmp_path / "out.pth")
    with zipfile.ZipFile(tmp_path / "out.pth") as archive:
        for entry in archive.infolist():
            assert entry.extract_version == 45 and entry.extra[:2] == b"\x01\x00", entry


def test_shared_and_strided_tensors_are_exported_with_equal_values(tmp_path):
    whole = torch.arange(12.0).reshape(3, 4)
    state = {"whole": whole, "row": whole[1], "transposed": whole.t(), "every_other": whole[:, ::2], "tied": whole,
             "channels_last": torch.arange(16.0).reshape(1, 2, 2, 4).contiguous(memory_format=torch.channels_last)}
    torch.save(state, tmp_path / "in.pth")
    tool("import", tmp_path / "in.pth", tmp_path / "x.h5")
    tool("export", tmp_path / "x.h5", tmp_path / "out.pth")
    same(dict(torch.load(tmp_path / "out.pth", weights_only=True)), state)


def test_import_finds_the_state_dict_in_a_training_checkpoint(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    wrapped = {f"module.{key}": value for key, value in model.state_dict().items()}
    torch.save({"epoch": 3, "model": wrapped, "optimizer": optimizer.state_dict(), "loss": 0.25, "names": ["a", None]},
               tmp_path / "in.pt")
    tool("import", tmp_path / "in.pt", tmp_path / "x.h5")
    tool("export", tmp_path / "x.h5", tmp_path / "out.pt")
    model.load_state_dict(torch.load(tmp_path / "out.pt", weights_only=True), strict=True)
    torch.save(dict(model.named_parameters()), tmp_path / "parameters.pt")  # Parameter objects instead of tensors
    tool("import", tmp_path / "parameters.pt", tmp_path / "y.h5")


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_pickles_that_would_run_code_are_rejected_without_running_it(tmp_path):
    for name, value in {"whole": Malicious(tmp_path / "ran"), "beside": {"w": torch.ones(2), "x": Malicious(tmp_path / "ran")}}.items():
        torch.save(value, tmp_path / f"{name}.pth")
        text = tool("import", tmp_path / f"{name}.pth", tmp_path / "x.h5", code=65)
        assert "system" in text and "no code was run" in text
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Malicious(tmp_path / "ran"), protocol=2))
    tool("import", tmp_path / "bare.pth", tmp_path / "x.h5", code=65)
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pth")  # a pickled module, which needs its class
    assert "torch.nn.modules.linear" in tool("import", tmp_path / "module.pth", tmp_path / "x.h5", code=65)
    assert not (tmp_path / "ran").exists() and not (tmp_path / "x.h5").exists()


def test_files_of_torch_before_1_6_are_rejected_by_version(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert "PyTorch 1.6" in tool("import", tmp_path / "old.pth", tmp_path / "x.h5", code=65)


@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_torchvision_weights_give_equal_outputs_and_round_trip(name, ending, tmp_path):
    torch.manual_seed(3)
    theirs = getattr(torchvision.models, name)(num_classes=10)
    images, labels = parity.batches(steps=1, size=4, pixels=64)
    parity.calibrate(theirs, images[0])
    theirs.eval()
    save(theirs.state_dict(), tmp_path / f"in{ending}")
    assert f"{name} with 10 classes" in tool("import", tmp_path / f"in{ending}", tmp_path / "x.h5")

    asked = parity.request(name, train_mode=False, channels_last=False, checkpoint=str(tmp_path / "x.h5"))
    ours = parity.run(asked | {"images": images, "labels": labels}, tmp_path)
    with torch.no_grad():
        expected = theirs(images[0])
    torch.testing.assert_close(ours["outputs"], expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())

    tool("export", tmp_path / "x.h5", tmp_path / f"out{ending}")
    again = getattr(torchvision.models, name)(num_classes=10).eval()
    state = load(tmp_path / f"out{ending}")
    again.load_state_dict(state, strict=True)
    with torch.no_grad():
        assert torch.equal(again(images[0]), expected)
    if ending == ".pth":
        assert list(state) == list(theirs.state_dict())


def test_an_exported_training_checkpoint_loads_with_strict(tmp_path):
    subprocess.run([parity.TOOL.parent / "write_resnet_sample", tmp_path], check=True, timeout=120)
    tool("export", tmp_path, tmp_path / "out.safetensors")
    torchvision.models.resnet18(num_classes=10).load_state_dict(load(tmp_path / "out.safetensors"), strict=True)
