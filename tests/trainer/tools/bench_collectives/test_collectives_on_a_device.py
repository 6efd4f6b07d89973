"""rollcall-bench-collectives on the stand-in device, and without a GPU."""
import json
import pathlib
import subprocess

import pytest

import trainer_ranks

pytestmark = [pytest.mark.python, pytest.mark.long]

PROGRAM = trainer_ranks.BUILD / "trainer" / "rollcall-bench-collectives"
CUDA = trainer_ranks.BUILD / "lib" / "rollcall" / "rollcall_cuda.so"
SMALL = ("--min-bytes=4096", "--max-bytes=65536", "--factor=16", "--iterations=3", "--warm-up=1")
OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")


def run(folder, *options, ranks):
    """Exit codes, and what all ranks printed and complained of."""
    command = [PROGRAM, *SMALL, "--rendezvous=file", f"--rendezvous-folder={folder}", *options]
    processes = [subprocess.Popen([str(part) for part in command], env=trainer_ranks.environment(folder, rank, ranks), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(ranks)]
    outputs = [process.communicate(timeout=240) for process in processes]
    return [process.returncode for process in processes], "".join(out for out, _ in outputs), "".join(errors for _, errors in outputs)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_operation_is_measured_and_correct_on_a_device(tmp_path, ranks):
    codes, told, complaints = run(tmp_path, "--device=stand_in", "--operation=all", "--json", ranks=ranks)
    assert codes == [0] * ranks and complaints == ""
    rows = [json.loads(line) for line in told.splitlines()]
    assert [(row["operation"], row["bytes"]) for row in rows] == [(name, size) for name in OPERATIONS for size in (4096, 65536)]
    assert all(row["backend"] == "stand-in" and row["correct"] and row["ranks"] == ranks and row["seconds"] > 0 for row in rows)


@pytest.mark.parametrize("options, complaint", [
    (["--backend=nccl,gloo"], "rollcall: --backend: nccl: works on GPU tensors, but the other backends work on CPU tensors; "
                              "try measuring it alone"),
    (["--device=stand_in", "--backend=gloo"], "rollcall: --backend: gloo: does not carry tensors of the device; stand-in does; "
                                              "try --backend=auto, which selects stand-in, or --device=cpu"),
    (["--device=stand_in", "--backend=stand-in,gloo"], "rollcall: --backend: gloo: does not carry tensors of the device"),
    (["--device=cpu"], "rollcall: rollcall-bench-collectives: 1 rank: at least 2 ranks are needed")])
def test_impossible_measurements_are_rejected_in_one_line(tmp_path, options, complaint):
    codes, told, complaints = run(tmp_path, *options, ranks=1)
    assert codes == [64] and told == "" and complaints.startswith(complaint) and complaints.count("\n") == 1


@pytest.mark.skipif(pathlib.Path("/dev/nvidiactl").exists(), reason="there is a GPU")
@pytest.mark.parametrize("ranks", [1, 2])
def test_nccl_without_a_gpu_is_one_error_line_per_rank(tmp_path, ranks):
    """One line per rank, because `rollcall doctor` reads the output of its own rank."""
    codes, told, complaints = run(tmp_path, "--backend=nccl", ranks=ranks)
    assert codes == [69 if CUDA.exists() else 64] * ranks
    lines = complaints.splitlines()
    assert told == "" and len(lines) == ranks and all(line.startswith("rollcall: --device: cuda: ") for line in lines)
