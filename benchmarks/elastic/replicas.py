#!/usr/bin/env python3
"""What --replicate-to=neighbour costs and what a lost rank costs with it: `rollcall-train --elastic --parallel=fsdp` with a copy after every
step, with one after every tenth and without, in turns.

    benchmarks/elastic/replicas.py [--build=DIR] [--model=resnet50] [--ranks=2] [--steps=40] [--rounds=3] [--kills=10] [--json]

Prints the median seconds of a step of each kind and their ratio to those without copies, a rank's part in bytes, the median seconds until all
neighbours had their part and those that training waited; and, for a small model, the median seconds from a kill -9 of one of three ranks to the
next step, and the finished steps that were done again."""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT)]

KINDS = {"none": (), "every tenth": ("--replicate-to=neighbour", "--replicate-steps=10"),
         "every step": ("--replicate-to=neighbour", "--replicate-steps=1")}


def measure(elastic_runs, options, folder, replicas):
    """Seconds of the steps, but for the first five, and the records of copies."""
    run = elastic_runs.Training(folder, *elastic_runs.SMALL, f"--model={options.model}", f"--max-steps={options.steps}", "--epochs=100000",
                                "--parallel=fsdp", *replicas, workers=options.ranks)
    try:
        run.start()
        run.finish()
        return [record["seconds"] for record in run.records("step")][5:], run.records("replica")
    finally:
        run.close()


def costs(elastic_runs, options, folder):
    seconds, copies = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
    for number in range(options.rounds):
        for kind, replicas in KINDS.items():
            steps, records = measure(elastic_runs, options, folder / f"{kind}-{number}", replicas)
            seconds[kind].append(statistics.median(steps))
            copies[kind] += records
    median = {kind: statistics.median(of) for kind, of in seconds.items()}
    told = {}
    for kind in KINDS:
        told[kind] = {"step_seconds": round(median[kind], 4), "ratio": round(median[kind] / median["none"], 3)}
        if copies[kind]:
            told[kind] |= {"copies": len(copies[kind]), "bytes_of_rank_0": copies[kind][-1]["bytes"],
                           "copy_seconds": round(statistics.median(record["seconds"] for record in copies[kind]), 4),
                           "stall_seconds": round(statistics.median(record["stall_seconds"] for record in copies[kind]), 5)}
    return told


def kills(elastic_runs, options, folder):
    chance = random.Random(1)
    run = elastic_runs.Training(folder, *elastic_runs.SMALL, "--max-steps=100000000", "--epochs=1000000", "--parallel=fsdp",
                                *KINDS["every tenth"], workers=3, launch=("--max-restarts=1000000",))
    seconds, again = [], []
    try:
        run.start()
        for number in range(options.kills):
            run.wait_for_standby()
            begun = run.steps()[-1] if run.steps() else 0
            run.wait_for_step(begun + 12)
            time.sleep(chance.uniform(0, 0.5))
            victim = chance.choice(run.workers()[1:])  # rank 0's records tell what was finished
            killed = time.time()
            elastic_runs.kill(victim)
            run.wait(lambda: len(run.records("regrouped")) == number + 1)
            record = run.records("regrouped")[-1]
            before = max(step["step"] for step in run.records("step") if step["time"] < record["time"] - record["first_step_seconds"])
            seconds.append(record["time"] - killed)
            again.append(before - (record["step"] - 1))
    finally:
        run.close()
    return {"kills": len(seconds), "median_seconds": round(statistics.median(seconds), 3), "most_seconds": round(max(seconds), 3),
            "steps_done_again": {"median": statistics.median(again), "most": max(again)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["ROLLCALL_BUILD_DIR"] = options.build
    import elastic_runs  # reads where the programs are
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        result = {"costs": costs(elastic_runs, options, folder)}
        if options.kills:
            result["a lost rank"] = kills(elastic_runs, options, folder / "kills")
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
