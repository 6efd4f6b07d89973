#!/usr/bin/env python3
"""What `rollcall-train --elastic-exact` costs beside plain DDP: the time of a step with the same images, and the memory of a rank.

    benchmarks/elastic/exact.py [--build=DIR] [--rounds=5] [--steps=12] [--model=resnet50] [--image-size=64] [--batch-size=4] [--json]

Two ranks; two and four virtual ranks, the latter beside plain DDP that accumulates two batches. Runs take turns; a run's time of a step is
the median of its steps but for the first two. Prints medians over the rounds, and the ratio of exact to plain."""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

CASES = {"2 virtual ranks": ("--elastic-exact=2",), "2 plain": (), "4 virtual ranks": ("--elastic-exact=4",),
         "4 plain": ("--grad-accumulation=2",)}


def measure(case, options):
    """Seconds of a step, and the most bytes that rank 0 held."""
    import trainer_ranks
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        trainer_ranks.run(path, f"--model={options.model}", f"--image-size={options.image_size}", f"--batch-size={options.batch_size}",
                          f"--max-steps={options.steps}", "--fake-size=4000", "--num-classes=1000", "--train-num-workers=1",
                          "--valid-num-workers=1", "--epochs=9", "--log-steps=1", "--lr=1e-6", "--valid-epochs=0", "--checkpoint-epochs=0",
                          "--progress=none", "--report=off", "--index-dir=none", "--rank-seconds=0", *CASES[case], ranks=2)
        records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    ends = [record["time"] for record in records if record["event"] == "step"][2:]
    times = [later - earlier for earlier, later in zip(ends, ends[1:])]
    return statistics.median(times), records[-1]["peak_memory_bytes_of_rank_0"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build/release"))
    for name, default in (("rounds", 5), ("steps", 12), ("image-size", 64), ("batch-size", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["ROLLCALL_BUILD_DIR"] = str(options.build)
    found = {case: [] for case in CASES}
    for _ in range(options.rounds):
        for case, measured in found.items():
            measured.append(measure(case, options))
    result = {case: {"step_seconds": statistics.median(seconds for seconds, _ in measured), "rank_bytes": max(held for _, held in measured)}
              for case, measured in found.items()}
    for ranks in (2, 4):
        result[f"ratio of {ranks}"] = result[f"{ranks} virtual ranks"]["step_seconds"] / result[f"{ranks} plain"]["step_seconds"]
    print(json.dumps(result) if options.json else "\n".join(f"{name:16} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
