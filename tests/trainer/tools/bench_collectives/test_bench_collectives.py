"""rollcall-bench-collectives under a real Slurm, and the options that it rejects."""

import json
import subprocess

import pytest

from common_fixtures import built

pytestmark = pytest.mark.slurm
SMALL = ("--min-bytes=4096", "--max-bytes=65536", "--factor=16", "--iterations=3", "--warm-up=1")


@pytest.fixture
def program():
    return built("trainer/rollcall-bench-collectives")


def measure(cluster, program, *options, ranks=2):
    return cluster.run("srun", "--ddp", "-N2", f"-n{ranks}", program, *SMALL, *options, check=True, timeout=120).stdout


def test_every_operation_is_measured_and_correct_on_both_nodes(cluster, program):
    rows = [json.loads(line) for line in measure(cluster, program, "--operation=all", "--json").splitlines()]
    operations = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"]
    assert [(row["operation"], row["bytes"]) for row in rows] == [(name, size) for name in operations for size in (4096, 65536)]
    for row in rows:
        assert row["correct"] and row["ranks"] == 2 and row["nodes"] == 2 and row["seconds"] > 0
        # Of two ranks, all-reduce and broadcast send all bytes, the others half of them.
        factor = 1 if row["operation"] in ("all_reduce", "broadcast") else 0.5
        assert row["bus_bytes_per_second"] == pytest.approx(factor * row["bytes"] / row["seconds"])


def test_the_bench_collectives_table_compares_backends(cluster, program):
    lines = measure(cluster, program, "--backend=gloo,gloo").splitlines()
    assert lines[1].split()[:3] == ["operation", "with", "bytes"]
    assert [line.split()[1:3] for line in lines[2:]] == [["gloo", size] for size in ("4096", "4096", "65536", "65536")]
    assert all("right" in line and line.rstrip().endswith("x") for line in lines[2:])


@pytest.mark.parametrize("options, says", [(["--operation=all_reduc"], "is not an operation"),
                                           (["--min-bytes=100", "--max-bytes=10"], "is more than --max-bytes")])
def test_invalid_bench_collectives_options_are_rejected(program, options, says):
    result = subprocess.run([program, *options], capture_output=True, text=True)
    assert result.returncode == 64 and says in result.stderr
