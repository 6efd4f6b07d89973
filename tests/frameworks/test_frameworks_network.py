"""Every invocation of docs/user/frameworks.md on nodes that reach each other only over ib0, under names that differ from their host
names: on two nodes, on one, in an order that is not Slurm's, and with a killed rank."""

import json
import sys

import pytest

from test_frameworks import C10D, MODULES, SCRIPTS, SECONDS, trained_weights

pytestmark = [pytest.mark.slurm, pytest.mark.long]

# Options of srun for two ranks; Lightning demands that the tasks of a node are given.
SHAPES = {"two nodes": ["-N2", "--ntasks-per-node=1"], "one node": ["-N1", "--ntasks-per-node=2", "-w", "jwb0002"],
          "arbitrary": ["-m", "arbitrary", "-n2", "--ntasks-per-node=1"]}


@pytest.fixture(scope="module")
def expected():
    return trained_weights(2)


@pytest.fixture
def order(tmp_path):
    """The variable by which `-m arbitrary` takes jwb0002 for rank 0."""
    (tmp_path / "hosts").write_text("jwb0002\njwb0001\n")
    return {"SLURM_HOSTFILE": str(tmp_path / "hosts")}


def step(network, *command, env=None):
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return network.run("srun", "--ddp", *command, env={**quiet, **(env or {})}, check=False, timeout=SECONDS)


def reports_in(folder):
    return [json.loads(file.read_text()) for file in sorted(folder.rglob("*.json"))]


# ---------------------------------------------------------------- a task a rank


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("script", MODULES)
def test_framework_scripts_train_unchanged_over_ib0_only(network, expected, order, script, shape):
    pytest.importorskip(MODULES[script], reason=f"{MODULES[script]} is not installed: scripts/setup --python")
    folder = network.new_folder()
    ended = step(network, *SHAPES[shape], sys.executable, SCRIPTS / script, folder, env=order if shape == "arbitrary" else None)
    assert ended.returncode == 0, ended.stderr
    reports = reports_in(folder)
    assert [(report["rank"], report["world_size"]) for report in reports] == [(0, 2), (1, 2)]
    for report in reports:
        assert report.get("sum", 3) == 3 and report.get("weights", expected) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("script", MODULES)
def test_the_step_of_a_framework_ends_when_a_rank_is_killed(network, script):
    """The other waits for it in a collective: whatever the framework's own patience is, Slurm ends it."""
    pytest.importorskip(MODULES[script], reason=f"{MODULES[script]} is not installed: scripts/setup --python")
    folder = network.new_folder()
    ended = step(network, *SHAPES["two nodes"], sys.executable, SCRIPTS / script, folder, env={"DIES": "1"})
    assert ended.returncode != 0 and "task 1: Killed" in ended.stderr, ended.stderr
    assert reports_in(folder) == []


# ---------------------------------------------------------------- torchrun, one task a node


def torchruns(network, options, *srun, script=SCRIPTS / "plain.py", env=None):
    """One torchrun a node with one rank each: how the step ended, and what the ranks reported, by the number of the node."""
    folder = network.new_folder()
    mine = f"{folder}/$SLURM_NODEID"
    one = f"mkdir {mine}; exec {sys.executable} -m torch.distributed.run --nproc-per-node=1 {options} {script} {mine}"
    ended = step(network, *srun, "sh", "-c", one, env=env)
    reports = [(file.parent.name, json.loads(file.read_text())) for file in sorted(folder.glob("*/*.json"))]
    return ended, [(int(node), report["rank"], report["world_size"]) for node, report in reports]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("options", ["", C10D], ids=["static", "c10d"])
def test_torchrun_agents_form_one_world(network, options, nodes):
    """The store of c10d is opened under a name that no node has."""
    pytest.importorskip("torch")
    ended, found = torchruns(network, options, f"-N{nodes}", f"-n{nodes}")
    assert ended.returncode == 0, ended.stderr
    assert sorted(rank for _, rank, _ in found) == list(range(nodes)) and {size for _, _, size in found} == {nodes}


@pytest.mark.parametrize("options", ["", C10D], ids=["static", "c10d"])
def test_torchrun_numbers_nodes_like_their_tasks(network, order, options):
    """Rank 0 is on jwb0002, node 1 of the step."""
    pytest.importorskip("torch")
    ended, found = torchruns(network, options, "-m", "arbitrary", "-n2", env=order)
    assert ended.returncode == 0, ended.stderr
    assert len(found) == 2 and {size for _, _, size in found} == {2}
    if not options:
        assert found == [(0, 1, 2), (1, 0, 2)]  # c10d makes an order of its own


@pytest.mark.parametrize("nodes", [1, 2])
def test_standalone_torchruns_form_one_world_per_node(network, nodes):
    pytest.importorskip("torch")
    ended, found = torchruns(network, "--standalone --nnodes=1", f"-N{nodes}", f"-n{nodes}")
    assert ended.returncode == 0 and found == [(node, 0, 1) for node in range(nodes)], ended.stderr


def test_a_killed_rank_ends_the_step_of_static_torchruns(network):
    pytest.importorskip("torch")
    ended, found = torchruns(network, "", "-N2", "-n2", env={"DIES": "1"})
    assert ended.returncode != 0 and found == [], ended.stderr


def test_c10d_torchruns_restart_after_a_rank_is_killed(network, tmp_path):
    """The other rank waits for ever: only its own torchrun, told by the other, can end and restart it."""
    pytest.importorskip("torch")
    script = SCRIPTS / "restarted.py"
    ended, found = torchruns(network, f"--max-restarts=3 {C10D}", "-N2", "-n2", script=script, env={"MARKS": str(tmp_path)})
    assert ended.returncode == 0, ended.stderr
    assert sorted(rank for _, rank, _ in found) == [0, 1]
