"""Unchanged framework programs under `srun --ddp`: the ranks rendezvous, train, and end with identical weights."""

import json
import pathlib
import sys

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.long]

SCRIPTS = pathlib.Path(__file__).parent / "programs"
LAYOUT = ["--ddp", "-N2", "--ntasks-per-node=2"]
SECONDS = 240  # `import torch` alone takes several a process where four share a core
MODULES = {"plain.py": "torch", "accelerated.py": "accelerate", "lightning.py": "pytorch_lightning", "jax_world.py": "jax"}


def trained_weights(world_size):
    """The weights after the same steps on the whole batch in one process."""
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(SCRIPTS))
    import regression
    network = regression.model()
    optimizer = torch.optim.SGD(network.parameters(), lr=regression.RATE)
    parts = [regression.points(rank, world_size) for rank in range(world_size)]
    inputs, targets = (torch.cat([part[i] for part in parts]) for i in (0, 1))
    for _ in range(regression.STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(inputs), targets).backward()
        optimizer.step()
    return [value for p in network.parameters() for value in p.detach().flatten().tolist()]


@pytest.fixture(scope="module")
def expected():
    return trained_weights(4)


def run(cluster, tmp_path, *command):
    """Runs a step and returns what its ranks reported, by rank."""
    cluster.run(*command, str(tmp_path), timeout=SECONDS, env={"PYTHONDONTWRITEBYTECODE": "1"})
    return [json.loads(file.read_text()) for file in sorted(tmp_path.glob("*.json"))]


def check_world(answers, expected):
    assert [(answer["rank"], answer["world_size"]) for answer in answers] == [(rank, 4) for rank in range(4)]
    for answer in answers:
        assert answer["weights"] == pytest.approx(expected, abs=1e-4)
        assert answer["local_rank"] == answer["rank"] % 2


@pytest.mark.parametrize("script", ["plain.py", "accelerated.py", "lightning.py"])
def test_framework_scripts_train_unchanged_under_srun_ddp(cluster, tmp_path, expected, script):
    pytest.importorskip(MODULES[script], reason=f"{MODULES[script]} is not installed: scripts/setup --python")
    check_world(run(cluster, tmp_path, "srun", *LAYOUT, sys.executable, SCRIPTS / script), expected)


C10D = "--nnodes=$SLURM_NNODES --rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT"


@pytest.mark.parametrize("options", ["--nnodes=$SLURM_NNODES --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT", C10D, ""])
def test_torchrun_as_one_task_per_node_trains(cluster, tmp_path, expected, options):
    pytest.importorskip("torch")
    torchrun = f"exec {sys.executable} -m torch.distributed.run --nproc-per-node=2 {options} {SCRIPTS}/plain.py $0"
    check_world(run(cluster, tmp_path, "srun", "--ddp", "-N2", "--ntasks-per-node=1", "sh", "-c", torchrun), expected)


def test_rollcall_run_as_one_task_per_node_trains(cluster, rollcall, tmp_path, expected):
    pytest.importorskip("torch")
    agents = ["srun", "--ddp", "-N2", "--ntasks-per-node=1", rollcall, "run", "--nproc-per-node=2", "--no-python", sys.executable]
    check_world(run(cluster, tmp_path, *agents, SCRIPTS / "plain.py"), expected)


def test_a_jax_worker_of_rollcall_run_gets_its_own_rank(cluster, rollcall, tmp_path):
    pytest.importorskip("jax", reason="jax is not installed: scripts/setup --python")
    agents = f"exec {rollcall} run --nproc-per-node=2 --no-python {sys.executable} {SCRIPTS}/jax_world.py $0 told"
    answers = run(cluster, tmp_path, "srun", "--ddp", "-N2", "--ntasks-per-node=1", "sh", "-c", agents)
    assert [(answer["rank"], answer["world_size"], answer["sum"]) for answer in answers] == [(rank, 4, 10) for rank in range(4)]


def test_jax_ranks_rendezvous_and_sum(cluster, tmp_path):
    pytest.importorskip("jax", reason="jax is not installed: scripts/setup --python")
    answers = run(cluster, tmp_path, "srun", *LAYOUT, sys.executable, SCRIPTS / "jax_world.py")
    assert [(answer["rank"], answer["world_size"], answer["sum"]) for answer in answers] == [(rank, 4, 10) for rank in range(4)]
