"""Kills -9 ranks of a training that lives on (--elastic) at random moments: one, two at once, or a second one while the
others meet again; N times. Each time the others must go on, and every step must be done: in the end the training must
have come to the bits of one that nobody disturbed. Prints what was killed, and how long it took until the next step."""
import argparse
import collections
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "support"))
import agents
import elastic_runs
import trainer_ranks

STEPS = 240
RANKS = 3
KIND_OF = {"exact": ("--elastic-exact=4",), "replicated": ("--parallel=fsdp", "--replicate-to=neighbour", "--replicate-steps=5")}
KINDS = ("one", "one", "one, then another while they meet", "two at once")


def options(parallel):
    saves = ("--checkpoint-steps=20",) if parallel == "fsdp" else ("--checkpoint-steps=50",)
    kind = KIND_OF.get(parallel, (f"--parallel={parallel}",))
    return (*elastic_runs.SMALL, *kind, f"--max-steps={STEPS}", "--epochs=1000", "--valid-epochs=4", *saves)


def victims(kind, pids, random_):
    """(pid, seconds after the one before)."""
    first, second = random_.sample(pids, 2)
    return {"one": [(first, 0)], "two at once": [(first, 0), (second, 0)]}.get(kind, [(first, 0), (second, random_.uniform(0.01, 0.3))])


def kill_and_measure_recovery(run, kind, random_):
    """Seconds from the last kill until a step was done after it; nothing where the run ended instead."""
    time.sleep(random_.uniform(0, 1))
    pids = run.workers()
    if len(pids) < RANKS:
        return None
    for pid, delay in victims(kind, pids, random_):
        time.sleep(delay)
        try:
            elastic_runs.kill(pid)
        except ProcessLookupError:
            return None  # it has finished, or was replaced
    killed = time.time()
    run.wait(lambda: run.agents[0].poll() is not None or any(r["time"] > killed for r in run.records("begin")))
    run.wait(lambda: run.agents[0].poll() is not None or any(r["time"] > killed for r in run.records("step")))
    after = [r["time"] for r in run.records("step") if r["time"] > killed]
    return min(after) - killed if after else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", choices=("ddp", "fsdp", *KIND_OF), default="ddp")
    arguments = parser.parse_args()
    random_ = random.Random(arguments.seed)
    seconds = collections.defaultdict(list)
    done, runs, from_memory, from_copies, from_files = 0, 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        expected = elastic_runs.Training(pathlib.Path(folder, "undisturbed"), *options(arguments.parallel), workers=RANKS)
        expected.start()
        expected.finish()
        while done < arguments.kills:
            runs += 1
            run = elastic_runs.Training(pathlib.Path(folder, str(runs)), *options(arguments.parallel), workers=RANKS,
                                        launch=("--max-restarts=100000", "--shutdown-timeout=20"))
            try:
                run.start()
                run.wait_for_step(2)
                while run.agents[0].poll() is None and done < arguments.kills:
                    kind = random_.choice(KINDS)
                    took = kill_and_measure_recovery(run, kind, random_)
                    if took is not None:
                        seconds[kind].append(took)
                        done += 1
                run.finish()
                missing = set(range(1, STEPS + 1)) - set(run.steps())
                assert len(missing) <= len(run.records("begin")), missing  # a rank 0 that dies may not have written its last
                different = trainer_ranks.differences(trainer_ranks.checkpoints(run.folder)[-1],
                                                      trainer_ranks.checkpoints(expected.folder)[-1])
                # Elsewhere BatchNorm's statistics are rank 0's, and may have gone with it; no step of training reads them.
                lost = "/" if arguments.parallel == "exact" else ("running_mean", "running_var")
                assert [name for name in different if name.startswith(("model/", "optimizer/")) and not name.endswith(lost)] == [], different
                from_memory += run.text().count("continues from the memory of rank")
                from_copies += run.text().count("continues from replicas")
                from_files += run.text().count("resumed from")
            finally:
                run.close()
    print(f"{done} kills of {arguments.parallel} trainings by {RANKS} ranks (seed {arguments.seed}), {runs} runs of {STEPS} steps: "
          f"all ended in the bits of a run that was not disturbed; went on {from_memory} times from memory, "
          f"{from_copies} from copies of neighbours, {from_files} from a file")
    assert from_copies > 0 or arguments.parallel != "replicated"
    for kind, times in sorted(seconds.items()):
        print(f"  {len(times):4d} {kind}: next step after {statistics.median(times):.2f} s (median), {max(times):.2f} s at most")
    assert not agents.living_in_sessions_with(folder)


if __name__ == "__main__":
    main()
