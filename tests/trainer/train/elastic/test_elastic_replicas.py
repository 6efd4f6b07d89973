"""rollcall-train --elastic --parallel=fsdp --replicate-to=neighbour: other ranks hold replicas of the state of lost ranks."""
import os
import signal

import pytest

import agents
import elastic_runs
import trainer_ranks

pytestmark = [pytest.mark.python, pytest.mark.long]

STEPS = 60
EVERY = 5
SHARDED = ("--parallel=fsdp", "--epochs=100")
REPLICAS = ("--replicate-to=neighbour", f"--replicate-steps={EVERY}")


@pytest.fixture
def training(tmp_path):
    """Makes trainings, and ends what is left of them."""
    made = []

    def make(name, *options, **how):
        made.append(elastic_runs.Training(tmp_path / name, *elastic_runs.SMALL, *options, **how))
        return made[-1]
    yield make
    for each in made:
        each.close()


def newest_replica(run):
    return max((record["step"] for record in run.records("replica") if record["complete"]), default=0)


def resumed_at(run):
    return [record["global_step"] for record in run.records("resume")]


def steps_since(run, step):
    """Those that were done after the run went on at `step`: rank 0 had done some of them before."""
    begins = [number for number, line in enumerate(run.lines()) if line["event"] == "resume" and line["global_step"] == step]
    return [line["step"] for line in run.lines()[begins[0]:] if line["event"] == "step"]


@pytest.mark.parametrize("victim, options", [(1, ()), (0, ("--optimizer=adamw", "--cpu-offload")), (2, ("--checkpoint-mode=sync",)),
                                             (1, ("--optimizer=lamb", "--ema=0.9"))])
def test_a_killed_rank_repeats_only_the_steps_since_the_last_replica(training, victim, options):
    expected = training("undisturbed", *SHARDED, f"--max-steps={STEPS}", *options)
    expected.start()
    expected.finish()
    run = training("killed", *SHARDED, f"--max-steps={STEPS}", *REPLICAS, *options)
    run.start()
    run.wait_for_step(12)
    run.wait(lambda: newest_replica(run) >= 10)
    before = run.workers()
    elastic_runs.kill(before[victim])
    run.wait(lambda: run.records("regrouped"))
    assert [a == b for a, b in zip(run.workers(), before)] == [rank != victim for rank in range(3)]
    run.finish()
    assert "continues from replicas in the memory of 2 of 3 ranks" in run.text() and "resumed from" not in run.text()
    [began] = resumed_at(run)
    assert began >= 10
    assert steps_since(run, began) == list(range(began + 1, STEPS + 1))
    assert trainer_ranks.differences(trainer_ranks.checkpoints(run.folder)[-1], trainer_ranks.checkpoints(expected.folder)[-1]) == []


def kill_node(run, agent):
    pids = [agent.pid, *run.workers(agent)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_a_lost_node_is_replaced_by_a_joining_one(training):
    """Peers are on different nodes; and if no rank is lost, no step is repeated."""
    endpoint = f"127.0.0.1:{agents.free_port()}"
    run = training("run", *SHARDED, "--max-steps=300", "--train-num-workers=0", *REPLICAS, workers=2, endpoint=endpoint,
                   launch=("--nnodes=1:2", "--max-restarts=9", "--rdzv-conf=last_call_timeout=1"))
    first = run.start()
    second = run.start("--rdzv-conf=last_call_timeout=1,is_host=false")
    run.wait(lambda: newest_replica(run) >= 10)
    ranks = run.workers(first)
    kill_node(run, second)
    run.wait(lambda: len(run.records("regrouped")) == 1)
    assert resumed_at(run)[0] >= 10
    run.wait_for_step(resumed_at(run)[0] + 10)
    third = run.start("--rdzv-conf=last_call_timeout=1,is_host=false")
    run.wait(lambda: len(run.records("regrouped")) == 2)
    assert run.workers(first) == ranks
    assert [agent.wait(timeout=agents.DEADLINE) for agent in (first, third)] == [0, 0]
    assert [record["ranks"] for record in run.records("regrouped")] == [2, 4]
    assert steps_since(run, resumed_at(run)[0]) == list(range(resumed_at(run)[0] + 1, 301))
    assert "resumed from" not in run.text()


def test_losing_a_rank_and_its_peer_resumes_from_the_checkpoint(training):
    run = training("run", *SHARDED, f"--max-steps={STEPS}", "--checkpoint-steps=8", *REPLICAS)
    run.start()
    run.wait(lambda: any(record["step"] >= 8 for record in run.records("checkpoint")) and newest_replica(run) >= 10)
    ranks = run.workers()
    for rank in ranks[:2]:
        elastic_runs.kill(rank)
    run.finish()
    assert "resumed from" in run.text() and "continues from replicas" not in run.text()
    assert resumed_at(run)[0] % 8 == 0 and run.steps()[-1] == STEPS


def test_a_loss_after_an_epoch_end_repeats_and_supersedes_nothing(training):
    """The first epoch's end is saved after a copy of its last step was made, which stays the newest one until a rank is lost: a world makes
    copies after its first step, and here after as many more as end that epoch."""
    expected = training("undisturbed", *SHARDED[:1], "--epochs=8", "--valid-epochs=1", "--checkpoint-epochs=1")
    expected.start()
    expected.finish()
    steps = expected.records("checkpoint")[0]["step"]
    run = training("run", *SHARDED[:1], "--epochs=8", "--valid-epochs=1", "--checkpoint-epochs=1", "--replicate-to=neighbour",
                   f"--replicate-steps={steps - 1}", "--keep-last=9")
    run.start()
    run.wait(lambda: run.records("checkpoint") and newest_replica(run) == steps)
    elastic_runs.kill(run.workers()[1])
    run.wait(lambda: len(run.records("validation")) >= 3)
    elastic_runs.kill(run.workers()[2])
    run.finish()
    assert resumed_at(run)[0] == steps and [record["epoch"] for record in run.records("epoch")].count(0) == 1
    assert list(run.folder.glob("*superseded*")) == [] and (run.folder / "best.h5").exists()
    validated = {record["epoch"]: record["loss"] for record in run.records("validation")}
    assert validated == {record["epoch"]: record["loss"] for record in expected.records("validation")}
    assert trainer_ranks.differences(trainer_ranks.checkpoints(run.folder)[-1], trainer_ranks.checkpoints(expected.folder)[-1]) == []


def test_a_checkpoint_newer_than_the_replica_is_used(training):
    run = training("run", *SHARDED, f"--max-steps={STEPS}", "--checkpoint-steps=6", "--checkpoint-mode=sync", "--replicate-to=neighbour",
                   "--replicate-steps=1000")
    run.start()
    run.wait(lambda: newest_replica(run) == 1 and any(record["step"] >= 6 for record in run.records("checkpoint")))
    elastic_runs.kill(run.workers()[1])
    run.finish()
    assert "resumed from" in run.text() and resumed_at(run)[0] >= 6
