"""Trainings whose ranks see all (stand-in) devices of their node (tests/support/stand_in_device.h): each uses only its own device and is
bit identical to a training whose ranks see only one."""
import re
import shutil

import pytest

import elastic_runs
import trainer_ranks
from device_trainings import DATA, EAGER_STEPS, GRAPH, KERNELS, RANDOM, STAND_IN, last, refused
from trainer_ranks import differences, records

pytestmark = [pytest.mark.python, pytest.mark.long]

TRAININGS = {
    "ddp": (KERNELS, "--optimizer=adamw", *RANDOM, "--image-dtype=uint8"),
    "ddp in a graph": (KERNELS, "--optimizer=sgd", "--lr-schedule=none", "--sync-bn", "--image-dtype=uint8", "--gradient-compression=bf16",
        GRAPH),
    "fsdp": ({}, "--parallel=fsdp", "--optimizer=adamw", *RANDOM, "--precision=bf16"),
    "fsdp in a graph": (KERNELS, "--parallel=fsdp", "--optimizer=sgd", "--lr-schedule=none", "--clip-grad-norm=1", GRAPH),
    "fsdp offloaded": ({}, "--parallel=fsdp", "--optimizer=sgd", "--lr-schedule=none", "--cpu-offload"),
}
FIRST, STEPS = 5, 20


def of_devices(count, report, env=()):
    return {**dict(env), "STAND_IN_COUNT": str(count), "STAND_IN_WAITS": str(report)}


def used(report):
    """On which devices each process that ended by itself made something, and how often it replayed a graph."""
    lines = [line.split(" ") for line in report.read_text().splitlines()]
    return sorted(line[3] for line in lines), {int(line[2]) for line in lines}


@pytest.mark.parametrize("training", TRAININGS)
def test_each_rank_uses_only_its_own_device(tmp_path, training):
    """Code that does not select the device, also in threads, uses the first one. From a checkpoint, with saves, validations and a trace."""
    env, *options = TRAININGS[training]
    options = [*DATA, STAND_IN, f"--checkpoint-steps={FIRST}", "--trace-steps=8-9", *options]
    one, each, report = tmp_path / "one", tmp_path / "each", tmp_path / "report"
    trainer_ranks.run(one, *options, env=of_devices(1, report, env))
    assert used(report) == (["0", "0"], {(STEPS - EAGER_STEPS) if GRAPH in options else 0})
    report.unlink()
    each.mkdir()
    shutil.copy(one / f"step-{FIRST:08}.h5", each)
    text = trainer_ranks.run(each, *options, env=of_devices(2, report, env))
    assert "resumed from" in text
    assert used(report) == (["0", "1"], {(STEPS - FIRST - EAGER_STEPS) if GRAPH in options else 0})
    for rank in (0, 1):
        assert re.search(rf"^rank {rank} on \S+: stand_in: stand-in, stand-in-\d+-{rank}, ", text, re.M)
    assert differences(last(one), last(each)) == []
    assert records(each, "validation") == records(one, "validation") != []


def test_after_a_regroup_each_rank_uses_its_own_device(tmp_path):
    """The surviving rank rendezvouses in a separate thread, which starts on the first device."""
    report = tmp_path / "report"
    runs = {}
    for name, count in ("one", 1), ("each", 2):
        run = runs[name] = elastic_runs.Training(tmp_path / name, *elastic_runs.SMALL, STAND_IN, "--sync-bn", "--max-steps=30",
                                                 "--epochs=100", workers=2, launch=("--max-restarts=1",), env=of_devices(count, report))
        try:
            run.start()
            if name == "each":
                run.wait_for_step(8)
                elastic_runs.kill(run.workers()[0])
            run.finish()
        finally:
            run.close()
        assert used(report)[0] == (["0", "0"] if name == "one" else ["0", "1"])
        report.unlink()
    assert runs["each"].records("regrouped")
    assert differences(*(trainer_ranks.checkpoints(run.folder)[-1] for run in runs.values())) == []


def test_out_of_memory_on_one_of_several_devices_is_reported(tmp_path):
    report = tmp_path / "report"
    options = (*DATA, STAND_IN, "--image-size=32", "--batch-size=64", "--fake-size=1000", "--max-steps=3", "--valid-epochs=0")
    text = trainer_ranks.run(tmp_path / "run", *options, "--checkpoint-epochs=0", code=69,
                             env={**of_devices(2, report), "STAND_IN_MEMORY": str(40 << 20)})
    assert re.search(r"^rollcall: device memory: .* in use; try lowering --batch-size", text, re.M), text
    assert used(report)[0] == ["0", "1"]


@pytest.mark.parametrize("graph", ["off", "on"])
def test_a_lost_rank_is_named_on_a_node_of_several_devices(tmp_path, graph):
    processes = trainer_ranks.start(tmp_path, *DATA, STAND_IN, f"--cuda-graph={graph}", "--epochs=1000", "--fake-size=4000",
                                    "--collective-timeout=50", env={"STAND_IN_COUNT": "2"})
    for line in processes[0].stdout:
        if re.search(rf"step +{EAGER_STEPS + 4}/", line):
            processes[1].kill()
            break
    output, errors = processes[0].communicate(timeout=60)
    processes[1].communicate()
    assert processes[0].returncode == 69 and re.search(r"rank 1 on \S+ was lost.* \(its process ended\)", errors), output + errors


def instances(folder, of_rank, *, code, env=None):
    """Two ranks that see one device each; `of_rank`: (its UUID, its place on the bus)."""
    prefixes = {rank: ["env", f"STAND_IN_UUID={uuid}", f"STAND_IN_BUS={bus}"] for rank, (uuid, bus) in enumerate(of_rank)}
    processes = trainer_ranks.start(folder, *DATA, STAND_IN, "--max-steps=1", env=env, prefixes=prefixes)
    return trainer_ranks.finish(processes, code=code)


def test_a_rank_uses_its_only_visible_device(tmp_path):
    text = instances(tmp_path, [("GPU-a", "0000:3b:00.0"), ("GPU-b", "0000:86:00.0")], code=0)
    assert re.search(r"^rank 1 on \S+: stand_in: stand-in, GPU-b, 0000:86:00\.0, ", text, re.M)


SHARED = [("MIG-a", "0000:3b:00.0"), ("MIG-b", "0000:3b:00.0")]


def test_ranks_on_mig_instances_of_one_gpu_are_rejected(tmp_path):
    text = instances(tmp_path, SHARED, code=69)
    error, = [line for line in text.splitlines() if line.startswith("rollcall: ")]
    assert re.match(r"rollcall: --device: MIG-b: ranks 0 and 1 on \S+ use MIG instances of one GPU, 0000:3b:00\.0, which NCCL "
                    r"does not connect; try using GPUs without MIG, or using one rank for each GPU, ", error)
    assert not list(tmp_path.glob("step-*.h5"))


@pytest.mark.parametrize("of_rank, env", [([("MIG-a", "0000:3b:00.0"), ("MIG-b", "0000:86:00.0")], {}),
                                          ([("GPU-a", "0000:3b:00.0"), ("GPU-b", "0000:3b:00.0")], {}),
                                          (SHARED, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"})], ids=["two GPUs", "no instances", "meant"])
def test_ranks_on_distinct_gpus_or_with_nccl_multi_rank_are_accepted(tmp_path, of_rank, env):
    text = instances(tmp_path, of_rank, code=0, env=env)
    for rank, (uuid, _) in enumerate(of_rank):
        assert re.search(rf"^rank {rank} on \S+: stand_in: stand-in, {uuid}, ", text, re.M)


@pytest.mark.parametrize("hosts, code", [(("a", "b"), 0), (("a", "a"), 69)], ids=["own hosts", "one host"])
def test_two_ranks_on_one_gpu_connect_if_nccl_sees_different_hosts(tmp_path, hosts, code):
    """rollcall permits it by the variable; NCCL, and so the stand-in device, refuses duplicates of a host."""
    prefixes = {rank: ["env", f"NCCL_HOSTID={host}"] for rank, host in enumerate(hosts)}
    processes = trainer_ranks.start(tmp_path, *DATA, STAND_IN, "--max-steps=1", prefixes=prefixes,
                                    env={"STAND_IN_UUID": "GPU-1", "NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    text = trainer_ranks.finish(processes, code=code)
    assert ("two ranks are on one device" in text) == (code == 69), text


def test_two_ranks_on_one_of_several_devices_are_rejected(tmp_path):
    error = refused(tmp_path, STAND_IN, code=69, ranks=2, env={"STAND_IN_COUNT": "2", "STAND_IN_UUID": "GPU-1"})
    assert re.match(r"rollcall: --device: GPU-1: ranks 0 and 1 on \S+ use the same device; try requesting as many GPUs as tasks on a node, "
                    r"all visible to each task: --gpus-per-node=2 without --gpus-per-task and --gpu-bind", error)
