"""--backend=mpi: its plugin, every collective under both launchers, training, and the errors where it is unavailable."""

import json
import shutil
import subprocess

import pytest

from common_fixtures import BUILD, built
from minicluster import clean_environment, run

pytestmark = [pytest.mark.slurm, pytest.mark.long]

SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=4", "--progress=lines", "--valid-epochs=0", "--log-steps=1")
BENCH = ("--min-bytes=4096", "--max-bytes=4096", "--iterations=2", "--warm-up=1")


def plugin_file():
    files = list(BUILD.glob("lib*/**/rollcall_mpi.so"))
    if not files:
        pytest.skip("rollcall_mpi.so is not built: CMake found no MPI (package libopenmpi-dev)")
    return files[0]


@pytest.fixture(autouse=True)
def plugin_built():
    plugin_file()


@pytest.fixture
def check():
    return built("tests/collectives_in_step")


@pytest.fixture
def bench():
    return built("trainer/rollcall-bench-collectives")


def right(ranks):
    return [f"rank {rank}: all right" for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_every_operation_agrees_with_a_scalar_reference_under_mpirun(mpirun, rollcall, check, tmp_path, ranks):
    result = run(mpirun("-np", ranks, rollcall, "exec", "--", check, "mpi", tmp_path / "store"))
    assert sorted(result.stdout.splitlines()) == right(ranks), result.stderr


def test_every_operation_agrees_with_a_scalar_reference_under_srun(cluster, check):
    store = cluster.new_folder() / "store"
    result = cluster.run("srun", "--ddp", "--mpi=pmix", "-N2", "-n4", check, "mpi", store, timeout=120)
    assert sorted(result.stdout.splitlines()) == right(4), result.stderr


@pytest.mark.parametrize("of, ranks, options", [("network", 2, ()), ("script", 2, ()),
                                                ("network", 4, ("--parallel=fsdp", "--shard-degree=2", "--replicate-degree=2"))])
def test_training_with_mpi_gives_the_same_losses_as_gloo(cluster, rollcall_train, tmp_path, of, ranks, options):
    """Bit for bit with 2 ranks a group, which add in the same order; four ranks of one group may round differently."""
    model = "--model=resnet20"
    if of == "script":
        own_models = pytest.importorskip("own_models")  # imports torch
        model = f"--model={own_models.small(tmp_path / 'net.pt', classes=1000)}"
    small = [model if option.startswith("--model=") else option for option in SMALL]
    losses = {}
    for backend in ("gloo", "mpi"):
        folder = tmp_path / backend
        result = cluster.run("srun", "--ddp", "--mpi=pmix", "-N2", f"-n{ranks}", rollcall_train, *small, *options, "--max-steps=3",
                             f"--backend={backend}", f"--checkpoint-dir={folder}",
                             env={"OMP_NUM_THREADS": "1", "SCRATCH": str(tmp_path)}, timeout=120)
        assert f"backend {backend}" in result.stdout
        assert "Exception" not in result.stderr  # all left together
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        losses[backend] = [line["loss"] for line in lines if line["event"] == "step"]
    assert losses["mpi"] == pytest.approx(losses["gloo"], rel=0 if ranks == 2 else 1e-5)
    assert len(losses["mpi"]) == 3


def test_bench_collectives_measures_mpi_beside_gloo(cluster, bench):
    result = cluster.run("srun", "--ddp", "--mpi=pmix", "-N2", bench, *BENCH, "--backend=gloo,mpi", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["backend"], row["correct"]) for row in rows] == [("gloo", True), ("mpi", True)]


# ---------------------------------------------------------------- where MPI is unavailable


def test_mpi_backend_without_an_mpi_launcher_is_rejected(cluster, bench):
    result = cluster.run("srun", "--ddp", "--mpi=none", "-N2", bench, *BENCH, "--backend=mpi", check=False)
    assert "rollcall: --backend: mpi: no MPI launcher started this process; try `srun --mpi=pmix --ddp" in result.stderr
    assert "Exited with exit code 64" in result.stderr


def test_ranks_of_several_mpi_jobs_are_rejected(mpirun, check, tmp_path):
    """Two mpiruns of one rank each with the environment of one world."""
    processes = [subprocess.Popen([str(word) for word in mpirun("-np", 1, check, "mpi", tmp_path / "store")], text=True,
                                  env={**clean_environment(), "WORLD_SIZE": "2", "RANK": rank},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in ("0", "1")]
    errors = "".join(process.communicate(timeout=120)[1] for process in processes)
    assert "rollcall: --backend: mpi: the ranks do not belong to one MPI job: rank 1 is number 0 of 1 in MPI" in errors


def test_programs_do_not_link_mpi_and_reject_it_without_the_plugin(bench, tmp_path):
    needed = subprocess.run(["readelf", "-d", bench], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" in needed and "mpi" not in needed.lower()
    shutil.copy(bench, tmp_path / "bench")
    processes = [subprocess.Popen([tmp_path / "bench", "--rendezvous=file", f"--rendezvous-folder={tmp_path}", "--backend=mpi"],
                                  env={**clean_environment(), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": rank,
                                       "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"},
                                  stderr=subprocess.PIPE, text=True) for rank in ("0", "1")]
    errors = "".join(process.communicate(timeout=60)[1] for process in processes)
    assert "rollcall: --backend: mpi: rollcall_mpi.so is not in lib" in errors


def test_an_installed_program_finds_the_mpi_plugin(bench, mpirun, tmp_path):
    """Where `cmake --install` puts both: PREFIX/bin and PREFIX/lib/rollcall."""
    relative = plugin_file().relative_to(BUILD)
    for source, target in ((bench, tmp_path / "bin" / "bench"), (plugin_file(), tmp_path / relative)):
        target.parent.mkdir(parents=True)
        shutil.copy(source, target)
    result = run(mpirun("-np", 2, tmp_path / "bin" / "bench", *BENCH, "--backend=mpi", "--json"))
    assert '"correct":true' in result.stdout, result.stderr


# ---------------------------------------------------------------- lost ranks


def test_a_killed_rank_ends_an_mpi_step_at_once(cluster, rollcall_train, tmp_path):
    """Slurm does: by itself where other tasks of the node are PMIx clients, else by --kill-on-bad-exit."""
    script = f"""[ $RANK = 1 ] && (until grep -qs '"step",' {tmp_path}/metrics.jsonl; do sleep 0.05; done; kill -9 $$) &
exec {rollcall_train} {" ".join(SMALL)} --max-steps=100000 --backend=mpi --checkpoint-dir={tmp_path}"""
    result = cluster.run("srun", "--ddp", "--mpi=pmix", "--kill-on-bad-exit=1", "-N2", "-n2", "sh", "-c", script, check=False,
                         env={"OMP_NUM_THREADS": "1", "SCRATCH": str(tmp_path)}, timeout=120)
    assert result.returncode != 0
    assert "task 1: Killed" in result.stderr


def test_a_stopped_rank_of_an_mpi_step_is_named_after_the_timeout(cluster, rollcall_train, tmp_path):
    script = f"""if [ $RANK = 1 ]; then
  (until grep -qs '"step",' {tmp_path}/metrics.jsonl; do sleep 0.05; done; kill -STOP $$; sleep 20; kill -9 $$) &
fi
exec {rollcall_train} {" ".join(SMALL)} --max-steps=100000 --backend=mpi --checkpoint-dir={tmp_path} \
  --collective-timeout=3"""
    result = cluster.run("srun", "--ddp", "--mpi=pmix", "--kill-on-bad-exit=1", "-N2", "-n2", "sh", "-c", script, check=False,
                         env={"OMP_NUM_THREADS": "1", "SCRATCH": str(tmp_path)}, timeout=120)
    assert result.returncode != 0
    assert "did not end within 3.0 s" in result.stderr and "rank 1" in result.stderr, result.stderr
