"""The files of --tensorboard, read back by TensorBoard's own reader, match metrics.jsonl, also for resumed runs."""
import io
import json
import os
import signal
import subprocess
import time

import numpy
import pytest
from PIL import Image

import small_trainings
import trainer_ranks

pytestmark = pytest.mark.python
event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
pytest.importorskip("h5py")

SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--progress=lines", "--num-classes=10", "--fake-size=47", "--lr=0.001",
    "--log-steps=1")
CURVES = {"training/loss": ("step", "loss"), "training/top1": ("step", "top1"), "training/top5": ("step", "top5"),
          "training/learning_rate": ("step", "learning_rate"), "training/gradient_norm": ("step", "gradient_norm"),
          "training/loss_scale": ("step", "loss_scale"), "speed/images_per_second": ("step", "images_per_second"),
          "validation/loss": ("validation", "loss"), "validation/top1": ("validation", "top1"), "validation/top5": ("validation", "top5")}
ALL = dict.fromkeys((event_accumulator.SCALARS, event_accumulator.IMAGES, event_accumulator.HISTOGRAMS, event_accumulator.TENSORS), 0)


def shown(folder):
    """What TensorBoard has of all files of a run."""
    read = event_accumulator.EventAccumulator(str(folder / "tensorboard"), ALL)
    read.Reload()
    return read


def curve(read, tag):
    return [(point.wall_time, point.step, point.value) for point in read.Scalars(tag)]


def files(folder):
    return sorted((folder / "tensorboard").iterdir())


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def points(records, event, name):
    """[(time, step, value)] of a curve, without what was done again; null and a rate that is not known yet are no points."""
    found = []
    for record in records:
        if record["event"] == "begin":
            found = [point for point in found if point[1] <= record["step"]]
        elif record["event"] == event and record[name] is not None and not (name == "images_per_second" and record[name] == 0):
            found.append((record["time"], record["step"], float(numpy.float32(record[name]))))
    return found


def check_curves(folder, absent=()):
    read, records = shown(folder), lines(folder)
    expected = {tag: points(records, *source) for tag, source in CURVES.items()}
    assert {tag for tag, curve in expected.items() if not curve} == set(absent)
    assert set(read.Tags()["scalars"]) == CURVES.keys() - set(absent)
    for tag in read.Tags()["scalars"]:
        assert curve(read, tag) == expected[tag], tag
    return read, records


@pytest.fixture(scope="module", params=[1, 2])
def trained(request, tmp_path_factory):
    """Five steps of 40 images in each of two epochs; ended after the seventh, whose checkpoint is lost, so that two are done again."""
    folder, ranks = tmp_path_factory.mktemp("trained"), request.param
    options = (*SMALL, f"--batch-size={8 // ranks}", "--epochs=2", "--valid-epochs=1", "--clip-grad-norm=5", "--train-num-workers=1",
               "--checkpoint-overlap=wait", "--keep-last=9")
    extra = ("--tensorboard", "--tensorboard-histograms=5")
    trainer_ranks.run(folder, *options, *extra, "--max-steps=7", ranks=ranks)
    (folder / "step-00000007.h5").unlink()
    assert "step-00000005.h5" in trainer_ranks.run(folder, *options, *extra, ranks=ranks)
    return folder, ranks, options


def test_tensorboard_curves_match_the_records_also_after_a_resume(trained):
    folder, _, _ = trained
    read, records = check_curves(folder, absent={"training/loss_scale"})
    assert len(files(folder)) == 2  # one a start, of rank 0 alone
    assert [record["step"] for record in records if record["event"] == "step"] == [*range(1, 8), *range(6, 11)]
    assert [point.step for point in read.Scalars("training/loss")] == list(range(1, 11))
    assert len({point.value for point in read.Scalars("training/gradient_norm")}) > 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tbparse's use of pandas
def test_tbparse_reads_the_same_values(trained):
    tbparse = pytest.importorskip("tbparse")
    folder, _, _ = trained
    table = tbparse.SummaryReader(str(folder / "tensorboard")).scalars
    losses = {row.step: row.value for row in table[table.tag == "training/loss"].itertuples()}
    assert losses == {step: value for _, step, value in points(lines(folder), "step", "loss")}


def test_tensorboard_does_not_change_the_training(trained, tmp_path):
    folder, ranks, options = trained
    trainer_ranks.run(tmp_path, *options, ranks=ranks)
    assert not (tmp_path / "tensorboard").exists()
    assert trainer_ranks.differences(folder / "step-00000010.h5", tmp_path / "step-00000010.h5") == []


def test_tensorboard_shows_the_settings_of_each_start(trained):
    folder, _, _ = trained
    begins = [record for record in lines(folder) if record["event"] == "begin"]
    texts = shown(folder).Tensors("settings")
    assert [(text.wall_time, text.step) for text in texts] == [(begin["time"], begin["step"]) for begin in begins]
    for text, begin in zip(texts, begins):
        table = text.tensor_proto.string_val[0].decode()
        assert "| `tensorboard-histograms` | `5` | `--tensorboard-histograms` |" in table
        assert [row.split("`")[1] for row in table.splitlines()[2:]] == list(begin["settings"])
    assert "| `max-steps` | `7` | `--max-steps` |" in texts[0].tensor_proto.string_val[0].decode()


def test_tensorboard_compares_the_settings_of_runs(trained):
    """The page HParams: a setting that is a number is one there."""
    plugin_data = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    content = shown(trained[0]).PluginTagToContent("hparams")["_hparams_/session_start_info"]
    values = plugin_data.HParamsPluginData.FromString(content).session_start_info.hparams
    assert values["lr"].number_value == 0.001 and values["model"].string_value == "resnet20"


def test_tensorboard_histograms_match_weights_and_gradients(trained):
    folder, _, _ = trained
    read = shown(folder)
    state = trainer_ranks.model_in(folder / "step-00000010.h5")
    parameters = {tag.removeprefix("weights/") for tag in read.Tags()["histograms"] if tag.startswith("weights/")}
    assert {tag for tag in read.Tags()["histograms"] if tag.startswith("gradients/")} == {"gradients/" + name for name in parameters}
    assert parameters == {name for name in state if "running" not in name and "num_batches" not in name}
    for name in parameters:
        weights, gradients = read.Histograms("weights/" + name), read.Histograms("gradients/" + name)
        assert [event.step for event in weights] == [event.step for event in gradients] == [5, 10]
        values, seen = state[name].astype(float), weights[-1].histogram_value
        assert (seen.min, seen.max, seen.num) == (values.min(), values.max(), values.size)
        assert seen.sum == pytest.approx(values.sum(), abs=1e-9) and seen.sum_squares == pytest.approx((values**2).sum())
        assert sum(seen.bucket) == values.size and seen.bucket_limit == sorted(seen.bucket_limit)
        edges = [-numpy.inf, *seen.bucket_limit]
        middle = [i for i, limit in enumerate(seen.bucket_limit) if limit <= 0]  # (..., ...]; those of positive numbers are [..., ...)
        assert [seen.bucket[i] for i in middle] == [((values > edges[i]) & (values <= edges[i + 1]) & (values < 0)).sum() for i in middle]
    norm = sum(read.Histograms("gradients/" + name)[-1].histogram_value.sum_squares for name in parameters) ** 0.5
    assert norm == pytest.approx(min(5, read.Scalars("training/gradient_norm")[-1].value), rel=1e-4)  # as the optimizer saw them


def test_tensorboard_images_are_the_inputs_of_the_model(tmp_path):
    """Three images of the model's size without augmentation."""
    root, random = tmp_path / "pictures", numpy.random.default_rng(3)
    pictures = [random.integers(0, 256, (32, 32, 3), dtype=numpy.uint8) for _ in range(3)]
    for part in ("train", "val"):
        for i, picture in enumerate(pictures):
            (root / part / f"class {i}").mkdir(parents=True)
            Image.fromarray(picture).save(root / part / f"class {i}" / "0.png")
    options = small_trainings.options({**small_trainings.SAME_BITS, "flip": 0, "batch-size": 3, "image-size": 32, "data": str(root)})
    trainer_ranks.run(tmp_path / "run", *options, "--model=resnet20", "--progress=lines", "--max-steps=1", "--valid-epochs=0", "--tensorboard",
                      ranks=1)
    [image] = shown(tmp_path / "run").Images("first_batch")
    grid = numpy.asarray(Image.open(io.BytesIO(image.encoded_image_string)))
    assert (image.step, image.width, image.height, grid.shape) == (1, 64, 64, (64, 64, 3))
    tiles = [grid[y:y + 32, x:x + 32] for y in (0, 32) for x in (0, 32)]
    assert sorted(tile.tobytes() for tile in tiles[:3]) == sorted(picture.tobytes() for picture in pictures)
    assert not tiles[3].any()


def test_tensorboard_histograms_of_shards_are_labelled_by_rank(tmp_path):
    trainer_ranks.run(tmp_path, *SMALL, "--batch-size=4", "--max-steps=2", "--valid-epochs=0", "--parallel=fsdp", "--tensorboard",
                      "--tensorboard-histograms=2")
    read = shown(tmp_path)
    assert {tag.split("/")[0] for tag in read.Tags()["histograms"]} == {"weights_of_rank_0", "gradients_of_rank_0"}
    for kind in ("weights", "gradients"):
        [shard] = read.Histograms(f"{kind}_of_rank_0/fc.weight")
        assert (shard.step, shard.histogram_value.num) == (2, 10 * 64 / 2)


def test_tensorboard_shows_the_loss_scale_of_fp16(tmp_path):
    [process] = trainer_ranks.start(tmp_path, *SMALL, "--batch-size=4", "--max-steps=3", "--valid-epochs=0", "--precision=fp16", "--tensorboard",
                                    ranks=1)
    _, errors = process.communicate(timeout=240)
    if "this machine cannot train with it" in errors:
        pytest.skip(errors)
    read, _ = check_curves(tmp_path, absent={"training/gradient_norm", *(tag for tag in CURVES if tag.startswith("validation"))})
    assert len(read.Scalars("training/loss_scale")) == 3


def test_tensorboard_events_of_a_killed_run_are_readable(tmp_path):
    [process] = trainer_ranks.start(tmp_path, *SMALL, "--batch-size=4", "--epochs=1000", "--valid-epochs=0", "--tensorboard", ranks=1)
    records, end = tmp_path / "metrics.jsonl", time.monotonic() + 120
    while not records.exists() or records.read_text().count("\n") < 6:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    steps = points(lines(tmp_path), "step", "loss")
    seen = curve(shown(tmp_path), "training/loss")
    assert len(steps) >= 3 and seen in (steps, steps[:-1])  # each is written behind its record


def test_tensorboard_rejects_an_unusable_folder_and_a_contradiction(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "tensorboard").write_text("in the way")
    told = trainer_ranks.run(tmp_path / "a", *SMALL, "--batch-size=4", "--max-steps=1", "--tensorboard", ranks=1, code=73)
    assert "rollcall: --tensorboard: " in told and "cannot be created" in told
    told = trainer_ranks.run(tmp_path / "b", *SMALL, "--tensorboard-histograms=5", ranks=1, code=64)
    assert "--tensorboard-histograms: 5: has no effect with --tensorboard=off" in told


def test_tensorboard_on_a_full_disk_is_a_warning(tmp_path):
    """Its histograms do not fit; the curves around them do."""
    room = tmp_path / "room"
    room.mkdir()
    in_the_room = 'mount -t tmpfs -o size=96k none "$0" && "$@" && cp -r "$0/." "$0.kept"'
    command = ["unshare", "-m", "sh", "-c", in_the_room, room, trainer_ranks.PROGRAM, *SMALL, "--model=resnet18", "--batch-size=4",
               "--max-steps=3", "--valid-epochs=0", "--tensorboard", "--tensorboard-histograms=2", "--report=off", f"--run-dir={room}",
               f"--checkpoint-dir={tmp_path}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=240,
                          env=trainer_ranks.environment(tmp_path, 0, 1))
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("cannot be written: No space left on device") == 1
    assert "the file for TensorBoard lacks 1 record that could not be written" in done.stderr
    kept = tmp_path / "room.kept"
    assert curve(shown(kept), "training/loss") == points(lines(kept), "step", "loss")
    assert os.listdir(kept / "tensorboard") and shown(kept).Tags()["histograms"] == []
