"""rollcall-train --elastic-exact: the result of a training depends bit for bit only on its virtual ranks, not on the real ones."""
import numpy as np
import pytest

import agents
import elastic_runs
import trainer_ranks

pytestmark = [pytest.mark.python, pytest.mark.long]

QUIET = ("--num-classes=10", "--fake-size=120", "--train-num-workers=1", "--valid-num-workers=1", "--index-dir=none", "--report=off",
         "--rank-seconds=0")
EXACT = (*trainer_ranks.SMALL, *QUIET, "--elastic-exact=4", "--lr=0.01")


def trained(folder, *options, ranks, **how):
    """The last checkpoint of a run."""
    trainer_ranks.run(folder, *options, ranks=ranks, **how)
    return trainer_ranks.checkpoints(folder)[-1]


def differences(path, other):
    """Except for the random generators: each rank has one, and these trainings do not use them."""
    return [name for name in trainer_ranks.differences(path, other) if not name.startswith("rng/")]


# Two epochs and a bit, so that orders, statistics, schedules and validations of several count.
LONG = ("--epochs=3", "--max-steps=15", "--valid-epochs=1")


@pytest.mark.parametrize("others, options", [
    ((3, 2, 1, 5), ("--mixup=0.4", "--lr-schedule=cosine", "--warmup-epochs=1")),
    ((3, 5), ("--optimizer=adamw", "--grad-accumulation=2", "--batch-size=2", "--clip-grad-norm=0.5", "--last-batch=pad")),
    ((3,), ("--optimizer=lars", "--ema=0.9")),
    ((2,), ("--precision=bf16", "--channels-last=off")),
    ((3,), ("--stochastic-depth=0.4", "--dropout=0.2", "--sampling=balanced", "--class-weights=balanced", "--freeze=conv1", "--blurpool")),
    ((3,), ("--precision=fp16", "--lr=0.0005", "--max-steps=2", "--batch-size=2", "--epochs=1")),  # which CPUs take seconds a step for
], ids=["sgd", "adamw", "lars, average", "bf16", "drop", "fp16"])
def test_any_number_of_ranks_gives_bit_identical_results(tmp_path, others, options):
    expected = trained(tmp_path / "4", *EXACT, *LONG, *options, ranks=4)
    for ranks in others:
        assert differences(trained(tmp_path / str(ranks), *EXACT, *LONG, *options, ranks=ranks), expected) == [], ranks


def row_of(path, statistics):
    """All weights, or all running statistics, in the order of their names."""
    data = sorted((name, np.frombuffer(value, dtype=np.float32)) for name, value in trainer_ranks.datasets(path).items()
                  if name.startswith("model/") and ("running_" in name) == statistics and not name.endswith("num_batches_tracked"))
    assert len(data) > 30
    return np.concatenate([values for _, values in data]).astype(np.float64)


# With a larger learning rate the same sums in another order are another training after two steps.
@pytest.mark.parametrize("steps, learning_rate", [(1, 1e-3), (6, 2e-5)])
def test_virtual_ranks_match_real_ranks_up_to_summation_order(tmp_path, steps, learning_rate):
    options = (*trainer_ranks.SMALL, *QUIET, "--epochs=2", "--grad-accumulation=2", "--batch-size=2", "--elastic-exact=0")
    untrained = trained(tmp_path / "untrained", *options, "--max-steps=1", "--lr=1e-12", ranks=4)
    options += (f"--max-steps={steps}", f"--lr={learning_rate}")
    plain = trained(tmp_path / "plain", *options, ranks=4)
    exact = trained(tmp_path / "exact", *options, "--elastic-exact=4", ranks=2)

    def distance(one, other, statistics):
        return np.linalg.norm(row_of(one, statistics) - row_of(other, statistics))
    assert distance(exact, plain, statistics=False) < 0.01 * distance(plain, untrained, statistics=False)
    assert distance(exact, plain, statistics=True) < 1e-4 * np.linalg.norm(row_of(plain, statistics=True))


def test_resume_with_other_ranks_is_bit_identical(tmp_path):
    expected = trained(tmp_path / "undisturbed", *EXACT, "--epochs=3", "--valid-epochs=0", "--max-steps=15", ranks=4)
    for steps, ranks in ((4, 4), (9, 3), (15, 1)):
        text = trainer_ranks.run(tmp_path / "run", *EXACT, "--epochs=3", "--valid-epochs=0", f"--max-steps={steps}", ranks=ranks)
        assert ("resumed" in text) == (steps > 4)
    found = trainer_ranks.checkpoints(tmp_path / "run")[-1]
    assert differences(found, expected) == []


def test_elastic_exact_threads_defines_the_result(tmp_path):
    """OMP_NUM_THREADS, which depends on the node and its number of ranks, has no effect."""
    options = (*EXACT, "--max-steps=3", "--elastic-exact-threads=2")
    expected = trained(tmp_path / "4", *options, ranks=4, env={"OMP_NUM_THREADS": "1"})
    assert differences(trained(tmp_path / "1", *options, ranks=1, env={"OMP_NUM_THREADS": "3"}), expected) == []
    text = trainer_ranks.run(tmp_path / "3", *options, ranks=3)
    assert "--elastic-exact: 4: each of 3 ranks computes up to 2 virtual ranks, so steps take as long as with 2" in text
    with_one = trained(tmp_path / "one", *EXACT, "--max-steps=3", ranks=4, env={"OMP_NUM_THREADS": "2"})
    assert differences(with_one, expected) != []
    text = trainer_ranks.run(tmp_path / "4", *EXACT, "--max-steps=4", ranks=2, code=76)
    assert "--elastic-exact-threads was 2 and is 1" in text


def test_other_micro_batches_are_rejected_as_another_training(tmp_path):
    options = (*EXACT, "--lr-scaling=none")
    trained(tmp_path, *options, "--max-steps=2", ranks=2)
    text = trainer_ranks.run(tmp_path, *options, "--batch-size=2", "--grad-accumulation=2", "--max-steps=3", ranks=2, code=76)
    assert "--batch-size was 4 and is 2" in text
    text = trainer_ranks.run(tmp_path, *options, "--batch-size=2", "--grad-accumulation=2", "--label-smoothing=0.1", ranks=2, code=76)
    assert "--batch-size was 4 and is 2" in text and "--label-smoothing" in text
    assert "--channels-last was true and is false" in trainer_ranks.run(tmp_path, *options, "--channels-last=off", ranks=1, code=76)


def test_results_stay_bit_identical_as_nodes_leave_and_join(tmp_path):
    """Two nodes of two ranks; a rank is killed, then a node, then a node joins."""
    options = (*elastic_runs.SMALL, "--elastic-exact=4", "--epochs=100", "--max-steps=80", "--lr=0.001")
    expected = trained(tmp_path / "undisturbed", *options, "--index-dir=none", ranks=2)
    quick = "--rdzv-conf=last_call_timeout=1"
    run = elastic_runs.Training(tmp_path / "run", *options, workers=2, endpoint=f"127.0.0.1:{agents.free_port()}",
                                launch=("--nnodes=1:2", "--max-restarts=9", quick))
    try:
        first = run.start()
        second = run.start(f"{quick},is_host=false")
        run.wait_for_step(5)
        elastic_runs.kill(run.workers(first)[0])  # rank 0, whose statistics nobody else had without --elastic-exact
        run.wait(lambda: len(run.records("regrouped")) == 1)
        run.wait_for_step(20)
        elastic_runs.kill(second.pid)
        run.wait(lambda: len(run.records("regrouped")) == 2)
        run.wait_for_step(40)
        third = run.start(f"{quick},is_host=false")
        run.wait(lambda: len(run.records("regrouped")) == 3)
        assert [agent.wait(timeout=agents.DEADLINE) for agent in (first, third)] == [0, 0], run.text()
    finally:
        run.close()
    assert [record["ranks"] for record in run.records("regrouped")] == [4, 2, 4]
    assert len(set(run.steps())) == len(run.steps()) >= 78  # rank 0 may die before it tells of a step
    assert differences(trainer_ranks.checkpoints(run.folder)[-1], expected) == []


@pytest.mark.parametrize("option", ["--sync-bn", "--gradient-compression=bf16", "--parallel=fsdp", "--bucket=5"])
def test_options_without_an_exact_order_are_rejected(tmp_path, option):
    text = trainer_ranks.run(tmp_path, *EXACT, option, ranks=1, code=64)
    assert text.startswith(f"rollcall: {option.split('=')[0]}: ") and "cannot be combined with --elastic-exact=4" in text


def test_other_virtual_ranks_are_rejected_as_another_training(tmp_path):
    trained(tmp_path, *EXACT, "--max-steps=2", ranks=2)
    options = [option for option in EXACT if not option.startswith("--elastic-exact")]
    text = trainer_ranks.run(tmp_path, *options, "--elastic-exact=2", "--batch-size=8", "--max-steps=3", ranks=2, code=76)
    assert "--elastic-exact was 4 and is 2" in text
