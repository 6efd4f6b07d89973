"""A checkpoint is an ordinary HDF5 file: h5py reads it, checksums and all, and torchvision loads a model from it."""
import json
import os
import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.python
h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")

WRITER = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"]) / "tests" / "write_checkpoint_sample"


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def stored_bytes(dataset):
    """The bytes as they lie in the file: contiguous, at a known offset."""
    if dataset.id.get_storage_size() == 0:
        return b""
    with open(dataset.file.filename, "rb") as file:
        file.seek(dataset.id.get_offset())
        return file.read(dataset.id.get_storage_size())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "sample.h5"
    subprocess.run([WRITER, path], check=True)
    with h5py.File(path, "r") as file:
        yield file


def test_crc32c_helper_gives_the_standard_check_value():
    assert crc32c(b"123456789") == 0xE3069283


def test_root_attributes_describe_the_file(checkpoint):
    attributes = dict(checkpoint.attrs)
    assert attributes["format"] == b"rollcall-checkpoint"
    assert attributes["format_version"] == b"1.1"
    assert attributes["torch_version"] == b"2.15.0"
    assert attributes["complete"] == 1
    assert {"writer", "created"} <= set(attributes)


def test_tensors_have_their_names_shapes_and_values(checkpoint):
    weight = checkpoint["/model/layer/0/weight"]
    assert weight.dtype == np.dtype("<f4")
    assert np.array_equal(weight[()], (np.arange(210, dtype=np.float32) / 4).reshape(2, 3, 5, 7))
    assert weight.attrs["state_dict_key"] == b"layer.0.weight"
    assert weight.attrs["dim_order"] == b"row-major"
    assert checkpoint["/model/bn/num_batches_tracked"][()] == 42
    assert checkpoint["/model/empty"].shape == (0, 4)
    assert np.array_equal(checkpoint["/model/half"][()], np.array([1, -2], np.float16))
    assert checkpoint["/optimizer/state/layer.0.bias/momentum_buffer"].shape == (2,)


def test_bfloat16_is_stored_as_uint16_with_a_dtype_attribute(checkpoint):
    scale = checkpoint["/model/scale"]
    assert scale.dtype == np.dtype("<u2") and scale.attrs["dtype"] == b"bfloat16"
    assert np.array_equal((scale[()].astype(np.uint32) << 16).view(np.float32), [1, -2])


def test_values_are_plain_numbers_and_strings(checkpoint):
    assert checkpoint["/progress/epoch"][()] == 3
    assert checkpoint["/progress/best_metric"][()] == 0.875
    assert checkpoint["/sampler/seed"][()] == 0xFFFFFFFFFFFFFFF0
    assert json.loads(checkpoint["/config/json"][()].decode())["name"] == "Jülich"
    assert [a.decode() for a in checkpoint["/config/argv"]] == ["rollcall-train", "--lr=0.1", ""]
    assert [k.decode() for k in checkpoint["/model_keys"]][0] == "layer.0.weight"


def test_checksums_are_correct_and_the_manifest_lists_every_dataset(checkpoint):
    found = {}
    checkpoint.visititems(lambda name, item: found.update({"/" + name: item}) if isinstance(item, h5py.Dataset) else None)
    for name, dataset in found.items():
        assert dataset.attrs["crc32c"] == crc32c(stored_bytes(dataset)), name
    manifest = found.pop("/manifest")
    listed = {row["name"]: row for row in json.loads(manifest[()].decode())["datasets"]}
    assert set(listed) == set(found)
    for name, dataset in found.items():
        assert listed[name]["crc32c"] == dataset.attrs["crc32c"], name
        assert listed[name]["bytes"] == len(stored_bytes(dataset)), name


def test_the_documented_loader_returns_a_state_dict(checkpoint):
    torch = pytest.importorskip("torch")
    state_dict = load_state_dict(checkpoint.filename)
    assert list(state_dict) == [k.decode() for k in checkpoint["/model_keys"]]
    assert torch.equal(state_dict["scale"], torch.tensor([1, -2], dtype=torch.bfloat16))
    assert state_dict["bn.num_batches_tracked"].shape == ()
    assert state_dict["layer.0.weight"].shape == (2, 3, 5, 7)


def load_state_dict(path):
    """The code of docs/reference/checkpoint_format.md, run as it is printed there."""
    page = (pathlib.Path(os.environ["ROLLCALL_SOURCE_DIR"]) / "docs" / "reference/checkpoint_format.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    names = {}
    exec(compile(code.split("# ---")[0], "docs/reference/checkpoint_format.md", "exec"), names)
    return names["load_state_dict"](path)


def test_torchvisions_resnet_loads_from_a_checkpoint(tmp_path):
    torch = pytest.importorskip("torch")
    torchvision = pytest.importorskip("torchvision")
    program = WRITER.parent / "write_resnet_sample"
    subprocess.run([program, tmp_path], check=True)
    model = torchvision.models.resnet18(num_classes=10)
    model.load_state_dict(load_state_dict(tmp_path / "step-00000000.h5"), strict=True)
    assert torch.isfinite(model.eval()(torch.zeros(1, 3, 64, 64))).all()
