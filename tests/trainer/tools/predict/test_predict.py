"""rollcall-predict: what torchvision's model says of the same images, in the order of the arguments, on any number of ranks."""
import csv
import io
import json
import pathlib
import subprocess
import tarfile

import pytest
import stored_models
import trainer_ranks

pytestmark = [pytest.mark.python, pytest.mark.long]
PREDICT = trainer_ranks.BUILD / "trainer" / "rollcall-predict"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return stored_models.make_tree(tmp_path_factory.mktemp("pictures") / "tree")


@pytest.fixture(scope="module")
def checkpoint(tree, tmp_path_factory):
    return stored_models.train(tmp_path_factory.mktemp("trained"), tree, "--epochs=1")


def predict(folder, *arguments, ranks=1, code=0):
    """(what rank 0 printed, what all ranks printed to standard error); all others print nothing to standard output."""
    folder.mkdir(exist_ok=True)
    meeting = ["--rendezvous=file", f"--rendezvous-folder={folder}"]
    processes = [subprocess.Popen([PREDICT, *meeting, *map(str, arguments)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=trainer_ranks.environment(folder, rank, ranks)) for rank in range(ranks)]
    outputs = [process.communicate(timeout=240) for process in processes]
    text = "".join(errors for _, errors in outputs)
    assert processes[0].returncode == code, text
    assert [out for out, _ in outputs[1:]] == [""] * (ranks - 1)
    return outputs[0][0], text


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("ranks", [1, 3])
def test_probabilities_equal_those_of_torchvision(ranks, tree, checkpoint, tmp_path):
    """Of all files of a folder, sorted by path, which batches of five do not divide."""
    import torch
    paths = sorted(path for path in (tree / "val").rglob("*") if path.is_file())
    weights = stored_models.export(checkpoint, tmp_path / "resnet18.pth")
    outputs = stored_models.outputs_of_torchvision(weights, paths).softmax(1)
    found = rows(predict(tmp_path, "--json", "--batch-size=5", "--top=3", checkpoint, tree / "val", ranks=ranks)[0])
    assert [row["path"] for row in found] == [str(path) for path in paths]
    for row, values in zip(found, outputs):
        best = values.topk(3)
        assert [one["label"] for one in row["classes"]] == best.indices.tolist()
        assert [one["class"] for one in row["classes"]] == [stored_models.CLASSES[label] for label in best.indices]
        assert torch.allclose(torch.tensor([one["probability"] for one in row["classes"]]), best.values, atol=1e-5)


def test_files_folders_archives_and_lists_keep_their_order(tree, checkpoint, tmp_path):
    fox, ape = (sorted((tree / "val" / name).glob("*.png")) for name in ("fox", "ape"))
    with tarfile.open(tmp_path / "some.tar", "w") as tar:
        for path in (fox[0], ape[0]):
            tar.add(path, f"in/{path.parent.name}-{path.name}")
        tar.addfile(tarfile.TarInfo("in/x.cls"))
    (tmp_path / "list.csv").write_text(f"path,label\n\"{fox[1]}\",3\nnear.png,1\n")
    (tmp_path / "near.png").write_bytes(ape[1].read_bytes())
    text, _ = predict(tmp_path, "--json", "--top=1", checkpoint, ape[2], tmp_path / "some.tar", tmp_path / "list.csv", fox[2], ranks=2)
    found = rows(text)
    assert [row["path"] for row in found] == [str(ape[2]), f"{tmp_path}/some.tar: in/fox-{fox[0].name}",
                                              f"{tmp_path}/some.tar: in/ape-{ape[0].name}", str(fox[1]), f"{tmp_path}/near.png", str(fox[2])]
    alone = rows(predict(tmp_path, "--json", "--top=1", checkpoint, ape[2], fox[0], ape[0], fox[1], ape[1], fox[2])[0])
    assert [row["classes"] for row in found] == [row["classes"] for row in alone]


def test_the_three_formats_say_the_same(tree, checkpoint, tmp_path):
    files = sorted((tree / "val" / "eel").glob("*.png"))
    odd = tmp_path / "a, \"b\".png"
    odd.write_bytes(files[0].read_bytes())
    arguments = ("--top=2", checkpoint, *files, odd)
    told = rows(predict(tmp_path, "--json", *arguments)[0])
    table = predict(tmp_path, *arguments)[0].splitlines()
    listed = list(csv.DictReader(io.StringIO(predict(tmp_path, "--csv", *arguments)[0])))
    assert len(told) == len(table) == len(listed) == len(files) + 1
    for row, line, cells in zip(told, table, listed):
        first, second = row["classes"]
        assert line == (f"{row['path']}  {first['class']} {100 * first['probability']:.2f} %"
                        f"  {second['class']} {100 * second['probability']:.2f} %")
        assert (cells["path"], cells["error"], cells["label1"], cells["class2"]) == (row["path"], "", str(first["label"]), second["class"])
        assert float(cells["probability1"]) == pytest.approx(first["probability"], rel=1e-8)


@pytest.mark.parametrize("ranks", [1, 2])
def test_unreadable_images_are_named_and_the_others_classified(ranks, tree, checkpoint, tmp_path):
    good = sorted((tree / "val" / "d").glob("*.png"))[0]
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    with tarfile.open(tmp_path / "some.tar", "w") as tar:
        tar.add(tmp_path / "bad.jpg", "bad.jpg")
    arguments = (checkpoint, tmp_path / "bad.jpg", good, tmp_path / "none.png", tmp_path / "some.tar")
    out, errors = predict(tmp_path, "--json", "--batch-size=1", *arguments, ranks=ranks, code=65)
    found = rows(out)
    assert [("error" in row, "classes" in row) for row in found] == [(True, False), (False, True), (True, False), (True, False)]
    for path in (tmp_path / "bad.jpg", tmp_path / "none.png", f"{tmp_path}/some.tar: bad.jpg"):
        assert errors.count(f"rollcall: image: {path}: ") == 1
    out, _ = predict(tmp_path, *arguments, ranks=ranks, code=65)
    assert [line.split("  ")[0] for line in out.splitlines()] == [str(good)]


def test_weights_of_other_programs_have_numbers_for_classes(tree, checkpoint, tmp_path):
    weights = stored_models.export(checkpoint, tmp_path / "resnet18.pth")
    given = ("--model=resnet18", "--image-size=48", "--valid-resize=56", "--top=9")
    image = sorted((tree / "val" / "fox").glob("*.png"))[0]
    [row] = rows(predict(tmp_path, "--json", *given, weights, image)[0])
    [named] = rows(predict(tmp_path, "--json", "--top=9", checkpoint, image)[0])
    assert len(row["classes"]) == 8 and [one["class"] for one in row["classes"]] == [str(one["label"]) for one in row["classes"]]
    assert [(one["label"], one["probability"]) for one in row["classes"]] == [(one["label"], one["probability"]) for one in named["classes"]]


@pytest.mark.parametrize("arguments, code, said", [
    ([], 64, "command line: CHECKPOINT is missing; try"),
    (["{checkpoint}"], 64, "command line: IMAGES are missing; try"),
    (["--json", "--csv", "{checkpoint}", "x.png"], 64, "command line: --json --csv: "),
    (["--lr=1", "{checkpoint}", "x.png"], 64, "--lr"),
    (["{folder}/none.h5", "x.png"], 66, "checkpoint: {folder}/none.h5: "),
    (["{folder}/list.csv", "x.png"], 65, "checkpoint: {folder}/list.csv: "),
    (["--model=resnet50", "{checkpoint}", "x.png"], 76, "checkpoint: {checkpoint}: is of another model: "),
    (["{checkpoint}", "{folder}/empty"], 66, "images: {folder}/empty: holds no pictures"),
    (["{checkpoint}", "{folder}/none.tar"], 66, "images: {folder}/none.tar: cannot be read: "),
    (["{checkpoint}", "{folder}/broken.tar"], 65, "images: {folder}/broken.tar: "),
    (["{checkpoint}", "{folder}/none.csv"], 66, "images: {folder}/none.csv: cannot be read: "),
])
def test_bad_input_is_refused_by_name(arguments, code, said, checkpoint, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.csv").write_text("path\n")
    (tmp_path / "broken.tar").write_bytes(b"x" * 2000)
    names = {"folder": tmp_path, "checkpoint": checkpoint}
    out, errors = predict(tmp_path, *(argument.format(**names) for argument in arguments), ranks=2, code=code)
    assert out == "" and errors.count("rollcall: ") == 1 and said.format(**names) in errors, errors


def test_the_output_must_be_writable(tree, checkpoint):
    image = sorted((tree / "val" / "fox").glob("*.png"))[0]
    with pathlib.Path("/dev/full").open("w") as full:
        done = subprocess.run([PREDICT, checkpoint, image], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 74 and "standard output: cannot be written" in done.stderr
