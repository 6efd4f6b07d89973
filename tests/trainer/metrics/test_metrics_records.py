"""Every kind of record of metrics.jsonl, from real runs: its fields in their order, and the consistency of the numbers."""
import json
import os
import pathlib
import re

import pytest

import trainer_ranks
from trainer_ranks import SMALL

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
SCHEMA = json.loads((ROOT / "docs" / "reference/metrics.schema.json").read_text())
# What a record has is in the schema's order; what it does not require is told only where it is known: energy, what GPUs do.
NAMES = {event: list(record["properties"]) for event, record in SCHEMA["$defs"].items()}


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def of(records, event):
    return [record for record in records if record["event"] == event]


def check_names(records):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for record in records:
        assert list(record) == [name for name in NAMES[record["event"]] if name in record]
        validator.validate(record)


def mean(records, name):
    return sum(record[name] * record["samples"] for record in records) / sum(record["samples"] for record in records)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two ranks, five steps of 40 images in each of two epochs, a record of every step; ended after the seventh, and gone on with."""
    folder = tmp_path_factory.mktemp("trained")
    options = (*SMALL, "--num-classes=10", "--fake-size=47", "--epochs=2", "--valid-epochs=1", "--log-steps=1", "--lr=0.001",
               "--train-num-workers=1", "--checkpoint-steps=7", "--checkpoint-epochs=0", "--checkpoint-overlap=wait",
               "--rank-seconds=3600")
    trainer_ranks.run(folder, *options, "--max-steps=7")
    trainer_ranks.run(folder, *options)
    return lines(folder)


def test_records_have_the_fields_of_the_schema_in_order(trained):
    check_names(trained)
    in_order = [record["event"] for record in trained if record["event"] != "checkpoint"]  # those come when they are done
    assert in_order == ["begin", *["step"] * 5, "epoch", "validation", "step", "step", "validation", "ranks", "end",
                        "begin", "resume", *["step"] * 3, "epoch", "validation", "ranks", "end"]
    times = [record["time"] for record in trained]
    assert times == sorted(times)


def test_the_schema_rejects_invalid_records(trained):
    validator = pytest.importorskip("jsonschema").Draft202012Validator(SCHEMA)
    step = of(trained, "step")[0]
    validator.validate(step)
    for wrong in ({**step, "top1": 1.5}, {**step, "loss": "low"}, {k: v for k, v in step.items() if k != "seconds"},
                  {**step, "event": "stride"}):
        assert not validator.is_valid(wrong)


def test_a_begin_record_describes_the_run_and_its_settings(trained):
    first, second = of(trained, "begin")
    assert (first["schema"], first["step"], second["step"], first["ranks"], first["nodes"], first["job"]) == (1, 0, 7, 2, 1, "")
    assert (first["model"], first["data"], first["classes"]) == ("resnet20", "fake", 10)
    assert re.fullmatch("/.+/trained[0-9]+", first["checkpoint_folder"])
    assert (first["training_images"], first["validation_images"]) == (40, 5)
    assert (first["images_of_step"], first["steps_of_epoch"], first["epochs"], first["max_steps"]) == (8, 5, 2, 7)
    assert len(first["hosts"]) == 1 and first["cpus_of_rank"] >= 1
    assert first["settings"]["max-steps"] == {"value": "7", "origin": "--max-steps"}
    assert second["settings"]["max-steps"]["origin"] == "default"
    assert first["settings"]["rendezvous"]["value"] == "file"  # those of launching as well
    set_or_kept = {variable["name"]: variable for variable in first["environment"]}
    assert set_or_kept["MASTER_ADDR"]["value"] == "127.0.0.1"


def test_values_that_may_be_secrets_are_not_recorded(tmp_path):
    trainer_ranks.run(tmp_path, *SMALL, "--fake-size=47", "--valid-epochs=0", "--checkpoint-epochs=0", "--max-steps=1",
                      "--variables=SITE_PASS=abc-123-def", ranks=1)
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "SITE_PASS" in text and "abc-123-def" not in text


def test_step_times_are_consistent_and_recorded_per_rank(trained):
    for step in of(trained, "step"):
        parts = [step[name] for name in ("forward_seconds", "backward_seconds", "wait_seconds", "optimizer_seconds")]
        assert step["steps"] == 1 and min(parts) > 0 and sum(parts) <= step["seconds"]
    for ranks in of(trained, "ranks"):
        for name in ("data_seconds", "forward_seconds", "backward_seconds", "wait_seconds"):
            assert len(ranks[name]) == 2 and min(ranks[name]) >= 0
        assert min(ranks["forward_seconds"]) > 0 and ranks["forward_seconds"][0] != ranks["forward_seconds"][1]
        assert all(50 < mib < 50_000 for mib in ranks["peak_memory_mib"])


def test_loader_utilisation_and_cpu_time_are_recorded_per_rank(tmp_path):
    """The values of rank 0 in the record of all ranks equal those in the records of its steps."""
    image = pytest.importorskip("PIL.Image")
    for i in range(160):
        folder = tmp_path / "data" / ("train" if i < 152 else "val") / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image.effect_noise((300, 200), 60 + i).convert("RGB").save(folder / f"{i}.jpg")
    trainer_ranks.run(tmp_path / "run", *[option for option in SMALL if not option.startswith("--data")], f"--data={tmp_path}/data",
                      "--epochs=1", "--valid-epochs=0", "--log-steps=1", "--train-num-workers=3", "--checkpoint-epochs=0", "--rank-seconds=3600")
    found = lines(tmp_path / "run")
    ranks, = of(found, "ranks")
    steps = of(found, "step")[:-1]  # a step is told with the next one's totals
    busy = sum(step["loader_utilisation_of_rank_0"] * step["seconds"] for step in steps) / sum(step["seconds"] for step in steps)
    assert ranks["loader_utilisation"][0] == pytest.approx(busy, rel=0.02) and 0 < busy < 0.9
    seconds = sum(step["seconds"] for step in steps) / len(steps)
    assert all(0 < cpu <= seconds * len(os.sched_getaffinity(0)) * 1.05 for cpu in ranks["cpu_seconds"]), ranks["cpu_seconds"]


def test_an_epoch_is_the_sum_of_its_steps_over_all_ranks(trained):
    steps = of(trained, "step")
    assert [(s["step"], s["epoch"], s["samples"]) for s in steps] == [(i + 1, i // 5, 8) for i in range(10)]
    for epoch in of(trained, "epoch"):
        own = [step for step in steps if step["epoch"] == epoch["epoch"]]
        assert (epoch["samples"], epoch["step"], epoch["bad_samples"], epoch["unread_samples"]) == (40, own[-1]["step"], 0, 0)
        for name in ("loss", "top1", "top5"):
            assert epoch[name] == pytest.approx(mean(own, name), rel=1e-12, abs=1e-12), name
    assert any(0 < step["top1"] < step["top5"] < 1 for step in steps)


def test_fractions_and_rates_are_in_range(trained):
    for record in trained:
        for name in ("top1", "top5", "data_wait_fraction"):
            assert 0 <= record.get(name, 0) <= 1
        assert record.get("top1", 0) <= record.get("top5", 1)
    for step in of(trained, "step"):
        assert step["learning_rate"] == 0.002  # times the ranks
        first = step["step"] in (1, 6, 8)  # of an epoch or of a run: a rate takes two steps
        assert (step["images_per_second"] == 0) == first
        assert step["data_wait_seconds"] >= 0 and step["loader_utilisation_of_rank_0"] >= 0


def test_validation_checkpoint_resume_and_end_records_have_their_step(trained):
    assert [(v["epoch"], v["step"]) for v in of(trained, "validation")] == [(1, 5), (1, 7), (2, 10)]
    assert [v["samples"] for v in of(trained, "validation")] == [5, 5, 5]
    steps = [c["step"] for c in of(trained, "checkpoint")]
    assert steps[0] == 5 and steps[-1] == 10 and 7 in steps  # the first validation is the best so far
    assert all((c["written"], c["tries"]) == (True, 1) for c in of(trained, "checkpoint"))
    assert all(0 <= c["stall_seconds"] and 0 < c["durable_seconds"] for c in of(trained, "checkpoint"))
    assert [resume["global_step"] for resume in of(trained, "resume")] == [7]
    assert [(end["ending"], end["step"]) for end in of(trained, "end")] == [("finished", 7), ("finished", 10)]


def test_skipped_and_failed_saves_are_recorded(tmp_path):
    (tmp_path / "step-00000001.h5" / "in the way").mkdir(parents=True)
    trainer_ranks.run(tmp_path, *SMALL, "--fake-size=80", "--lr=0.001", "--valid-epochs=0", "--checkpoint-epochs=0", "--max-steps=3",
                      "--checkpoint-steps=1", "--checkpoint-retries=2", "--resume=never", ranks=1)
    found = lines(tmp_path)
    check_names(found)
    assert [skipped["step"] for skipped in of(found, "checkpoint_skipped")] == [2]  # the first is tried for three seconds
    assert [(c["step"], c["written"], c["tries"]) for c in of(found, "checkpoint")] == [(1, False, 3), (3, True, 1)]
    assert of(found, "checkpoint")[0]["durable_seconds"] >= 3
    assert any("the checkpoint of step 1 was not written" in record["text"] for record in of(found, "warning"))


def test_skipped_steps_are_recorded(tmp_path):
    options = (*SMALL, "--fake-size=47", "--valid-epochs=0", "--checkpoint-epochs=0", "--max-steps=4", "--precision=fp16",
               "--model=resnet18", "--log-steps=1", "--lr=1e-6")
    [process] = trainer_ranks.start(tmp_path, *options, ranks=1)
    out, err = process.communicate(timeout=240)
    if "this machine cannot train with it" in err:
        pytest.skip(err)
    assert process.returncode == 0, out + err
    found = lines(tmp_path)
    check_names(found)
    skipped = of(found, "skipped_step")
    assert [record["skipped_steps"] for record in skipped] == list(range(1, len(skipped) + 1)) != []  # 65536 is too much for this model
    assert [record["loss_scale"] for record in skipped] == [65536 / 2**(i + 1) for i in range(len(skipped))]
    assert [record["step"] for record in skipped] == list(range(1, len(skipped) + 1))
    assert len(of(found, "step")) == 4  # steps that were left out are recorded as well


@pytest.mark.parametrize("given", [("--variables=HF_TOKEN=s3cr3t,OTHER=s3cr3t",), ("--variables", "HF_TOKEN=s3cr3t")],
                         ids=["one-word", "two-words"])
def test_values_of_variables_are_written_to_no_file(tmp_path, given):
    """A run folder is often readable by others. The checkpoint still contains the rest of the command line and can be resumed."""
    h5py = pytest.importorskip("h5py")
    options = (*SMALL, "--data=fake", "--fake-size=20", "--valid-epochs=0", "--epochs=9", "--checkpoint-steps=1", *given)
    trainer_ranks.run(tmp_path, *options, "--max-steps=1", ranks=1)
    text = trainer_ranks.run(tmp_path, *options, "--max-steps=2", ranks=1)
    assert "resumed from" in text and "warning" not in text
    assert of(lines(tmp_path), "begin")[1]["settings"]["variables"]["value"] == "(not shown)"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"s3cr3t" in path.read_bytes()] == []
    with h5py.File(trainer_ranks.checkpoints(tmp_path)[-1]) as file:
        stored = [argument.decode() for argument in file["config/argv"][()]]
    hidden = ["--variables=(not shown)"] if len(given) == 1 else ["--variables", "(not shown)"]
    assert stored[-len(given) - 2:] == ["--checkpoint-steps=1", *hidden, "--max-steps=2"]


QUICK = (*SMALL, "--fake-size=80", "--lr=0.001", "--checkpoint-epochs=0", "--valid-epochs=0", "--epochs=9", "--train-num-workers=0")


def step_records(found):
    return [(record["step"], record["steps"], record["samples"]) for record in of(found, "step")]


def test_the_steps_after_the_last_multiple_have_a_record(tmp_path):
    """The steps before the end of a run that is resumed later are in one record."""
    trainer_ranks.run(tmp_path, *QUICK, "--log-steps=3", "--max-steps=5", ranks=1)
    text = trainer_ranks.run(tmp_path, *QUICK, "--log-steps=3", "--max-steps=7", ranks=1)
    found = lines(tmp_path)
    check_names(found)
    images = of(found, "begin")[0]["images_of_step"]
    assert step_records(found) == [(3, 3, 3 * images), (5, 2, 2 * images), (6, 1, images), (7, 1, images)]
    assert re.search(r"^progress +step 7 of 7$", text, re.M) and "older rollcall" not in text


def test_a_diverged_run_records_its_last_steps(tmp_path):
    options = [option for option in QUICK if not option.startswith("--lr")]
    trainer_ranks.run(tmp_path, *options, "--log-steps=50", "--lr=1e6", "--optimizer=sgd", "--lr-schedule=none", "--max-skipped-steps=0",
        ranks=1, code=65)
    found = lines(tmp_path)
    assert of(found, "failed") and sum(steps for _, steps, _ in step_records(found)) == of(found, "step")[-1]["step"] > 0


def test_a_begin_record_contains_the_command_line(tmp_path):
    trainer_ranks.run(tmp_path, *QUICK, "--max-steps=1", "--variables=A=s3cr3t", ranks=1, env={"SCRATCH": ""})
    begin, = of(lines(tmp_path), "begin")
    assert begin["command_line"][-2:] == ["--max-steps=1", "--variables=(not shown)"]
    assert isinstance(begin["warnings"], list)


def test_progress_lines_show_time_first_step_and_means(tmp_path):
    text = trainer_ranks.run(tmp_path, *QUICK, "--log-steps=3", "--max-steps=4", "--progress=lines", ranks=1)
    clock = r"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}\]$"
    assert re.search(r"^first step of this start: step 1 took \d+\.\d\d s  " + clock, text, re.M), text
    told = re.findall(r"^epoch 1/9  step (\d)/\d+  loss [\d.]+ \(step\)  top-1 [\d.]+ % \(epoch\)  .*" + clock, text, re.M)
    assert told == ["3", "4"], text  # the last step of the run, too
    assert not re.search(r"^epoch 1/9  step 4/.*ETA [1-9]", text, re.M), text  # none is left of --max-steps
