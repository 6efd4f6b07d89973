"""Nodes come and go: 1, 2, 3, 2, 1 and so on, N times, in one training (--elastic --elastic-exact) of one rank a node. Nodes come by a
new agent, and go by KILL to their agent, the last that came first. In the end the training must have done every step, and have come to
the bits of one that nobody disturbed. Prints how long it took from each change to the next step."""
import argparse
import collections
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "support"))
import agents
import elastic_runs
import trainer_ranks

QUICK = "--rdzv-conf=last_call_timeout=1"
OPTIONS = (*elastic_runs.SMALL, "--elastic-exact=4", "--epochs=100000", "--checkpoint-steps=50")


def change(run, nodes):
    """One node more or less; seconds until a step was done by all that are there now."""
    before = len(run.records("begin"))
    begun = time.time()
    if nodes > len(living(run)):
        run.start(f"{QUICK},is_host=false")
    else:
        elastic_runs.kill(living(run)[-1].pid)
    run.wait(lambda: len(run.records("begin")) > before)
    world = run.records("begin")[-1]
    assert world["ranks"] == nodes, world
    run.wait(lambda: run.steps()[-1] > world["step"])
    return next(record["time"] for record in run.records("step") if record["step"] > world["step"]) - begun


def living(run):
    return [agent for agent in run.agents if agent.poll() is None]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100, help="at least so many for each walk")
    arguments = parser.parse_args()
    steps = arguments.walks * arguments.steps
    seconds = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        expected = elastic_runs.Training(pathlib.Path(folder, "undisturbed"), *OPTIONS, f"--max-steps={steps}", workers=1)
        expected.start()
        expected.finish(seconds=agents.DEADLINE + steps)
        run = elastic_runs.Training(pathlib.Path(folder, "run"), *OPTIONS, f"--max-steps={steps}", workers=1,
                                    endpoint=f"127.0.0.1:{agents.free_port()}",
                                    launch=("--nnodes=1:3", "--max-restarts=100000", "--give-up-after=100000", QUICK))
        try:
            run.start()
            run.wait_for_step(2)
            for _ in range(arguments.walks):
                for before, after in ((1, 2), (2, 3), (3, 2), (2, 1)):
                    seconds[f"{before} -> {after}"].append(change(run, after))
            assert run.steps()[-1] < steps, "the training ended before the last walk: try more --steps"
            run.finish(seconds=agents.DEADLINE + steps)
        finally:
            run.close()
        missing = set(range(1, steps + 1)) - set(run.steps())
        assert not missing, missing
        different = [name for name in trainer_ranks.differences(trainer_ranks.checkpoints(run.folder)[-1],
                                                                trainer_ranks.checkpoints(expected.folder)[-1]) if not name.startswith("rng/")]
        assert different == [], different
        print(f"{arguments.walks} walks 1 -> 2 -> 3 -> 2 -> 1, {steps} steps: none left out, in the end the bits of an undisturbed training")
    for kind, times in seconds.items():
        print(f"  {kind}: next step after {statistics.median(times):.2f} s (median), {max(times):.2f} s at most")


if __name__ == "__main__":
    main()
