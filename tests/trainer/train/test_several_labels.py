"""--loss=multi-label: images with several classes or none, against the same training in Python and scikit-learn's mean average precision."""
import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest
import several_labels
import small_trainings
import stored_models
import trainer_ranks
import whole_training

pytestmark = pytest.mark.python
pytest.importorskip("h5py")
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
PREDICT = trainer_ranks.BUILD / "trainer" / "rollcall-predict"
CASES = {
    "one rank": (1, {"epochs": 3}),
    "mixup and cutmix": (1, {"mixup": 0.4, "cutmix": 1.0}),
    "three ranks, average of the weights": (3, {"ema": 0.8, "batch-size": 5}),
    "fsdp": (2, {"parallel": "fsdp", "mixup": 0.4, "valid-flip": True}),
}


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    return several_labels.make_list(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def trained(listed, tmp_path_factory):
    """(folder, checkpoint) of a training whose best validation is kept."""
    folder = tmp_path_factory.mktemp("trained")
    settings = {**several_labels.TRAINING, "data": str(listed), "model": "resnet18", "epochs": 4, "keep-best": 1}
    trainer_ranks.run(folder, *small_trainings.options({**whole_training.QUIET, **settings}))
    return folder, trainer_ranks.checkpoints(folder)[-1]


def rows_of(listed, part):
    return [row for row in csv.DictReader(listed.read_text().splitlines()) if row["split"] == part]


@pytest.mark.parametrize("case", [name if name == "one rank" else pytest.param(name, marks=pytest.mark.long) for name in CASES])
def test_a_training_equals_the_same_in_python(case, listed, tmp_path):
    """Every record with its mean average precision, all weights, all moments."""
    ranks, settings = CASES[case]
    ours, theirs = whole_training.both(tmp_path, {**several_labels.TRAINING, **settings, "data": str(listed)}, ranks)
    found = [record for record in ours.records if record["event"] == "validation"]
    assert all(0.2 < record["mean_average_precision"] < 0.8 for record in found)  # rare counts as 0
    assert f"mAP {100 * found[-1]['mean_average_precision']:.2f} %" in ours.printed
    assert not any("mean_average_precision" in record for record in theirs.records if record["event"] != "validation")


def test_the_best_checkpoint_has_the_best_mean_average_precision(trained):
    folder, _ = trained
    found = trainer_ranks.records(folder, "validation")
    best = max(found, key=lambda record: record["mean_average_precision"])
    show = subprocess.run([trainer_ranks.BUILD / "trainer" / "rollcall-checkpoint", "show", trainer_ranks.checkpoints(folder)[-1]],
                          capture_output=True, text=True, check=True).stdout
    assert f"validation mAP {100 * best['mean_average_precision']:.2f} % after step {best['step']}" in show
    report = trainer_ranks.BUILD / "trainer" / "rollcall-report"
    told = json.loads(subprocess.run([report, "--json", folder], capture_output=True, text=True, check=True).stdout)
    told = told[0] if isinstance(told, list) else told
    assert (told["best_top1"], told["best_mean_average_precision"], told["best_step"]) == (None, best["mean_average_precision"], best["step"])


@pytest.mark.parametrize("ranks", [1, pytest.param(3, marks=pytest.mark.long)])
def test_an_evaluation_equals_scikit_learns(ranks, listed, trained, tmp_path):
    import numpy
    from sklearn.metrics import average_precision_score
    folder, checkpoint = trained
    rows = rows_of(listed, "val")
    weights = stored_models.export(checkpoint, tmp_path / "resnet18.pth")
    outputs = stored_models.outputs_of_torchvision(weights, [listed.parent / row["path"] for row in rows], 32, 32).double().sigmoid().numpy()
    classes = sorted(several_labels.CLASSES)
    labels = numpy.array([[name in row["labels"].split() for name in classes] for row in rows])
    text = trainer_ranks.run(tmp_path, f"--evaluate={checkpoint}", "--batch-size=5", ranks=ranks)
    found = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
    assert [one["name"] for one in found["classes"]] == classes and found["images"] == len(rows)
    for i, one in enumerate(found["classes"]):
        expected = average_precision_score(labels[:, i], outputs[:, i]) if labels[:, i].any() else 0
        assert one["average_precision"] == pytest.approx(expected, abs=1e-6), one
        taken = outputs[:, i] >= 0.5
        assert (one["images"], one["predicted"], one["correct"]) == (labels[:, i].sum(), taken.sum(), (taken & labels[:, i]).sum())
    mean = sum(one["average_precision"] for one in found["classes"]) / len(classes)
    assert found["mean_average_precision"] == pytest.approx(mean, abs=1e-12) and f"mAP         {100 * mean:.2f} %" in text
    validated = trainer_ranks.records(folder, "validation")[-1]
    assert (found["mean_average_precision"], found["loss"], found["top1"]) == pytest.approx(
        (validated["mean_average_precision"], validated["loss"], validated["top1"]), rel=1e-5)
    table = list(csv.DictReader((tmp_path / "evaluation" / "classes.csv").read_text().splitlines()))
    assert [float(row["average_precision"]) for row in table] == pytest.approx([one["average_precision"] for one in found["classes"]])
    assert not (tmp_path / "evaluation" / "confusion.csv").exists()


@pytest.mark.long
def test_an_evaluation_matches_classes_by_name(listed, trained, tmp_path):
    """A list with some of the classes, which have other numbers there."""
    rows = [row for row in rows_of(listed, "val") if not {"blue", "rare"} & set(row["labels"].split())]
    other = listed.parent / "other.csv"
    other.write_text("path,label\n" + "".join(f"{row['path']},{row['labels']}\n" for row in rows))
    trainer_ranks.run(tmp_path, f"--evaluate={trained[1]}", f"--data={other}", "--evaluate-split=all")
    found = {one["name"]: one["images"] for one in json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())["classes"]}
    assert found == {name: sum(name in row["labels"].split() for row in rows) for name in sorted(several_labels.CLASSES)}
    assert found["tall"] > 0


@pytest.mark.long
def test_the_report_has_the_average_precision_of_each_class(listed, tmp_path):
    settings = {**several_labels.TRAINING, "data": str(listed), "epochs": 1, "report": True}
    trainer_ranks.run(tmp_path, *small_trainings.options({**whole_training.QUIET, **settings}))
    trainer_ranks.run(tmp_path, f"--evaluate={trainer_ranks.checkpoints(tmp_path)[-1]}")
    page = (tmp_path / "report.html").read_text()
    assert "mean average precision" in page and "average precision</th>" in page and "validation mAP" in page
    assert "Confusion matrix" not in page


def test_inference_does_not_care_for_the_smoothing_of_labels(listed, trained, tmp_path):
    env = {"ROLLCALL_LABEL_SMOOTHING": "0.1", "ROLLCALL_BCE_TARGET_THRESHOLD": "0.2"}
    trainer_ranks.run(tmp_path, f"--evaluate={trained[1]}", "--recipe=rsb-a2", ranks=1, env=env)
    assert (tmp_path / "evaluation" / "evaluation.json").exists()
    subprocess.run([PREDICT, trained[1], listed.parent / "0.png"], capture_output=True, check=True,
                   env={**trainer_ranks.environment(tmp_path, 0, 1), **env})


def test_predictions_are_sigmoids(listed, trained, tmp_path):
    import torch
    paths = [listed.parent / row["path"] for row in rows_of(listed, "val")]
    weights = stored_models.export(trained[1], tmp_path / "resnet18.pth")
    expected = stored_models.outputs_of_torchvision(weights, paths, 32, 32).sigmoid()
    told = subprocess.run([PREDICT, "--json", trained[1], *paths], capture_output=True, text=True, check=True,
                          env={**trainer_ranks.environment(tmp_path, 0, 1), "ROLLCALL_LOSS": "cross-entropy"}).stdout
    for line, values in zip(told.splitlines(), expected, strict=True):
        classes = json.loads(line)["classes"]
        assert [one["class"] for one in classes] == [sorted(several_labels.CLASSES)[i] for i in values.argsort(descending=True)]
        assert torch.allclose(torch.tensor([one["probability"] for one in classes]), values.sort(descending=True).values, atol=1e-5)


@pytest.mark.long
def test_the_same_bits_with_any_number_of_workers_and_after_a_resume(listed, tmp_path):
    settings = {**several_labels.TRAINING, "data": str(listed), "mixup": 0.4, "auto-augment": "augmix", "crop-scale-min": 0.3}
    losses = {}
    for workers in (0, 3):
        done = whole_training.train_ours(tmp_path / str(workers), settings, more=(f"--train-num-workers={workers}",))
        losses[workers] = [(record["step"], record["loss"]) for record in done.records]
    assert losses[0] == losses[3]
    first = whole_training.train_ours(tmp_path / "resumed", settings, more=("--max-steps=3",))
    again = whole_training.train_ours(tmp_path / "resumed", settings)
    assert first.records[0]["step"] == 3 and [(r["step"], r["loss"]) for r in again.records][-1] == losses[0][-1]


def test_another_order_of_the_classes_is_not_resumed(listed, tmp_path):
    settings = small_trainings.options({**whole_training.QUIET, **several_labels.TRAINING, "data": str(listed), "epochs": 1})
    (tmp_path / "names.txt").write_text("\n".join(sorted(several_labels.CLASSES, reverse=True)))
    named = [*settings, f"--class-names={tmp_path / 'names.txt'}"]
    trainer_ranks.run(tmp_path / "run", *named, "--max-steps=2", ranks=1)
    for other in (settings, [*settings, "--resume=continue-with-changes"]):
        code = 76 if other is settings else 0
        printed = trainer_ranks.run(tmp_path / "run", *other, "--max-steps=3", ranks=1, code=code)
        assert "the names of the classes differ" in printed, printed


def test_the_lines_of_the_page_turn_parquet_into_csv(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    page = (ROOT / "docs" / "user" / "label_lists.md").read_text()
    lines = page.split("```python\n")[1].split("```")[0]
    pandas.DataFrame({"path": ["a, 1.jpg", "b.jpg"], "label": ["cat", "dog"]}).to_parquet(tmp_path / "labels.parquet")
    subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, check=True)
    assert (tmp_path / "labels.csv").read_text() == 'path,label\n"a, 1.jpg",cat\nb.jpg,dog\n'


@pytest.mark.parametrize("text, options, code, said", [
    ("path,labels\n0.png,red\n", [], 65, "row 1: has a column labels, but the training gives each image one class; try --loss=multi-label"),
    ("path,labels\n0.png,red\n1.png,red green red\n", ["--loss=multi-label"], 65, "row 3: has the label 'red' twice"),
    ("path,labels\n0.png,red\n1.png,green blue\n", ["--loss=multi-label", "--class-names={folder}/names.txt"], 65,
     "row 3: has the unknown label 'blue'"),
    ("path,labels\n0.png,\n1.png,\n", ["--loss=multi-label"], 65, "gives no image a class"),
    ("path,labels\n0.png,red\n", ["--loss=multi-label", "--class-weights=balanced"], 64, "--class-weights: balanced: has no effect with"),
    ("path,labels\n0.png,red\n", ["--loss=multi-label", "--sampling=balanced"], 64, "--sampling: balanced: has no effect with"),
    ("path,labels\n0.png,red\n", ["--loss=multi-label", "--label-smoothing=0.1"], 64,
     "--label-smoothing: 0.1: has no effect with --loss=multi-label; try --loss=bce, or --label-smoothing=0"),
    ("path,labels\n0.png,red\n", ["--loss=multi-label", "--recipe=torchvision-v2"], 64, "or --label-smoothing=0"),
    ("path,labels\n0.png,red\n", ["--loss=multi-label", "--recipe=rsb-a2"], 64, "or --bce-target-threshold=0"),
    ("path,labels\n0.png,red\n1.png,\"red, green\"\n", ["--loss=multi-label"], 65,
     "row 3: has the label 'red,', which looks like a list with another separator; try writing blanks between the names"),
    ("path,label,labels\n0.png,red,red green\n", ["--loss=multi-label"], 65,
     "row 1: has the columns label and labels; try removing one of them"),
    ("path,labels,split\n0.png,red,train\n1.png,green,train\n2.png,red,val\n", ["--loss=multi-label", "--num-classes=5", "--batch-size=2"], 64,
     "--num-classes: 5: the data has 2 classes, and --loss=multi-label allows no more; try leaving it out"),
    ("path,labels\n0.png,red\n", ["--loss=multi-label", "--bce-target-threshold=0.1"], 64, "--bce-target-threshold: 0.1: has no effect"),
    ("path,labels\n0.png,red\n", ["--loss=multi-label", "--data=fake"], 64, "--loss: multi-label: has no effect without a CSV file as --data"),
])
def test_what_contradicts_is_refused_by_name(text, options, code, said, listed, tmp_path):
    (listed.parent / "bad.csv").write_text(text)
    (tmp_path / "names.txt").write_text("red\ngreen\n")
    given = [option.format(folder=tmp_path) for option in options]
    printed = trainer_ranks.run(tmp_path / "run", f"--data={listed.parent / 'bad.csv'}", *given, ranks=1, code=code)
    assert said in printed and printed.count("rollcall: ") == 1, printed
