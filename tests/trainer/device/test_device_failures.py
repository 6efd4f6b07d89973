"""Devices that fail, are lost, run out of memory or are rejected, on the stand-in device: each gives one error line with its exit code,
and no rank hangs."""
import json
import re
import shutil
import signal

import pytest

import trainer_ranks
from device_trainings import DATA, EAGER_STEPS, GRAPH, KERNELS, STAND_IN, last, refused

pytestmark = [pytest.mark.python, pytest.mark.long]

WITHOUT_END = (*DATA, STAND_IN, "--image-size=32", "--epochs=1000", "--fake-size=4000")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folders of trainings that have saved one checkpoint, by --parallel."""
    folders = {parallel: tmp_path_factory.mktemp(parallel) for parallel in ("ddp", "fsdp")}
    for parallel, folder in folders.items():
        trainer_ranks.run(folder, *WITHOUT_END, f"--parallel={parallel}", "--max-steps=4")
    return folders


@pytest.mark.parametrize("parallel, graph", [("ddp", "off"), ("fsdp", "off"), ("ddp", "on"), ("fsdp", "on")])
@pytest.mark.parametrize("how, limit, reason",
                         [("SIGKILL", 50, r": rank 1 on \S+ was lost( (in|after) step \d+)? \(its process ended\)"),
                          ("SIGSTOP", 5, r"did not end within 5\.0 s: rank 1 does not respond, but its process is alive")],
                         ids=["killed", "stopped"])
def test_a_lost_rank_is_named_during_a_hanging_device_collective(tmp_path, saved, parallel, graph, how, limit, reason):
    """A device's collective that waits for a lost rank tells nobody: it is seen not to end, aborted, and nothing is saved of it. Whose
    process has ended is named before the limit. No checkpoint is saved meanwhile: a save's collectives are of the host."""
    shutil.copytree(saved[parallel], tmp_path, dirs_exist_ok=True)
    options = (*WITHOUT_END, f"--parallel={parallel}", f"--cuda-graph={graph}")
    processes = trainer_ranks.start(tmp_path, *options, f"--collective-timeout={limit}")
    first = 4 + (5 if graph == "off" else EAGER_STEPS + 6)
    for line in processes[0].stdout:
        step = re.search(r"step +(\d+)/", line)
        if step and int(step[1]) >= first:
            processes[1].send_signal(getattr(signal, how))
            break
    output, errors = processes[0].communicate(timeout=60)
    processes[1].kill()
    processes[1].communicate()
    assert processes[0].returncode == 69, output + errors
    told = [line for line in errors.splitlines() if line.startswith("rollcall: ") and "warning" not in line]
    assert len(told) == 1 and re.search(reason, told[0]), errors
    record = json.loads(next(tmp_path.glob("collectives-rank-0-step-*.json")).read_text())
    assert 0 < record["ended"] < record["given"]
    assert last(tmp_path).stem == "step-00000004"
    assert "resumed from" in trainer_ranks.run(tmp_path, *options, "--max-steps=5")


@pytest.mark.parametrize("graph, env", [("off", {"STAND_IN_FAILS": "100"}), ("on", {"STAND_IN_FAILS": "100"}),
                                        ("on", {"STAND_IN_FAILS_IN_CAPTURE": "1"})], ids=["off", "on", "in capture"])
def test_a_failed_device_is_reported_with_an_exit_code(tmp_path, graph, env):
    """No peer is reported as lost; the rank whose device fails a moment later may mention it in its summary, with the reason."""
    text = trainer_ranks.run(tmp_path, *DATA, STAND_IN, f"--cuda-graph={graph}", "--epochs=1000", "--fake-size=200", code=69, env=env)
    told, = [line for line in text.splitlines() if line.startswith("rollcall: ") and "warning" not in line]
    assert re.match(r"rollcall: --device: stand-in-\d+-0: .*fallen off the bus; try nvidia-smi", told), text
    assert all("fallen off the bus" in line for line in text.splitlines() if "collective: " in line), text


@pytest.mark.parametrize("ranks, options, reason", [(1, (), r"--device: stand-in-\d+-0: the device has not completed its work within 5 s"),
                                                    (1, ("--grad-accumulation=6",), r"--device: .* has not completed its work within 5 s"),
                                                    (2, (), r".*did not end within 5\.0 s")], ids=["alone", "accumulation", "two"])
def test_a_hanging_device_is_reported_after_the_timeout(tmp_path, ranks, options, reason):
    """No rank hangs, even if there is no other rank to notice."""
    text = trainer_ranks.run(tmp_path, *DATA, STAND_IN, *options, "--epochs=1000", "--collective-timeout=5", ranks=ranks, code=69,
                             env={"STAND_IN_STANDS_STILL": "2"})
    told, = [line for line in text.splitlines() if line.startswith("rollcall: ") and "warning" not in line]
    assert re.match("rollcall: " + reason, told), text


def test_a_lost_connection_during_graphs_is_reported_with_its_cause(tmp_path):
    text = trainer_ranks.run(tmp_path, *DATA, STAND_IN, GRAPH, "--epochs=1000", "--fake-size=4000", code=69,
                             env={"STAND_IN_DISCONNECTS": "100"})
    assert "stand-in: a connection was lost" in text


@pytest.mark.parametrize("training", [("--parallel=ddp",), ("--parallel=fsdp", "--shard-degree=2", "--replicate-degree=2")],
                         ids=["ddp", "hybrid"])
def test_device_groups_shut_down_together_or_are_aborted(tmp_path, training):
    """All ranks shut them down together at the end; after a failure, no rank waits for the others."""
    ranks = 4 if "--shard-degree=2" in training else 2
    report = tmp_path / "groups"
    trainer_ranks.run(tmp_path / "well", *DATA, *training, STAND_IN, "--max-steps=3", ranks=ranks, env={"STAND_IN_GROUPS": str(report)})
    ends = report.read_text().splitlines()
    assert set(ends) == {"shut down"} and len(ends) % ranks == 0, ends
    report.unlink()
    trainer_ranks.run(tmp_path / "ill", *DATA, *training, STAND_IN, "--max-steps=30", "--lr=1e6", "--lr-scaling=none", ranks=ranks, code=65,
                      env={"STAND_IN_GROUPS": str(report)})
    assert set(report.read_text().splitlines()) == {"aborted"}


def test_an_unreachable_device_is_an_error_after_the_timeout(tmp_path):
    text = trainer_ranks.run(tmp_path, *DATA, STAND_IN, "--collective-timeout=10", code=69, env={"STAND_IN_UNREACHABLE": "1"})
    told = [line for line in text.splitlines() if line.startswith("rollcall: ") and "warning" not in line]
    assert len(told) == 1 and "connecting of devices" in told[0] and "did not end within 10.0 s" in told[0], text


def test_devices_of_different_models_give_one_warning(tmp_path):
    text = trainer_ranks.run(tmp_path, *DATA, STAND_IN, "--max-steps=1", env={"STAND_IN_COUNT": "2", "STAND_IN_NAME": "H100,A100"})
    warning, = [line for line in text.splitlines() if "different models" in line]
    assert "1 of 2 use H100, but rank 1 on " in warning and "uses A100" in warning


def test_own_kernels_are_not_used_on_unsupported_devices(tmp_path):
    old = {**KERNELS, "STAND_IN_COUNT": "2", "STAND_IN_WITHOUT_KERNELS": ",too old"}
    assert "rollcall: --own-kernels: on: rank 1 on " in refused(tmp_path / "one", STAND_IN, code=76, ranks=2, env=old)
    trainer_ranks.run(tmp_path / "off", *DATA, STAND_IN, "--own-kernels=off", "--max-steps=1", env=old)
    trainer_ranks.run(tmp_path / "both", *DATA, STAND_IN, "--max-steps=1", env={**old, "STAND_IN_WITHOUT_KERNELS": "too old"})


def test_idle_devices_give_one_warning(tmp_path):
    output = trainer_ranks.run(tmp_path / "one", *DATA, STAND_IN, "--max-steps=1", ranks=1, env={"STAND_IN_COUNT": "4"})
    told, = [line for line in output.splitlines() if "are idle" in line]
    assert "4 devices are visible to this task" in told and told.endswith("try running one rank for each device: srun --ntasks-per-node=4")
    assert "are idle" not in trainer_ranks.run(tmp_path / "two", *DATA, STAND_IN, "--max-steps=1", env={"STAND_IN_COUNT": "2"})


@pytest.mark.parametrize("options", [(), ("--parallel=fsdp",), ("--sync-bn",), ("--cuda-graph=on",)], ids=["ddp", "fsdp", "sync-bn", "graph"])
def test_out_of_device_memory_suggests_smaller_batches(tmp_path, options):
    """A step in 40 MiB."""
    text = trainer_ranks.run(tmp_path, *DATA, STAND_IN, "--image-size=32", "--batch-size=64", "--fake-size=1000", "--max-steps=3",
                             "--valid-epochs=0", "--checkpoint-epochs=0", *options, ranks=2, code=69,
                             env={"STAND_IN_MEMORY": str(40 << 20)})
    told, = [line for line in text.splitlines() if line.startswith("rollcall: device memory: ")]
    assert re.search(r"tried to allocate \d+ bytes, and \d+ of 41943040 are in use; try lowering --batch-size and raising "
                     r"--grad-accumulation by the same factor", told), told


def test_an_unknown_device_type_is_rejected(tmp_path):
    assert "rollcall_nothing.so is not in lib" in refused(tmp_path, "--device=nothing", code=64)
    assert "is not the name of a device type" in refused(tmp_path, "--device=../../tmp/x", code=64)


def test_a_broken_or_untrusted_device_plugin_is_rejected(tmp_path):
    """A copy of the program, with other plugins below it."""
    program = tmp_path / "bin" / "rollcall-train"
    folder = next((trainer_ranks.BUILD / "lib").rglob("rollcall_stand_in.so")).parent
    plugins = tmp_path / folder.relative_to(trainer_ranks.BUILD)
    plugins.mkdir(parents=True)
    program.parent.mkdir()
    shutil.copy(trainer_ranks.PROGRAM, program)
    (plugins / "rollcall_broken.so").write_text("no library")
    (plugins / "rollcall_shared.so").write_text("anybody's")
    (plugins / "rollcall_shared.so").chmod(0o666)
    hash_of_build = rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])"
    other_build, changed = re.subn(hash_of_build, lambda found: found[0][::-1], (folder / "rollcall_stand_in.so").read_bytes())
    assert changed
    (plugins / "rollcall_stand_in.so").write_bytes(other_build)
    mpi = folder / "rollcall_mpi.so"
    command = [str(program), *DATA, f"--checkpoint-dir={tmp_path / 'out'}"]
    process = trainer_ranks.subprocess.run([*command, "--device=broken"], text=True, capture_output=True)
    assert process.returncode == 69 and "rollcall: --device: broken: " in process.stderr
    process = trainer_ranks.subprocess.run([*command, "--device=shared"], text=True, capture_output=True)
    assert process.returncode == 78 and "rollcall_shared.so is not trusted" in process.stderr
    process = trainer_ranks.subprocess.run([*command, "--device=stand_in"], text=True, capture_output=True)
    assert process.returncode == 76 and "is from another build than this program" in process.stderr, process.stderr
    if mpi.exists():
        shutil.copy(mpi, plugins / "rollcall_other.so")
        process = trainer_ranks.subprocess.run([*command, "--device=other"], text=True, capture_output=True)
        assert process.returncode == 78 and "rollcall: --device: other: rollcall_other.so does not define " in process.stderr


@pytest.mark.parametrize("count, ranks, reason", [("0", 1, "no device is visible to this task"),
                                                  ("2", 3, "3 ranks on this node, and each sees 2 devices"),
                                                  ("broken", 2, "the driver does not answer")])
def test_too_few_devices_or_a_driver_error_is_reported(tmp_path, count, ranks, reason):
    assert reason in refused(tmp_path, STAND_IN, code=69, ranks=ranks, env={"STAND_IN_COUNT": count})


def test_a_device_error_on_one_rank_is_reported_once(tmp_path):
    processes = [trainer_ranks.start(tmp_path, *DATA, STAND_IN, ranks=2, env={"STAND_IN_COUNT": count}) for count in ("1", "broken")]
    for process in (processes[0][1], processes[1][0]):
        process.kill()
        process.communicate()
    text = trainer_ranks.finish([processes[0][0], processes[1][1]], code=69)
    assert text.count("rollcall: --device: stand_in: rank 1 on ") == 1 and "the driver does not answer" in text


def test_two_ranks_on_one_device_are_detected_by_its_uuid(tmp_path):
    error = refused(tmp_path, STAND_IN, code=69, ranks=2, env={"STAND_IN_UUID": "GPU-1"})
    assert "rollcall: --device: GPU-1: ranks 0 and 1 on " in error


def test_ranks_on_different_kinds_of_devices_are_an_error(tmp_path):
    processes = trainer_ranks.start(tmp_path, *DATA, "--device=cpu", ranks=2)
    processes[1].kill()
    processes[1].communicate()
    other = trainer_ranks.start(tmp_path, *DATA, STAND_IN, ranks=2)
    other[0].kill()
    other[0].communicate()
    text = trainer_ranks.finish([processes[0], other[1]], code=76)
    assert text.count("rank 1 on ") == 1 and "rollcall: --device: " in text


@pytest.mark.parametrize("backend", ["gloo", "ucx", "nccl"])
def test_a_backend_without_support_for_the_device_is_rejected(tmp_path, backend):
    assert f"rollcall: --backend: {backend}: does not carry tensors of the device" in refused(
        tmp_path, STAND_IN, f"--backend={backend}", code=64, ranks=2)


def test_a_node_without_gpus_fails_all_ranks_with_nccl(tmp_path):
    """Rank 0 has no GPU, so NCCL cannot work there; rank 1 has one."""
    without, other = (trainer_ranks.start(tmp_path, *DATA, *options, ranks=2)
                      for options in (("--device=cpu", "--backend=nccl"), (STAND_IN,)))
    for unused in (without[1], other[0]):
        unused.kill()
        unused.communicate()
    text = trainer_ranks.finish([without[0], other[1]], code=64)
    assert re.search("rollcall: --backend: nccl: rank 0 on .*: carries tensors of GPUs, but this training computes on CPUs", text)


def test_nccl_on_cpus_is_rejected(tmp_path):
    assert "carries tensors of GPUs, but this training computes on CPUs" in refused(
        tmp_path, "--device=cpu", "--backend=nccl", code=64, ranks=2)
