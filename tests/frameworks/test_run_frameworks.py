"""Third-party programs, and programs written as the guides of their frameworks say, run unchanged by `rollcall run`."""

import importlib.util
import json
import os
import pathlib
import signal
import sys
import time

import pytest

from agents import DEADLINE, ROLLCALL, end_all, free_port, start

pytestmark = [pytest.mark.python, pytest.mark.long, pytest.mark.skipif(not ROLLCALL.exists(), reason=f"{ROLLCALL} is not built")]
PROGRAMS = pathlib.Path(__file__).parent / "programs"
# What a form leaves to whoever runs it, besides {port} and {node}.
GIVEN = {"host": "127.0.0.1", "script": PROGRAMS / "all_reduce.py", "module": "all_reduce", "python": sys.executable}
NODE, NODES = "--standalone", "--rdzv-backend=c10d --rdzv-endpoint={host}:{port}"


@pytest.fixture(autouse=True)
def end_leftover_processes():
    yield
    end_all()


def need(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: scripts/setup --python")


def finish(agents):
    """What each agent and its workers wrote to standard output, once all have ended well."""
    said = [agent.communicate(timeout=DEADLINE) for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(agents), said
    return [out for out, _ in said]


def launch(form, *arguments, nodes=1, **how):
    """Runs a form by as many agents as there are nodes: what each wrote."""
    port = free_port()
    lines = [form.format(port=port, node=node, **GIVEN).split() for node in range(nodes)]
    return finish([start(*line, *arguments, **how) for line in lines])


def answers_in(folder):
    """What the ranks reported, by rank."""
    return sorted((json.loads(file.read_text()) for file in folder.glob("*.json")), key=lambda answer: answer["rank"])


def check_world(answers, nodes, workers):
    """All ranks reported, of as many nodes with as many workers each, and those that added up their numbers came to the same sum."""
    size = nodes * workers
    assert [(answer["rank"], answer["world_size"]) for answer in answers] == [(rank, size) for rank in range(size)]
    assert [(answer["node"], answer["local_rank"]) for answer in answers] == [divmod(rank, workers) for rank in range(size)]
    assert {answer["sum"] for answer in answers if "sum" in answer} <= {size * (size + 1) // 2}


# ---------------------------------------------------------------- Accelerate

# Its own test programs that end well under torchrun without a GPU, and what they write where the ranks are one world. The others do
# not end well there: test_distributed_data_loop hangs where it joins uneven inputs, test_ddp_comm_hook gives DDP numbers of GPUs,
# test_merge_weights fails when FSDP leaves a state dict. test_notebook is about a launcher of its own, test_cli prints how many GPUs
# there are, and those in external_deps want data from elsewhere.
ITS_SCRIPT = ["-m", "accelerate.test_utils.scripts.test_script"]
SAME_RESULTS = "Training yielded the same results on one CPU or distributed setup with batch split."
ITS_OTHERS = {"test_sync": "**Test Distributed `no_sync` context manager with multiple forwards**", "test_ops": "Num processes: 2"}
ON_CPUS = {"ACCELERATE_USE_CPU": "true"}  # else each rank trains alone, under torchrun as well


def test_accelerates_test_script_passes(tmp_path):
    need("accelerate")
    (said,) = launch(f"{NODE} --nproc-per-node=2", *ITS_SCRIPT, env=ON_CPUS, cwd=tmp_path)
    assert SAME_RESULTS in said and said.count("Num processes: 2") == 2, said


def test_accelerates_test_script_passes_on_two_nodes(tmp_path):
    need("accelerate")
    said = launch(f"--nnodes=2 {NODES}", *ITS_SCRIPT, nodes=2, env=ON_CPUS, cwd=tmp_path)
    assert all(SAME_RESULTS in each for each in said), said
    assert sorted(line for each in said for line in each.splitlines() if line.startswith(("Num processes", "Process index"))) == [
        "Num processes: 2", "Num processes: 2", "Process index: 0", "Process index: 1"]


@pytest.mark.parametrize("name", ITS_OTHERS)
def test_other_accelerate_test_programs_pass(tmp_path, name):
    need("accelerate")
    (said,) = launch(f"{NODE} --nproc-per-node=2", PROGRAMS / "accelerate_scripts.py", name, cwd=tmp_path)
    assert ITS_OTHERS[name] in said, said


# ---------------------------------------------------------------- Lightning and JAX

ONE_AND_TWO = pytest.mark.parametrize("nodes, workers, options", [(1, 2, f"{NODE} --nproc-per-node=2"), (2, 1, f"--nnodes=2 {NODES}")],
                                      ids=["one node", "two nodes"])


@ONE_AND_TWO
def test_lightning_boring_model_trains_as_one_world(tmp_path, nodes, workers, options):
    need("pytorch_lightning")
    launch(options, PROGRAMS / "boring.py", tmp_path, nodes, workers, nodes=nodes)
    answers = answers_in(tmp_path)
    check_world(answers, nodes, workers)
    assert {(answer["found_by"], answer["steps"]) for answer in answers} == {("TorchElasticEnvironment", 8)}
    assert answers[0]["weights"] == answers[1]["weights"]


@ONE_AND_TWO
def test_jax_uses_the_endpoint_of_the_variables(tmp_path, nodes, workers, options):
    """Under torchrun it does not: the agent's store listens at MASTER_PORT there, and JAX's own service cannot."""
    need("jax")
    launch(options, PROGRAMS / "jax_explicit.py", tmp_path, nodes=nodes)
    check_world(answers_in(tmp_path), nodes, workers)


# ---------------------------------------------------------------- torchrun's forms

# Those of torchrun's page and of PyTorch's tutorials, but for numbers of workers, ports and addresses: options, nodes, workers a node.
FORMS = {
    "single node": ("--standalone --nnodes=1 --nproc-per-node=2 {script}", 1, 2),
    "fault tolerant": ("--nnodes=2 --nproc-per-node=2 --max-restarts=3 --rdzv-id=1 --rdzv-backend=c10d --rdzv-endpoint={host}:{port} "
                       "{script}", 2, 2),
    "elastic, as many nodes as may be": ("--nnodes=1:4 --nproc-per-node=1 --max-restarts=3 --rdzv-id=1 --rdzv-backend=c10d "
                                         "--rdzv-endpoint={host}:{port} {script}", 4, 1),
    "multi-node tutorial": ("--nproc_per_node=1 --nnodes=2 --node_rank={node} --rdzv_id=456 --rdzv_backend=c10d "
                            "--rdzv_endpoint={host}:{port} {script}", 2, 1),
    "static, one node": ("--nnodes=1 --node-rank=0 --nproc-per-node=2 --master-addr={host} --master-port={port} {script}", 1, 2),
    "static, two nodes": ("--nnodes 2 --node-rank {node} --nproc-per-node 1 --master-addr {host} --master-port {port} {script}", 2, 1),
    "module": ("--standalone --nproc-per-node=2 -m {module}", 1, 2),
    "no Python": ("--standalone --nproc-per-node=2 --no-python {python} {script}", 1, 2),
}


@pytest.mark.parametrize("name", FORMS)
def test_documented_torchrun_invocations_work(tmp_path, name):
    need("torch")
    form, nodes, workers = FORMS[name]
    launch(form, tmp_path, nodes=nodes, cwd=PROGRAMS)
    check_world(answers_in(tmp_path), nodes, workers)


def test_torchrun_runs_several_jobs_on_one_host(tmp_path):
    need("torch")
    form = "--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nnodes=1 --nproc-per-node=2 {script}"
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    finish([start(*form.format(**GIVEN).split(), folder) for folder in folders])
    for folder in folders:
        check_world(answers_in(folder), 1, 2)


# ---------------------------------------------------------------- torchrun's tutorial


class Snapshots:
    """A run of programs/snapshots.py, held in the midst of an epoch until the test lets it go on."""

    def __init__(self, folder, options):
        sys.path.insert(0, str(PROGRAMS))
        import snapshots
        sys.path.remove(str(PROGRAMS))
        self.program, self.folder, self.agents = snapshots, folder, []
        self.line = [*options.format(port=free_port(), **GIVEN).split(), PROGRAMS / "snapshots.py", folder]

    def start(self):
        self.agents.append(start(*self.line))

    def held(self, generation, size):
        """The processes of a generation, by rank, once all of them are in the midst of the epoch."""
        files = [self.folder / f"{generation}.{rank}.held" for rank in range(size)]
        end = time.monotonic() + DEADLINE
        while not all(file.exists() for file in files):
            assert time.monotonic() < end and {agent.poll() for agent in self.agents} == {None}
            time.sleep(0.01)
        return [int(file.read_text()) for file in files]

    def finish(self):
        (self.folder / "go").touch()
        finish(self.agents)

    def check(self, sizes, nodes):
        """Each epoch was done once: up to the held one by the first generation, from it on by the second. The weights are those of a
        training that nobody disturbed.
        """
        epochs = list(range(self.program.EPOCHS))
        done = {0: epochs[:self.program.HELD], 1: epochs[self.program.HELD:]}
        expected = {f"{i + 1}.{rank}.epochs": done[i] for i, size in enumerate(sizes) for rank in range(size)}
        assert {file.name: [int(epoch) for epoch in file.read_text().split()] for file in self.folder.glob("*.epochs")} == expected
        answers = answers_in(self.folder)
        check_world(answers, nodes, sizes[-1] // nodes)
        for answer in answers:
            assert answer["weights"] == pytest.approx(self.program.undisturbed(), abs=1e-5)


def test_a_joining_node_resumes_with_the_others_from_the_snapshot(tmp_path):
    need("torch")
    run = Snapshots(tmp_path, f"--nnodes=1:2 --nproc-per-node=4 --max-restarts=3 {NODES} --rdzv-conf=last_call_timeout=0.05")
    run.start()
    run.held(1, 4)
    run.start()
    run.held(2, 8)
    run.finish()
    run.check([4, 8], nodes=2)


def test_a_killed_worker_is_replaced_and_all_resume_from_the_snapshot(tmp_path):
    need("torch")
    run = Snapshots(tmp_path, f"{NODE} --nproc-per-node=2 --max-restarts=3")
    run.start()
    os.kill(run.held(1, 2)[1], signal.SIGKILL)
    run.held(2, 2)
    run.finish()
    run.check([2, 2], nodes=1)
