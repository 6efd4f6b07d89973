"""Whole trainings on the stand-in device, which is as strict as a GPU (tests/support/stand_in_device.h): the CPU's to the last bit.

Its memory cannot be read by the host, operators take no tensor of the CPU, and copies are as late as they may be: what forgets
one of these ends with SIGSEGV, an error, or other bits."""
import functools
import json
import os
import pathlib
import re
import shutil
import signal

import pytest

import trainer_ranks
from device_trainings import DATA, EAGER_STEPS, GRAPH, KERNELS, LAST, RANDOM, STAND_IN, counts, last, refused
from trainer_ranks import SMALL, differences, records

h5py = pytest.importorskip("h5py")

pytestmark = [pytest.mark.python, pytest.mark.long]

# Batches of two: gradients of means over so few pictures, times the first scale, are beyond float16, in which CPUs are slow.
FLOAT16 = ("--precision=fp16", "--batch-size=2", "--fake-size=40", "--epochs=1")
TRAININGS = {
    "alone": (1, "--optimizer=sgd", "--lr-schedule=none"),
    "ddp": (2, "--optimizer=adamw", *RANDOM),
    "ddp of four": (4, "--optimizer=sgd", "--lr-schedule=none", "--first-bucket=0.01", "--bucket=0.1"),
    "accumulation": (2, "--optimizer=sgd", "--lr-schedule=none", "--grad-accumulation=3", *RANDOM),
    "fsdp": (2, "--parallel=fsdp", "--optimizer=adamw", *RANDOM),
    "fsdp alone": (1, "--parallel=fsdp", "--optimizer=sgd", "--lr-schedule=none"),
    "fsdp of four": (4, "--parallel=fsdp", "--optimizer=adamw"),
    "fsdp offloaded": (2, "--parallel=fsdp", "--optimizer=sgd", "--lr-schedule=none", "--cpu-offload"),
    "bce": (2, "--optimizer=sgd", "--loss=bce", "--class-weights=balanced", "--freeze=layer1", "--blurpool", *RANDOM),
    "hybrid": (4, "--parallel=fsdp", "--shard-degree=2", "--replicate-degree=2", "--optimizer=adamw"),
    "bfloat16": (2, "--optimizer=sgd", "--lr-schedule=none", "--precision=bf16", *RANDOM),
    "float16": (2, "--optimizer=adamw", *FLOAT16, "--clip-grad-norm=1"),
    "float16 of shards": (2, "--parallel=fsdp", "--optimizer=sgd", "--lr-schedule=none", *FLOAT16),
    "levels": (2, "--optimizer=adamw", "--image-dtype=uint8", *RANDOM),
    "lamb of shards, average": (2, "--parallel=fsdp", "--optimizer=lamb", "--ema=0.9", "--lr-factors=layer1=0.3,fc=2", *RANDOM),
    "lars offloaded, average": (2, "--parallel=fsdp", "--optimizer=lars", "--ema=0.9", "--cpu-offload"),
    "lars, average": (2, "--optimizer=lars", "--ema=0.9", "--ema-steps=2", "--lr-factors=layer1=0.3,fc=2"),
    "synchronous saves": (2, "--optimizer=adamw", "--checkpoint-mode=sync"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a complete training with these options, which runs once for all tests."""
    @functools.cache
    def train(ranks, *options):
        folder = tmp_path_factory.mktemp("trained")
        trainer_ranks.run(folder, *DATA, *options, ranks=ranks)
        return folder
    return train


@pytest.mark.parametrize("options", [("--image-dtype=float32",), ("--image-dtype=uint8",), ("--image-dtype=float32", "--precision=bf16")])
def test_an_evaluation_on_a_device_equals_one_on_cpus(tmp_path, trained, options):
    stored, found = last(trained(1, "--device=cpu", "--optimizer=sgd")), []
    for device in ("--device=cpu", STAND_IN):
        trainer_ranks.run(tmp_path, f"--evaluate={stored}", "--batch-size=3", device, *options, ranks=2)
        evaluation = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
        found.append({key: value for key, value in evaluation.items() if key != "seconds"})
    assert found[0] == found[1] and found[0]["images"] > 3


@pytest.mark.parametrize("training", TRAININGS)
def test_a_training_on_a_device_is_bit_identical_to_one_on_cpus(tmp_path, trained, training):
    ranks, *options = TRAININGS[training]
    on_cpus, on_device = trained(ranks, "--device=cpu", *options), tmp_path
    trainer_ranks.run(on_device, *DATA, *options, STAND_IN, ranks=ranks)
    assert last(on_cpus).name == last(on_device).name
    assert differences(last(on_cpus), last(on_device)) == []
    for event in ("step", "epoch", "validation"):
        assert records(on_device, event) == records(on_cpus, event) != []
    left_out = records(on_cpus, "skipped_step")
    assert records(on_device, "skipped_step") == left_out
    if training.startswith("float16"):  # and steps behind them that are taken
        assert left_out and max(record["step"] for record in left_out) < max(record["step"] for record in records(on_cpus, "step"))


GRAPHS = {
    "alone": TRAININGS["alone"],
    "ddp": TRAININGS["levels"],
    "accumulation": (2, "--optimizer=sgd", "--lr-schedule=none", "--grad-accumulation=3", "--fake-size=400", *RANDOM),
    "fsdp": (2, "--parallel=fsdp", "--optimizer=adamw", "--precision=bf16", "--clip-grad-norm=1", *RANDOM),
    "bce": (2, "--parallel=fsdp", "--optimizer=sgd", "--loss=bce", "--class-weights=balanced", "--freeze=layer1", "--blurpool", *RANDOM),
    "hybrid": (4, "--parallel=fsdp", "--shard-degree=2", "--replicate-degree=2", "--optimizer=adamw", "--fake-size=200"),
    "fsdp with accumulation": (2, "--parallel=fsdp", "--optimizer=sgd", "--lr-schedule=none", "--grad-accumulation=2", "--fake-size=200"),
    "float16": (2, "--optimizer=adamw", *FLOAT16, "--fake-size=80", "--clip-grad-norm=1"),
    "lamb of shards, average": TRAININGS["lamb of shards, average"],
    "lars, average": TRAININGS["lars, average"],
}


@pytest.mark.parametrize("training", GRAPHS)
def test_steps_in_a_graph_are_bit_identical_to_eager_ones(tmp_path, trained, training):
    """With a validation, which uses the same parameters, between two epochs of graphs."""
    ranks, *options = GRAPHS[training]
    on_cpus, on_device = trained(ranks, "--device=cpu", *options), tmp_path / "device"
    report = tmp_path / "replays"
    trainer_ranks.run(on_device, *DATA, *options, STAND_IN, GRAPH, ranks=ranks, env={"STAND_IN_WAITS": str(report)})
    assert differences(last(on_cpus), last(on_device)) == []
    steps = records(on_cpus, "step")
    for event in ("step", "epoch", "validation", "skipped_step"):
        assert records(on_device, event) == records(on_cpus, event)
    replays = [int(line.split()[2]) for line in report.read_text().splitlines()]
    left_out = len(records(on_cpus, "skipped_step"))
    in_graphs = max(record["step"] for record in steps) - EAGER_STEPS
    assert replays == [in_graphs] * ranks and in_graphs > left_out


def test_an_overflow_in_a_graph_skips_the_step(tmp_path):
    overflows = EAGER_STEPS + 4
    options = (*DATA, *FLOAT16, STAND_IN, "--optimizer=adamw", "--fake-size=80", "--clip-grad-norm=1")
    for graph in ("off", "on"):
        trainer_ranks.run(tmp_path / graph, *options, f"--cuda-graph={graph}", env={"STAND_IN_OVERFLOWS": str(overflows)})
    left_out = records(tmp_path / "on", "skipped_step")
    assert left_out == records(tmp_path / "off", "skipped_step") and left_out[-1]["step"] == overflows
    assert records(tmp_path / "on", "step") == records(tmp_path / "off", "step")
    assert differences(last(tmp_path / "off"), last(tmp_path / "on")) == []


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_save_during_graph_steps_holds_a_single_step(tmp_path, trained, parallel):
    """It is copied while the device does the next steps; the graph that modifies the copied tensors waits for the copy."""
    options = (*RANDOM, f"--parallel={parallel}", "--optimizer=adamw", f"--checkpoint-steps={EAGER_STEPS + 3}",
               "--checkpoint-overlap=wait")
    file = f"step-{EAGER_STEPS + 3:08}.h5"
    trainer_ranks.run(tmp_path, *DATA, *options, STAND_IN, GRAPH, env={"STAND_IN_LATE_THREADS": "1"})
    assert differences(trained(2, "--device=cpu", *options) / file, tmp_path / file) == []


@pytest.mark.parametrize("options, reason", [(("--device=cpu",), "which cannot capture graphs"),
                                             ((STAND_IN, "--parallel=fsdp", "--cpu-offload"), "the host also computes"),
                                             ((STAND_IN, "--image-size-schedule=8,1,2"), "change with the size of images"),
                                             ((STAND_IN, "--find-unused-parameters"), "examines each step")])
def test_cuda_graph_on_is_an_error_if_steps_cannot_be_captured(tmp_path, options, reason):
    assert reason in refused(tmp_path, *options, GRAPH, code=64, ranks=2)


def test_steps_are_not_captured_by_default(tmp_path):
    report = tmp_path / "replays"
    trainer_ranks.run(tmp_path, *DATA, STAND_IN, "--epochs=1", ranks=1, env={"STAND_IN_WAITS": str(report)})
    assert report.read_text().split()[2] == "0" and len(records(tmp_path, "step")) > EAGER_STEPS


# Steps so small that batch norms, which amplify float32's rounding tenfold a step otherwise, do not: two correct computations stay
# within 2e-7 of each other (measured).
FEW_STEPS = ("--fake-size=100", *SMALL, "--train-num-workers=2", "--lr=1e-4", "--lr-scaling=none", "--optimizer=sgd", "--lr-schedule=none",
             "--epochs=1", "--valid-epochs=1", "--log-steps=1", "--max-steps=6")


def losses(folder, *options, ranks=1, env=None):
    """Of each step, and of the validation behind them."""
    trainer_ranks.run(folder, *FEW_STEPS, STAND_IN, *options, ranks=ranks, env=env)
    return [record["loss"] for event in ("step", "validation") for record in records(folder, event)]


@pytest.mark.parametrize("ranks, options, tolerance", [
    (1, (), 1e-6), (2, ("--image-dtype=uint8", "--gradient-compression=bf16"), 1e-6), (2, ("--sync-bn",), 1e-6),
    (2, ("--parallel=fsdp", "--sync-bn"), 1e-6), (2, ("--precision=bf16",), 1e-3)], ids=["alone", "levels", "sync-bn", "fsdp", "bf16"])
def test_own_kernels_train_like_libtorch_operators(tmp_path, ranks, options, tolerance):
    """Within rounding, and with the same bits each time."""
    of_torch = losses(tmp_path / "torch", *options, ranks=ranks)
    once, again = (losses(tmp_path / name, *options, ranks=ranks, env=KERNELS) for name in ("once", "again"))
    assert once == pytest.approx(of_torch, rel=tolerance) and len(once) == 7
    assert once != of_torch  # the kernels were called
    assert once == again
    assert differences(last(tmp_path / "once"), last(tmp_path / "again")) == []


PARTS = ("residual-gradient", "relu-mask", "stem-pool", "merge-at-once", "reverse-order", "weights-at-once")


ACCUMULATION = ("--grad-accumulation=2", "--precision=bf16", "--image-dtype=uint8")


@pytest.mark.parametrize("ranks, options, parts", [
    (1, ACCUMULATION, PARTS), (2, ("--sync-bn",), PARTS), (1, (), ()), (2, ("--precision=bf16",), ()),
    (2, ("--parallel=fsdp", "--sync-bn", "--precision=bf16", "--grad-accumulation=2"), ()), (2, ("--parallel=fsdp", "--precision=fp16"), ()),
    (2, ("--sync-bn", f"--max-steps={EAGER_STEPS + 2}", GRAPH), ())],
    ids=["accumulation", "sync-bn", "alone", "bf16", "fsdp", "fsdp-fp16", "graph"])
def test_each_part_of_own_kernels_is_bit_identical_to_the_kernels_without_it(tmp_path, ranks, options, parts):
    """A ResNet with the stem of large images."""
    run = ("--model=resnet18", "--max-steps=3", *options)
    basic = losses(tmp_path / "basic", *run, "--own-kernels=basic", ranks=ranks, env=KERNELS)
    assert len(set(basic)) == len(basic) > 3
    for part in (*parts, "on"):
        assert losses(tmp_path / part, *run, f"--own-kernels={part}", ranks=ranks, env=KERNELS) == basic, part
        assert differences(last(tmp_path / "basic"), last(tmp_path / part)) == [], part


@pytest.mark.parametrize("graph", ["off", "on"])
def test_weights_that_are_cast_at_once_have_the_bits_of_autocast(tmp_path, graph):
    """With averaged weights that validations between the steps use, a layer that is not trained, and a step that is skipped."""
    overflows = EAGER_STEPS + 3
    options = ("--precision=fp16", "--optimizer=sgd", "--lr-schedule=none", "--grad-accumulation=2", "--freeze=layer2", "--ema=0.9",
               "--fake-size=200", f"--cuda-graph={graph}", STAND_IN)
    env = {**KERNELS, "STAND_IN_OVERFLOWS": str(overflows)}
    for part in ("basic", "weights-at-once"):
        trainer_ranks.run(tmp_path / part, *DATA, *options, f"--own-kernels={part}", env=env)
    basic, part = tmp_path / "basic", tmp_path / "weights-at-once"
    assert differences(last(basic), last(part)) == []
    for event in ("step", "epoch", "validation", "skipped_step"):
        assert records(part, event) == records(basic, event) != []
    assert records(part, "skipped_step")[-1]["step"] == overflows < records(part, "step")[-1]["step"] - 2


def test_own_kernels_are_off_by_default(tmp_path):
    """Until they were measured on hardware."""
    without = losses(tmp_path / "off", "--own-kernels=off")
    assert losses(tmp_path / "auto", env={"STAND_IN_KERNELS": "1"}) == without
    assert losses(tmp_path / "on", "--own-kernels=on", env={"STAND_IN_KERNELS": "1"}) != without


def test_sync_bn_with_own_kernels_trains_like_one_large_batch(tmp_path):
    together = losses(tmp_path / "together", "--batch-size=8", env=KERNELS)
    assert losses(tmp_path / "shared", "--sync-bn", ranks=2, env=KERNELS) == pytest.approx(together, rel=1e-6)
    apart = losses(tmp_path / "apart", ranks=2, env=KERNELS)
    assert apart[:6] != pytest.approx(together[:6], rel=1e-3)


def test_own_kernels_off_uses_libtorch_operators(tmp_path):
    assert losses(tmp_path / "off", "--own-kernels=off", env=KERNELS) == losses(tmp_path / "none")


@pytest.mark.parametrize("options", [("--sync-bn", "--image-dtype=uint8", "--gradient-compression=bf16"),
                                     ("--parallel=fsdp", "--precision=bf16")], ids=["ddp", "fsdp"])
def test_own_kernels_in_a_graph_are_bit_identical_to_eager_ones(tmp_path, options):
    more = (*options, f"--max-steps={EAGER_STEPS + 5}", "--fake-size=200")
    report = tmp_path / "replays"
    before, graph = (losses(tmp_path / name, *more, f"--cuda-graph={name}", ranks=2, env={**KERNELS, "STAND_IN_WAITS": str(report)})
                     for name in ("off", "on"))
    assert graph == before and len(graph) == EAGER_STEPS + 5 + 1
    assert [line.split()[2] for line in report.read_text().splitlines()] == ["0", "0", "5", "5"]
    assert differences(last(tmp_path / "off"), last(tmp_path / "on")) == []


def waits(folder, steps, *options, env):
    """How often the hosts of two ranks waited for their devices in all, and for moments of their streams."""
    report = folder / "waits"
    trainer_ranks.run(folder, *DATA, STAND_IN, "--fake-size=200", "--valid-epochs=0", "--checkpoint-epochs=0", "--epochs=1",
                      f"--max-steps={steps}", *options, env={**env, "STAND_IN_WAITS": str(report)})
    return [sum(numbers) for numbers in zip(*[map(int, line.split()[:2]) for line in report.read_text().splitlines()])]


@pytest.mark.parametrize("env", [{}, KERNELS], ids=["operators", "kernels"])
@pytest.mark.parametrize("options", [("--optimizer=sgd", "--lr-schedule=none", "--grad-accumulation=2", "--sync-bn"),
                                     ("--optimizer=adamw", *RANDOM, "--image-dtype=uint8"),
                                     ("--optimizer=adamw", "--precision=fp16", "--batch-size=2"),
                                     ("--parallel=fsdp", "--optimizer=adamw", "--precision=bf16", "--clip-grad-norm=1"),
                                     ("--parallel=fsdp", "--optimizer=lamb", "--ema=0.9"), ("--optimizer=rmsprop",)],
                         ids=["accumulation and shared statistics", "all that is random", "fp16", "fsdp", "lamb, average", "rmsprop"])
def test_no_step_waits_for_the_device(tmp_path, options, env):
    """Of what a host waits for at moments of a stream, a step has its batch's copy and the numbers of the step before."""
    few, many = (waits(tmp_path / str(steps), steps, *options, env=env) for steps in (3, 8))
    batches = 2 if "--grad-accumulation=2" in options else 1
    assert many[0] == few[0]
    assert many[1] - few[1] <= 2 * 5 * (1 + batches)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_save_waits_for_the_device_a_constant_number_of_times(tmp_path, mode):
    few, many = (waits(tmp_path / str(every), 12, "--optimizer=adamw", f"--checkpoint-mode={mode}", f"--checkpoint-steps={every}", env={})
                 for every in (6, 2))
    ranks, more_saves, most = 2, 4, 5
    with h5py.File(last(tmp_path / "2")) as file:
        assert 2 * len(file["optimizer/state"]) > 20 * most  # tensors
    assert 0 < sum(many) - sum(few) <= ranks * more_saves * most


def test_a_resumed_training_waits_no_more_for_the_device_than_a_new_one(tmp_path):
    begun = waits(tmp_path, 3, "--optimizer=adamw", env={})
    (tmp_path / "waits").unlink()
    resumed = waits(tmp_path, 6, "--optimizer=adamw", env={})
    assert abs(sum(resumed) - sum(begun)) <= 2 * 5


def test_pinned_memory_for_saves_is_allocated_before_the_first_save(tmp_path):
    """The device fails before any save is due."""
    report = tmp_path / "locks"
    trainer_ranks.run(tmp_path / "fails", *DATA, STAND_IN, "--optimizer=adamw", "--epochs=1000", "--fake-size=4000", code=69,
                      env={"STAND_IN_FAILS": "100", "STAND_IN_WAITS": str(report)})
    trainer_ranks.run(tmp_path / "whole", *DATA, STAND_IN, "--optimizer=adamw", "--epochs=1")
    with h5py.File(last(tmp_path / "whole")) as file:
        moments = []
        file["optimizer/state"].visititems(lambda name, item: moments.append(item.nbytes) if isinstance(item, h5py.Dataset) else None)
    locked = [of_rank["page_locked_bytes"] for of_rank in counts(report)]
    assert locked and min(locked) >= sum(moments) / 2  # each rank has half of them; one that was lost may not tell


@pytest.mark.parametrize("graph, seen", [("off", 5), ("on", EAGER_STEPS + 2)])
def test_a_stopped_training_on_a_device_saves_its_last_step(tmp_path, graph, seen):
    """It handles the signal one step later than on CPUs, and no step is lost or repeated."""
    options = (*DATA, *RANDOM, "--optimizer=adamw", "--image-dtype=uint8", "--epochs=3", "--fake-size=200", f"--cuda-graph={graph}",
               "--valid-epochs=0")  # in which hosts would tell each other
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, STAND_IN)
    processes = trainer_ranks.start(part, *options, STAND_IN)
    for line in processes[0].stdout:
        if re.search(rf"step +{seen}/", line):
            processes[1].send_signal(signal.SIGTERM)
            break
    trainer_ranks.finish(processes, code=75)
    assert len(records(part, "step")) >= seen and not records(part, "epoch")[2:]
    trainer_ranks.run(part, *options, STAND_IN)
    assert differences(last(whole), last(part)) == []
    assert [record["step"] for record in records(part, "step")] == [record["step"] for record in records(whole, "step")]


@pytest.mark.parametrize("first, then", [("cpu", "stand_in"), ("stand_in", "cpu"), ("stand_in", "stand_in")])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_checkpoint_resumes_bit_identically_on_another_device(tmp_path, trained, parallel, first, then):
    options = (*RANDOM, f"--parallel={parallel}", "--optimizer=adamw", "--checkpoint-steps=7")
    whole, part = trained(2, f"--device={first}", *options), tmp_path
    shutil.copy(whole / "step-00000007.h5", part)
    assert "resumed from" in trainer_ranks.run(part, *DATA, *options, f"--device={then}")
    assert differences(last(whole), last(part)) == []
    assert records(part, "epoch") == records(whole, "epoch")


@pytest.mark.parametrize("how, killed_behind", [(("--parallel=ddp", "--checkpoint-mode=sync"), 3), (("--parallel=fsdp",), 3),
                                                (("--parallel=fsdp", GRAPH, "--fake-size=200"), EAGER_STEPS + 1)],
                         ids=["ddp", "fsdp", "fsdp in graphs"])
def test_a_killed_training_on_a_device_resumes_bit_identically(tmp_path, how, killed_behind):
    options = (*DATA, *RANDOM, "--optimizer=adamw", "--checkpoint-steps=3", *how)
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, STAND_IN)
    processes = trainer_ranks.start(part, *options, STAND_IN)
    for line in processes[0].stdout:  # a save is done, and steps follow
        saved = [int(path.stem.removeprefix("step-")) for path in part.glob(LAST)]
        if re.search(r"step +\d+/", line) and max(saved, default=0) >= killed_behind:
            break
    assert all(process.poll() is None for process in processes)
    for process in processes:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    trainer_ranks.run(part, *options, STAND_IN)
    assert differences(last(whole), last(part)) == []


def test_no_step_in_a_graph_waits_for_the_device(tmp_path):
    few, many = (waits(tmp_path / str(steps), steps, "--optimizer=adamw", GRAPH, env={}) for steps in (EAGER_STEPS + 2, EAGER_STEPS + 7))
    assert many[0] == few[0]
    assert many[1] - few[1] <= 2 * 5 * 2


def test_each_rank_reports_its_device_and_cpus(tmp_path):
    output = trainer_ranks.run(tmp_path, *DATA, STAND_IN, "--max-steps=1", env={"STAND_IN_BUS": "0000:3B:00.0"})
    for rank in (0, 1):
        assert re.search(rf"^rank {rank} on \S+: stand_in: stand-in, stand-in-\d+-0, 0000:3B:00\.0, (NUMA node \d+, )?CPUs \d", output, re.M)
    assert ", CPUs " not in trainer_ranks.run(tmp_path / "cpu", *DATA, "--device=cpu", "--max-steps=1", ranks=1)


def allowed_cpus(process):
    """{thread's name: the CPUs on which threads of that name may run}."""
    found = {}
    for task in pathlib.Path("/proc", str(process.pid), "task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        found.setdefault(status["Name"].strip(), set()).add(status["Cpus_allowed_list"].strip())
    return found


@pytest.mark.skipif(os.geteuid() != 0 or len(os.sched_getaffinity(0)) < 2 or not pathlib.Path("/sys/bus/pci/devices").exists(),
                    reason="needs root, two CPUs and a PCI bus, to tell the trainer of another one")
def test_workers_run_on_the_cpus_local_to_the_device(tmp_path):
    first = min(os.sched_getaffinity(0))
    other_bus = (f"mount -t tmpfs tmpfs /sys/bus/pci/devices && mkdir /sys/bus/pci/devices/0000:3b:00.0 && "
                 f"echo {first} > /sys/bus/pci/devices/0000:3b:00.0/local_cpulist && exec \"$@\"")
    process, = trainer_ranks.start(tmp_path, *DATA, STAND_IN, "--train-num-workers=1", "--valid-num-workers=2", "--epochs=1000", ranks=1,
                                   env={"STAND_IN_BUS": "0000:3B:00.0"},
                                   prefixes={0: ["unshare", "--mount", "--propagation=private", "sh", "-c", other_bus, "sh"]})
    output = ""
    while not re.search(r"step +1/", output):
        output += process.stdout.readline()
    found = allowed_cpus(process)
    process.send_signal(signal.SIGTERM)
    trainer_ranks.finish([process], code=75)
    assert found["rollcall-data"] == {str(first)}
    assert str(first) not in found["rollcall-train"]
    assert f"with 1 worker on CPUs {first} near its device" in output


def test_the_trace_contains_copies_of_batches_to_the_device(tmp_path):
    output = trainer_ranks.run(tmp_path, *DATA, STAND_IN, "--trace-steps=2-3")
    assert "trace-2-3.json" in output
    events = json.loads((tmp_path / "trace-2-3.json").read_text())["traceEvents"]
    for rank in (0, 1):
        names = [event["name"] for event in events if event["pid"] == rank and event.get("cat") == "copy"]
        assert names == ["batch to the device"] * 2
        of_device = [event for event in events if event["pid"] == rank and event["name"].endswith(" over stand-in")]
        assert {event["cat"] for event in of_device} == {"enqueue"}  # the host does not know when a device carries them
