"""A packed file is an ordinary HDF5 file: h5py reads it, and the Dataset that docs/reference/dataset_format.md prints works."""
import io
import os
import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.python
h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

PROGRAM = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"]) / "trainer" / "rollcall-pack"
PAGE = pathlib.Path(os.environ["ROLLCALL_SOURCE_DIR"]) / "docs" / "reference/dataset_format.md"


def printed_code():
    return PAGE.read_text().split("```python\n")[1].split("```")[0]


def packed_images(*arguments):
    """The class of docs/reference/dataset_format.md, as it is printed there."""
    names = {}
    exec(compile(printed_code(), "docs/reference/dataset_format.md", "exec"), names)
    return names["PackedImages"](*arguments)


def picture(seed, width, height, mode="RGB"):
    """Smooth, with some noise: as a photograph is."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 90 * np.sin(x / random.uniform(9, 30) + y / random.uniform(9, 30) + c) for c in range(3)]
    noise = random.normal(0, 6, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)).convert(mode)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("packed") / "tree"
    for folder in ("cat", "hühner", "with blank"):
        (root / folder).mkdir(parents=True)
    picture(1, 500, 375).save(root / "cat" / "a.jpg", quality=90, subsampling=2)  # 4:2:0
    picture(2, 333, 251).save(root / "cat" / "b.jpg", quality=90, subsampling=2)
    picture(3, 131, 77).save(root / "cat" / "c.jpeg", quality=90, subsampling=0)  # 4:4:4
    picture(4, 100, 90, "L").save(root / "hühner" / "grey 鸡.JPG", quality=90)
    picture(5, 128, 64).save(root / "hühner" / "p.jpg", quality=90, progressive=True, subsampling=0)
    picture(6, 60, 61).save(root / "with blank" / "x.png")
    picture(7, 90, 50).convert("CMYK").save(root / "with blank" / "y.jpg", quality=90)
    return root


def pack(tree, name, *options):
    out = tree.parent / name
    subprocess.run([PROGRAM, "--progress=none", *options, tree, out], check=True, stdout=subprocess.DEVNULL)
    return str(out)


@pytest.fixture(scope="module")
def kept(tree):
    return pack(tree, "kept.h5")


@pytest.fixture(scope="module")
def repacked(tree):
    return pack(tree, "repacked.h5", "--repack")


def originals(tree):
    return [path for folder in sorted(tree.iterdir()) for path in sorted(folder.iterdir())]


def test_the_documented_dataset_class_has_at_most_forty_lines():
    assert len(printed_code().strip().splitlines()) <= 40


def test_the_documented_dataset_returns_bytes_labels_and_classes(tree, kept):
    dataset = packed_images(kept)
    files = originals(tree)
    assert len(dataset) == len(files) == 7
    assert dataset.classes == ["cat", "hühner", "with blank"]
    for index, path in enumerate(files):
        assert dataset.encoded(index) == path.read_bytes()
        image, label = dataset[index]
        assert dataset.classes[label] == path.parent.name
        assert np.array_equal(image, Image.open(path).convert("RGB"))


def test_a_packed_file_equals_torchvision_image_folder(tree, kept):
    datasets = pytest.importorskip("torchvision.datasets")
    folder = datasets.ImageFolder(tree)
    dataset = packed_images(kept)
    assert dataset.classes == folder.classes
    assert list(dataset.label) == folder.targets
    for index in range(len(folder)):
        assert np.array_equal(dataset[index][0], folder[index][0])


def test_sample_names_are_relative_paths(tree, kept):
    with h5py.File(kept, "r") as file:
        data, bounds = file["name_data"][()].tobytes(), file["name_offset"][()]
        names = [data[a:b].decode() for a, b in zip(bounds, bounds[1:])]
    assert names == [str(path.relative_to(tree)) for path in originals(tree)]


def test_packed_file_attributes_describe_the_file(kept):
    with h5py.File(kept, "r") as file:
        attributes = dict(file.attrs)
        types = {name: file[name].dtype.str for name in file if name != "class_names"}
    assert attributes["format"] == b"rollcall-images" and attributes["format_version"] == b"1.1"
    assert attributes["complete"] == 1 and {"writer", "created"} <= set(attributes)
    assert types == {"data": "|u1", "offset": "<u8", "length": "<u4", "tile_count": "<u4", "label": "<i4",
                     "crc32c": "<u4", "width": "<u4", "height": "<u4", "orientation": "|u1", "name_offset": "<u8",
                     "name_data": "|u1"}


def test_repacked_images_decode_to_the_same_pixels(tree, repacked):
    dataset = packed_images(repacked)
    with h5py.File(repacked, "r") as file:
        tiles = file["tile_count"][()]
    assert list(tiles > 0) == [True, True, True, True, True, False, False]  # not the PNG, not the CMYK file
    for index, path in enumerate(originals(tree)):
        assert np.array_equal(dataset[index][0], Image.open(path).convert("RGB")), path


def test_tile_lengths_match_the_restart_markers(repacked):
    with h5py.File(repacked, "r") as file:
        offset, length, count = (int(file[name][0]) for name in ("offset", "length", "tile_count"))
        stored = file["data"][offset:offset + length + 2 * count].tobytes()
    jpeg, lengths = stored[:length], np.frombuffer(stored[length:], "<u2")
    at = length - int(lengths.sum())
    assert Image.open(io.BytesIO(jpeg)).size[1] == 375
    for index, tile in enumerate(lengths):
        at += int(tile)
        assert jpeg[at - 2:at] == (b"\xff\xd9" if index == count - 1 else bytes([0xFF, 0xD0 + index % 8]))
    assert at == length


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_data_loader_with_workers_reads_a_packed_file(kept, start):
    dataset = packed_images(kept, len_of_image)
    dataset[0]  # opens the file in this process too
    if start == "spawn":  # the class of an exec() cannot be pickled: what spawning does to the state, done by hand
        state = dataset.__getstate__()
        assert state["descriptor"] is None
        return
    loader = torch.utils.data.DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context=start)
    assert sum(len(labels) for _, labels in loader) == 7


def len_of_image(image):
    return image.size[0]
