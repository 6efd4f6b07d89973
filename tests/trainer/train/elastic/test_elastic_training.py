"""rollcall-train --elastic: the surviving ranks continue in the same processes, with their state in memory."""
import os
import signal
import time

import pytest

import agents
import elastic_runs
import trainer_ranks
from elastic_runs import SMALL, Training, kill

pytestmark = pytest.mark.python
STEPS = 30


@pytest.fixture
def training(tmp_path):
    """Makes trainings, and ends what is left of them."""
    made = []

    def make(name, *options, **how):
        made.append(Training(tmp_path / name, *SMALL, *options, **how))
        return made[-1]
    yield make
    for each in made:
        each.close()


def last_checkpoint(run):
    return trainer_ranks.checkpoints(run.folder)[-1]


def undisturbed(training, *options, **how):
    run = training("undisturbed", f"--max-steps={STEPS}", "--epochs=100", *options, **how)
    run.start()
    run.finish()
    return run


@pytest.mark.parametrize("victim, options", [(1, ()), pytest.param(2, ("--sync-bn", "--optimizer=adamw"), marks=pytest.mark.long),
                                             pytest.param(1, ("--optimizer=lamb", "--ema=0.9"), marks=pytest.mark.long),
                                             pytest.param(0, (), marks=pytest.mark.long),
                                             pytest.param(1, ("--grad-accumulation=2", "--clip-grad-norm=1"), marks=pytest.mark.long)])
def test_a_killed_rank_is_replaced_with_bit_identical_results(training, victim, options):
    expected = undisturbed(training, *options)
    run = training("killed", f"--max-steps={STEPS}", "--epochs=100", *options)
    run.start()
    run.wait_for_step(8)
    before = run.workers()
    kill(before[victim])
    run.wait(lambda: run.records("regrouped"))
    after = run.workers()
    assert [a == b for a, b in zip(after, before)] == [rank != victim for rank in range(3)]
    run.finish()
    missing = set(range(1, STEPS + 1)) - set(run.steps())
    assert len(run.steps()) == STEPS - len(missing) and len(missing) <= (victim == 0)  # it may have died before it told of a step
    [told] = run.records("regrouped")
    assert told["ranks"] == 3 and told["cause"]
    times = [told[f"{name}_seconds"] for name in ("released", "hold", "joined", "restored", "first_step")]
    assert times == sorted(times) and times[0] > 0
    different = trainer_ranks.differences(last_checkpoint(run), last_checkpoint(expected))
    # Without --sync-bn the statistics are rank 0's, and go with it: those of the next rank take their place.
    lost = ("running_mean", "running_var") if victim == 0 else ()
    assert [name for name in different if not name.endswith(lost or "/")] == []


@pytest.mark.long
def test_a_rank_stopped_for_a_while_only_delays_the_training(training):
    steps = 300
    expected = training("undisturbed", f"--max-steps={steps}", "--epochs=100")
    expected.start()
    expected.finish()
    run = training("stopped", f"--max-steps={steps}", "--epochs=100")
    run.start()
    run.wait_for_step(8)
    rank = run.workers()[1]
    os.kill(rank, signal.SIGSTOP)
    try:
        stood = run.steps()[-1]
        time.sleep(3)
        assert run.steps()[-1] <= stood + 1 < steps
    finally:
        os.kill(rank, signal.SIGCONT)
    run.finish()
    assert run.steps() == list(range(1, steps + 1)) and not run.records("regrouped")
    assert trainer_ranks.differences(last_checkpoint(run), last_checkpoint(expected)) == []


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--backend=ucx",)])
def test_a_rank_stopped_for_good_is_restarted_or_replaced(training, options):
    """By SIGSTOP: no process has ended, and no agent would notice. Its peers say that they wait in vain; being told to let go it goes on."""
    steps = 60
    expected = training("undisturbed", f"--max-steps={steps}", "--epochs=100", *options)
    expected.start()
    expected.finish()
    run = training("stopped", f"--max-steps={steps}", "--epochs=100", "--collective-timeout=3", *options,
                   launch=("--max-restarts=100", "--shutdown-timeout=5"))
    run.start()
    run.wait_for_step(8)
    os.kill(run.workers()[1], signal.SIGSTOP)
    run.wait(lambda: run.records("regrouped"))
    run.finish()
    assert run.steps() == list(range(1, steps + 1))
    assert trainer_ranks.differences(last_checkpoint(run), last_checkpoint(expected)) == []


def test_workers_with_a_fixed_master_port_rendezvous_again(training):
    """The previous world does not keep the port in use."""
    run = training("fixed", f"--max-steps={STEPS}", "--epochs=100", launch=("--max-restarts=100", f"--master-port={agents.free_port()}"))
    run.start()
    run.wait_for_step(8)
    before = run.workers()
    kill(before[1])
    run.wait(lambda: run.records("regrouped"))
    assert [a == b for a, b in zip(run.workers(), before)] == [True, False, True]
    run.finish()


@pytest.mark.long
def test_a_standby_replaces_the_killed_rank_and_is_replenished(training):
    run = training("run", "--max-steps=400", "--epochs=100", workers=2)
    run.start()
    standby = run.wait_for_standby()
    kill(run.workers()[1])
    run.wait(lambda: run.records("regrouped"))
    assert run.workers()[1] == standby
    assert run.wait_for_standby() != standby
    run.agents[0].terminate()
    run.finish(75)
    assert not agents.living_in_sessions_with(str(run.folder))


def test_without_a_standby_a_new_process_replaces_the_rank(training):
    run = training("run", f"--max-steps={STEPS}", "--epochs=100", workers=2, launch=("--max-restarts=1", "--no-standby"))
    run.start()
    run.wait_for_step(5)
    kill(run.workers()[1])
    run.finish()
    assert run.steps() == list(range(1, STEPS + 1))


def records_of_kept_steps(run):
    """By docs/reference/metrics.md: after `resume` those of higher steps before it are of work that was lost."""
    kept = []
    for record in run.lines():
        if record["event"] == "resume":
            kept = [step for step in kept if step["step"] <= record["global_step"]]
        elif record["event"] == "step":
            kept.append(record)
    return kept


@pytest.mark.long
@pytest.mark.parametrize("log_steps", [1, 4, 7])
def test_every_sample_is_in_exactly_one_record_despite_lost_ranks(training, log_steps):
    """Ranks are killed one after the other, both in the middle of an interval of records and just after a record."""
    run = training("killed", "--max-steps=160", "--epochs=100", f"--log-steps={log_steps}")
    run.start()
    for victim in (1, 2, 1, 2):
        seen = len(run.records("step"))
        run.wait(lambda: len(run.records("step")) > seen)
        seen = len(run.records("regrouped"))
        kill(run.workers()[victim])
        run.wait(lambda: len(run.records("regrouped")) > seen)
    run.finish()
    before, told = 0, records_of_kept_steps(run)
    for record in told:
        assert record["samples"] == 3 * 4 * (record["step"] - before), told
        before = record["step"]
    assert before == 160


@pytest.mark.long
def test_checkpoints_before_and_after_a_regroup_are_kept(training):
    run = training("run", "--max-steps=22", "--epochs=100", "--checkpoint-steps=5", "--keep-last=9", "--checkpoint-mode=sync", workers=2)
    run.start()
    run.wait_for_step(12)
    kill(run.workers()[0])
    run.wait_for_step(17)
    kill(run.workers()[1])
    run.finish()
    assert [path.name for path in sorted(run.folder.glob("*.h5*")) if path.name != "best.h5"] == [
        f"step-{step:08}.h5" for step in (5, 10, 15, 20, 22)]
    assert "resumed from" not in run.text()


@pytest.mark.long
@pytest.mark.parametrize("options", [("--valid-epochs=0",), ("--valid-epochs=1",)])
def test_a_rank_lost_during_the_last_save_loses_no_checkpoint(training, options):
    run = training("run", "--max-steps=6", "--epochs=100", *options, workers=2)
    run.start()
    run.wait_for_step(2)
    victim = run.workers()[1]
    run.wait_for_step(6)  # what follows takes tenths of a second
    kill(victim)
    run.finish()
    assert last_checkpoint(run).name == "step-00000006.h5"


def images_of_epochs(run):
    return [(record["epoch"], record["samples"]) for record in run.records("epoch")]


@pytest.mark.long
def test_nodes_leave_and_join_between_two_steps(training):
    """Steps keep their size, and each epoch has all of its images: of 170 training images 168 fill 21 steps of 8."""
    expected = training("undisturbed", "--epochs=3", workers=2)
    expected.start()
    expected.finish()
    endpoint = f"127.0.0.1:{agents.free_port()}"
    run = training("run", "--epochs=3", "--train-num-workers=0", workers=1, endpoint=endpoint,
                   launch=("--nnodes=1:2", "--max-restarts=9", "--rdzv-conf=last_call_timeout=1"))
    first = run.start()
    second = run.start("--rdzv-conf=last_call_timeout=1,is_host=false")
    run.wait_for_step(10)
    ranks = run.workers(first)
    elastic_runs.kill(second.pid)
    run.wait(lambda: len(run.records("regrouped")) == 1)
    run.wait_for_step(30)
    third = run.start("--rdzv-conf=last_call_timeout=1,is_host=false")
    run.wait(lambda: len(run.records("regrouped")) == 2)
    assert run.workers(first) == ranks
    assert [agent.wait(timeout=agents.DEADLINE) for agent in (first, third)] == [0, 0]
    assert [record["ranks"] for record in run.records("regrouped")] == [1, 2]
    assert run.records("regrouped")[1]["cause"] == "nodes joined or left"
    assert run.steps() == expected.steps()
    assert images_of_epochs(run) == images_of_epochs(expected)
    for ours, theirs in zip(run.records("epoch"), expected.records("epoch")):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


@pytest.mark.long
def test_ranks_that_cannot_divide_the_global_batch_continue_with_the_nearest(training):
    """The state is in memory alone: an error would lose it."""
    endpoint = f"127.0.0.1:{agents.free_port()}"
    run = training("run", f"--max-steps={STEPS}", "--epochs=100", "--global-batch=9", workers=1, endpoint=endpoint,
                   launch=("--nnodes=1:2", "--max-restarts=9", "--rdzv-conf=last_call_timeout=1"))
    first = run.start()
    second = run.start("--rdzv-conf=last_call_timeout=1,is_host=false")
    run.wait_for_step(8)
    ranks = run.workers(first)
    elastic_runs.kill(second.pid)
    run.wait(lambda: len(run.records("regrouped")) == 1)
    assert run.workers(first) == ranks
    assert first.wait(timeout=agents.DEADLINE) == 0, run.text()
    text = run.text()
    assert "--global-batch: 9: cannot be divided among 2 ranks into micro-batches of at most 4 images; continuing with steps of 8 images" in text
    assert run.steps()[-1] == STEPS
    assert {record["samples"] for record in run.records("step")} == {8, 9}


def test_fsdp_resumes_from_the_newest_checkpoint_in_the_same_processes(training):
    run = training("run", f"--max-steps={STEPS}", "--epochs=100", "--parallel=fsdp", "--checkpoint-steps=5", workers=2)
    run.start()
    run.wait(lambda: any(record["step"] >= 10 for record in run.records("checkpoint")))
    before = run.workers()
    kill(before[1])
    run.wait(lambda: len(run.records("begin")) == 2)
    assert run.workers()[0] == before[0]
    run.finish()
    assert run.records("resume")[0]["global_step"] >= 10
    assert run.steps()[-1] == STEPS


def test_elastic_without_an_agent_is_rejected():
    done = trainer_ranks.subprocess.run([trainer_ranks.PROGRAM, "--elastic", "--max-steps=1", "--data=fake"], capture_output=True, text=True,
        timeout=60)
    assert done.returncode == 64
    assert done.stderr.startswith("rollcall: --elastic: on: this process was not started by an agent") and "rollcall run" in done.stderr
