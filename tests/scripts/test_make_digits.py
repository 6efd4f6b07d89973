"""scripts/make-digits: the quickstart's images."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def make(folder):
    return subprocess.run([ROOT / "scripts/make-digits", folder], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "tree"
    done = make(folder)
    assert done.returncode == 0, done.stderr
    assert "1438 training and 359 validation images" in done.stdout
    return folder


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))


def test_digits_are_split_evenly_per_class_without_duplicates(tree):
    files = names(tree)
    assert len(files) == 1797
    assert len({pathlib.Path(name).name for name in files}) == 1797
    for label in range(10):
        train = len(list((tree / "train" / str(label)).iterdir()))
        val = len(list((tree / "val" / str(label)).iterdir()))
        assert abs(train / (train + val) - 0.8) < 0.01


def test_digit_pixels_are_the_enlarged_scans(tree):
    import gzip
    import sysconfig
    source = pathlib.Path(sysconfig.get_paths()["purelib"]) / "sklearn/datasets/data/digits.csv.gz"
    rows = np.loadtxt(gzip.open(source, "rt"), delimiter=",")
    for path in sorted(tree.rglob("*.png"))[::100]:
        row = rows[int(path.stem)]
        assert int(row[64]) == int(path.parent.name)
        image = Image.open(path)
        assert image.size == (32, 32)
        expected = Image.fromarray(row[:64].reshape(8, 8).astype(np.float32) * 255 / 16).resize((32, 32), Image.BILINEAR)
        assert np.abs(np.asarray(image, np.float32) - np.asarray(expected)).max() <= 0.51


def test_a_complete_tree_is_kept_and_an_incomplete_one_rebuilt(tree):
    files = names(tree)
    before = (tree / files[0]).stat().st_mtime_ns
    assert "left alone" in make(tree).stdout
    assert subprocess.run([ROOT / "scripts/make-dataset", "mnist-5k", tree], check=False).returncode == 73
    assert (tree / files[0]).stat().st_mtime_ns == before
    (tree / ".complete").unlink()
    (tree / files[0]).unlink()
    assert make(tree).returncode == 0
    assert names(tree) == files
    assert [entry.name for entry in tree.parent.iterdir()] == [tree.name]


def test_make_digits_rejects_a_folder_with_other_files(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    done = make(tmp_path)
    assert done.returncode == 73
    assert done.stderr.startswith("rollcall: make-digits: ")
    assert (tmp_path / "thesis.txt").exists()


def test_make_digits_without_arguments_shows_the_usage():
    done = subprocess.run([ROOT / "scripts/make-digits"], capture_output=True, text=True, check=False)
    assert done.returncode == 64 and "usage:" in done.stderr
