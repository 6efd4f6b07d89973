"""rollcall-train --evaluate: the same counts as torchvision's, with any ranks, splits and orders of classes; and what it refuses."""
import csv
import json
import shutil
import subprocess

import pytest
import own_models
import stored_models
import trainer_ranks

pytestmark = [pytest.mark.python, pytest.mark.long]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return stored_models.make_tree(tmp_path_factory.mktemp("pictures") / "tree")


@pytest.fixture(scope="module")
def checkpoint(tree, tmp_path_factory):
    return stored_models.train(tmp_path_factory.mktemp("trained"), tree)


@pytest.fixture(scope="module")
def exported(checkpoint):
    return stored_models.export(checkpoint, checkpoint.parent / "resnet18.pth")


def evaluate(folder, checkpoint, *options, ranks=1, code=0):
    return trainer_ranks.run(folder, f"--evaluate={checkpoint}", *options, ranks=ranks, code=code)


def results(folder):
    return json.loads((folder / "evaluation" / "evaluation.json").read_text())


def counts(folder):
    """What does not depend on the ranks, the file and the time."""
    found = results(folder)
    return {key: found[key] for key in ("images", "correct_top1", "correct_top5", "classes", "confusion")}


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("kind", ["checkpoint", "exported"])
def test_counts_equal_those_of_torchvision(kind, ranks, tree, checkpoint, exported, tmp_path):
    """88 pictures in JPEG and PNG, which batches of five on one rank and on three do not divide."""
    import torch
    paths, labels = zip(*stored_models.labelled(tree / "val"))
    outputs = stored_models.outputs_of_torchvision(exported, paths)
    labels = torch.tensor(labels)
    best = outputs.topk(5, 1).indices
    given = (f"--data={tree}", "--model=resnet18", "--image-size=48", "--valid-resize=56") if kind == "exported" else ()
    text = evaluate(tmp_path, exported if kind == "exported" else checkpoint, *given, "--batch-size=5", ranks=ranks)
    found = results(tmp_path)
    top1, top5 = int((best[:, 0] == labels).sum()), int((best == labels[:, None]).sum())
    assert (found["images"], found["correct_top1"], found["correct_top5"], found["ranks"]) == (88, top1, top5, ranks)
    assert found["confusion"] == stored_models.confusion(best[:, 0].numpy(), labels.numpy())
    assert len(found["confusion"]) > 8  # not all pictures are taken for the same
    assert found["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(outputs, labels)), rel=1e-4)
    assert [one["name"] for one in found["classes"]] == stored_models.CLASSES
    assert f"top-1       {100 * top1 / 88:.2f} %  ({top1})" in text and text.count("top-1") == 1


def test_csv_has_the_numbers_of_the_json(checkpoint, tmp_path):
    evaluate(tmp_path, checkpoint)
    found = results(tmp_path)
    rows = list(csv.DictReader((tmp_path / "evaluation" / "classes.csv").read_text().splitlines()))
    assert [[row["class"], int(row["images"]), int(row["correct_top1"]), int(row["correct_top5"]), int(row["predicted"])] for row in rows] == [
        [one["name"], one["images"], one["correct_top1"], one["correct_top5"], one["predicted"]] for one in found["classes"]]
    assert sum(one["predicted"] for one in found["classes"]) == found["images"] == 88
    pairs = list(csv.reader((tmp_path / "evaluation" / "confusion.csv").read_text().splitlines()))[1:]
    assert [[stored_models.CLASSES.index(a), stored_models.CLASSES.index(b), int(n)] for a, b, n in pairs] == found["confusion"]


def test_a_sharded_training_is_evaluated_on_any_number_of_ranks(tree, tmp_path):
    stored = stored_models.train(tmp_path / "trained", tree, "--parallel=fsdp", "--epochs=1", ranks=2)
    evaluate(tmp_path / "one", stored)
    evaluate(tmp_path / "three", stored, ranks=3)
    validated = trainer_ranks.records(tmp_path / "trained", "validation")[-1]
    assert counts(tmp_path / "one") == counts(tmp_path / "three")
    assert results(tmp_path / "one")["top1"] == pytest.approx(validated["top1"])


def test_splits_of_one_folder_are_those_of_the_training(tree, tmp_path):
    """The seed and the data of the split come from the checkpoint."""
    stored = stored_models.train(tmp_path / "trained", tree / "val", "--epochs=1", "--seed=5")
    validated = trainer_ranks.records(tmp_path / "trained", "validation")[-1]
    images = {}
    for split in ("valid", "train", "test", "all"):
        evaluate(tmp_path / split, stored, f"--evaluate-split={split}")
        images[split] = results(tmp_path / split)["images"]
    assert images == {"train": 75, "valid": 9, "test": 4, "all": 88}
    assert results(tmp_path / "valid")["top1"] == pytest.approx(validated["top1"])
    parts = [results(tmp_path / split)["correct_top1"] for split in ("train", "valid", "test")]
    assert sum(parts) == results(tmp_path / "all")["correct_top1"]


def test_classes_are_matched_by_name(tree, checkpoint, tmp_path):
    """Data with some of the classes, whose numbers are others than the model's."""
    evaluate(tmp_path / "all", checkpoint)
    for name in ("cow 2", "Bear", "fox"):
        shutil.copytree(tree / "val" / name, tmp_path / "some" / name)
    evaluate(tmp_path / "run", checkpoint, f"--data={tmp_path / 'some'}", "--evaluate-split=all")
    kept = [{**one, "predicted": 0} for one in results(tmp_path / "all")["classes"] if one["name"] in ("cow 2", "Bear", "fox")]
    assert [{**one, "predicted": 0} for one in results(tmp_path / "run")["classes"] if one["images"]] == kept
    (tmp_path / "some" / "fox").rename(tmp_path / "some" / "wolf")
    text = evaluate(tmp_path / "run", checkpoint, f"--data={tmp_path / 'some'}", "--evaluate-split=all", ranks=2, code=76)
    assert text.count("rollcall: ") == 1
    assert f"--data: {tmp_path / 'some'}: has the class wolf, which the model was not trained on; try using data with" in text


def test_weights_without_names_are_matched_by_number(tree, exported, tmp_path):
    given = ("--model=resnet18", "--image-size=48", f"--data={tmp_path / 'other'}", "--evaluate-split=all")
    for name in ("x", "y"):
        (tmp_path / "other" / name).mkdir(parents=True)
        shutil.copy(next((tree / "val" / "fox").rglob("*.png")), tmp_path / "other" / name / "1.png")
    evaluate(tmp_path / "run", exported, *given)
    assert [one["name"] for one in results(tmp_path / "run")["classes"]] == ["x", "y", "2", "3", "4", "5", "6", "7"]
    for i in range(7):
        shutil.copytree(tmp_path / "other" / "x", tmp_path / "other" / f"z{i}")
    text = evaluate(tmp_path / "run", exported, *given, code=76)
    assert f"--data: {tmp_path / 'other'}: has 9 classes, but the model has only 8; try" in text


def test_a_damaged_image_is_named_and_left_out(tree, checkpoint, tmp_path):
    shutil.copytree(tree, tmp_path / "tree")
    broken = sorted((tmp_path / "tree" / "val" / "eel").rglob("*.jpeg"))[0]
    broken.write_bytes(b"no picture")
    text = evaluate(tmp_path / "run", checkpoint, f"--data={tmp_path / 'tree'}", ranks=2)
    assert text.count(str(broken)) == 1 and "unreadable  1" in text
    assert (results(tmp_path / "run")["images"], results(tmp_path / "run")["damaged"]) == (87, 1)
    text = evaluate(tmp_path / "run", checkpoint, f"--data={tmp_path / 'tree'}", "--max-bad-samples=0.001", ranks=2, code=65)
    assert "1 of 88 images for evaluation were skipped: 1 damaged, 0 unreadable" in text
    text = evaluate(tmp_path / "run", checkpoint, f"--data={tmp_path / 'tree'}", "--bad-samples=fail", ranks=2, code=65)
    assert str(broken) in text


@pytest.mark.parametrize("options, code, said", [
    (["--evaluate={folder}/none.h5"], 66, "--evaluate: {folder}/none.h5: "),
    (["--evaluate={folder}/text.pth"], 65, "--evaluate: {folder}/text.pth: "),
    (["--evaluate={folder}/other.pth"], 76, "is of another model: it has no last layer fc"),
    (["--evaluate={checkpoint}", "--model=resnet50"], 76, "--evaluate: {checkpoint}: is of another model: "),
    (["--evaluate={checkpoint}", "--num-classes=12"], 76, "--num-classes: 12: the model in {checkpoint} has 8 classes; try leaving it out"),
    (["--evaluate={checkpoint}", "--data={folder}/empty"], 65, "--data: {folder}/empty: "),
    (["--evaluate={checkpoint}", "--evaluate-split=all"], 64, "--evaluate-split: all: "),
    (["--evaluate={checkpoint}", "--evaluate-split=test"], 64, "--evaluate-split: test: "),
    (["--data=fake", "--evaluate-split=test"], 64, "--evaluate-split: test: has no effect with --evaluate=; try --evaluate=FILE"),
])
def test_what_cannot_be_evaluated_is_refused_by_name(options, code, said, checkpoint, tmp_path):
    import torch
    (tmp_path / "text.pth").write_text("no checkpoint")
    (tmp_path / "empty").mkdir()
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    names = {"folder": tmp_path, "checkpoint": checkpoint}
    text = trainer_ranks.run(tmp_path / "run", *(option.format(**names) for option in options), ranks=2, code=code)
    assert said.format(**names) in text and text.count("rollcall: ") == 1, text


def test_an_evaluation_is_not_elastic(checkpoint, tmp_path):
    rollcall = trainer_ranks.BUILD / "runtime" / "rollcall"
    command = [rollcall, "run", "--standalone", "--max-restarts=0", "--no-python", trainer_ranks.PROGRAM, "--elastic"]
    done = subprocess.run([*command, f"--evaluate={checkpoint}"], capture_output=True, text=True, env=trainer_ranks.environment(tmp_path, 0, 1))
    assert done.returncode == 64 and "--elastic: true: has no effect with --evaluate=" in done.stdout + done.stderr


def test_the_report_of_the_run_has_the_confusion_matrix(tree, tmp_path):
    stored = stored_models.train(tmp_path, tree, "--epochs=1")
    evaluate(tmp_path, stored)
    page = (tmp_path / "report.html").read_text()
    assert "<h2 id=\"h-evaluation0\">Evaluation</h2>" in page and "<figcaption>Confusion matrix</figcaption>" in page
    assert "Classes, the worst first (8 of 8)" in page and page.count(">cow 10<") >= 2
    report = trainer_ranks.BUILD / "trainer" / "rollcall-report"
    subprocess.run([report, tmp_path], check=True, capture_output=True)
    assert "Confusion matrix" in (tmp_path / "report.html").read_text()
    (tmp_path / "evaluation" / "evaluation.json").write_text("{\"schema\": 1}")
    subprocess.run([report, tmp_path], check=True, capture_output=True)
    assert "Confusion matrix" not in (tmp_path / "report.html").read_text()


def test_a_checkpoint_has_the_names_of_its_classes(checkpoint):
    import h5py
    with h5py.File(checkpoint) as file:
        assert [name.decode() for name in file["/config/class_names"][()]] == stored_models.CLASSES


def test_a_script_is_evaluated_only_where_it_is_named(tree, tmp_path):
    """Its code runs. A checkpoint, which somebody else may have written, only says which one it was."""
    script, other = own_models.small(tmp_path / "net.pt"), own_models.small(tmp_path / "other.pt", seed=4)
    stored = stored_models.train(tmp_path / "trained", tree, f"--model={script}", "--epochs=2")
    text = evaluate(tmp_path / "unnamed", stored, code=76)
    assert f"--model: resnet50: is not the model in {stored}, which is the script {script}" in text and "if you trust it" in text, text
    assert "its content differs" in evaluate(tmp_path / "other", stored, f"--model={other}", code=76)
    evaluate(tmp_path / "named", stored, f"--model={script}", ranks=2)
    validated = trainer_ranks.records(tmp_path / "trained", "validation")[-1]
    assert results(tmp_path / "named")["correct_top1"] == round(validated["top1"] * 88)


def test_mirror_images_count_as_in_the_validation(tree, tmp_path):
    stored = stored_models.train(tmp_path / "trained", tree, "--valid-flip=on", "--epochs=2")
    evaluate(tmp_path / "found", stored)
    validated = trainer_ranks.records(tmp_path / "trained", "validation")[-1]
    found = results(tmp_path / "found")
    assert (found["correct_top1"], found["loss"]) == (round(validated["top1"] * 88), pytest.approx(validated["loss"], rel=1e-5))


def test_a_folder_that_is_a_link_is_refused(checkpoint, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "evaluation").symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in evaluate(tmp_path / "run", checkpoint, code=73)
    assert list((tmp_path / "elsewhere").iterdir()) == []
