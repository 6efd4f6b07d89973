#!/usr/bin/env python3
"""How steady the quickstart's training is: the recipe `digits` with one seed after the other, on four ranks of this machine.

    benchmarks/digits_seeds.py [--build=DIR] [--seeds=20] [--ranks=4] [--json] [TRAINER-OPTION...]

TRAINER-OPTIONs come last and so win; --recipe=none trains without the recipe. Prints for each seed the top-1 accuracy of the last validation
and the seconds of the training, then the worst, mean and best, and the median time."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))


def train(digits, options, ranks, seed):
    """(top-1 of the last validation, images in it, seconds) of a training."""
    import trainer_ranks
    with tempfile.TemporaryDirectory() as folder:
        path, begin = pathlib.Path(folder), time.monotonic()
        trainer_ranks.finish(trainer_ranks.start(path, f"--data={digits}", "--recipe=digits", "--progress=none", "--report=off",
                                                 "--train-num-workers=1", *options, f"--seed={seed}", ranks=ranks), seconds=3600)
        seconds = time.monotonic() - begin
        records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    last = [record for record in records if record["event"] == "validation"][-1]
    return last["top1"], last["samples"], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build/release"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options, of_trainer = parser.parse_known_args()
    os.environ["ROLLCALL_BUILD_DIR"] = str(options.build)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ROOT / "scripts" / "make-digits", f"{folder}/digits"], check=True, stdout=subprocess.DEVNULL)
        for seed in range(options.seeds):
            top1, images, seconds = train(f"{folder}/digits", of_trainer, options.ranks, seed)
            found[seed] = {"top1": top1, "wrong": round(images * (1 - top1)), "seconds": seconds}
            if not options.json:
                print(f"seed {seed:2}  top-1 {100 * top1:6.2f} %  {found[seed]['wrong']:2} of {images} wrong  {seconds:5.1f} s", flush=True)
    tops = [each["top1"] for each in found.values()]
    result = {"worst": min(tops), "mean": statistics.mean(tops), "best": max(tops),
              "seconds": statistics.median(each["seconds"] for each in found.values())}
    print(json.dumps({**result, "seeds": found}) if options.json else
          f"worst {100 * result['worst']:.2f} %, mean {100 * result['mean']:.2f} %, best {100 * result['best']:.2f} %; "
          f"median {result['seconds']:.1f} s")


if __name__ == "__main__":
    main()
