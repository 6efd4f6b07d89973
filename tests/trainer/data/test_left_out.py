"""Files of a dataset that a training skips are reported once at the start, by rank 0; silent data loss is rejected."""
import io
import tarfile

import pytest
import small_trainings
import trainer_ranks

pytestmark = pytest.mark.python


def options(root, **changes):
    return small_trainings.options({**small_trainings.SMALL, "data": str(root), "optimizer": "sgd", "train-num-workers": 1, "max-steps": 1,
                                    "checkpoint-steps": 0, "valid-epochs": 0, "index-dir": "none", **changes})


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return small_trainings.make_tree(tmp_path_factory.mktemp("data") / "tree", train=4, valid=1)


def warnings(text):
    return [line for line in text.splitlines() if line.startswith("rollcall: warning: --data: ")]


def write_shards(folder, samples, named=lambda i: f"{i:05}"):
    """samples: bytes of pictures with their labels."""
    folder.mkdir(parents=True)
    with tarfile.open(folder / "a.tar", "w") as archive:
        for i, (picture, label) in enumerate(samples):
            for ending, content in ("jpg", picture), ("cls", str(label).encode()):
                member = tarfile.TarInfo(f"{named(i)}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def samples_of(tree, labels):
    pictures = [path.read_bytes() for path in sorted(tree.rglob("*.jpeg"))]
    return [(pictures[i % len(pictures)], labels[i % len(labels)]) for i in range(40)]


def test_files_with_other_extensions_are_reported_once(tmp_path, tree):
    (tree / "train" / "fox" / "1.heic").write_bytes(b"x")
    (tree / "train" / "fox" / "._1.jpg").write_bytes(b"x")
    text = trainer_ranks.run(tmp_path / "run", *options(tree), ranks=2)
    [line] = warnings(text)
    assert f"{tree}/train: files whose endings are not those of pictures are left out, 1: 1 .heic (such as fox/1.heic)" in line


def test_duplicate_shard_keys_end_the_run_by_name(tmp_path, tree):
    write_shards(tmp_path / "shards", samples_of(tree, [0, 1, 2]), named=lambda i: f"{i // 3:05}")
    text = trainer_ranks.run(tmp_path / "run", *options(tmp_path / "shards"), ranks=2, code=65)
    [error] = [line for line in text.splitlines() if line.startswith("rollcall: ")]
    assert "a.tar: 00000.jpg: occurs twice in one sample" in error


def test_validation_shards_may_lack_only_the_last_label(tmp_path, tree):
    for name, labels, code in ("last", [0, 1], 0), ("middle", [0, 3], 65):
        write_shards(tmp_path / name / "train", samples_of(tree, [0, 1, 2]))
        write_shards(tmp_path / name / "val", samples_of(tree, labels))
        text = trainer_ranks.run(tmp_path / f"run {name}", *options(tmp_path / name), ranks=1, code=code)
        assert warnings(text) == []
        assert code == 0 or "it has 3, which the training set lacks" in text


def test_naming_numeric_classes_does_not_change_the_data(tmp_path, tree):
    for part in "train", "val":
        write_shards(tmp_path / "data" / part, samples_of(tree, [0, 1, 2]))
    steps = [options(tmp_path / "data", **{"max-steps": most, "checkpoint-steps": 1}) for most in (1, 2, 3)]
    trainer_ranks.run(tmp_path / "run", *steps[0], ranks=1)
    (tmp_path / "data" / "classes.txt").write_text("fox\nhen\nowl\n")
    text = trainer_ranks.run(tmp_path / "run", *steps[1], ranks=1)
    assert warnings(text) == [] and "resum" in text.lower(), text
    (tmp_path / "data" / "classes.txt").write_text("hen\nfox\nowl\n")
    text = trainer_ranks.run(tmp_path / "run", *steps[2], ranks=1, code=76)
    assert "the names of the classes differ" in text
