#!/usr/bin/env python3
"""What a step costs more where much is told of it: histograms for TensorBoard and a trace, each of every step, beside steps of which only
metrics.jsonl tells. Of histograms at an interval N a step costs an Nth of that."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure  # noqa: E402

parser = measure.parser(__doc__, runs=5)
parser.add_argument("--model", default="resnet50")
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--image-size", type=int, default=64)
parser.add_argument("--steps", type=int, default=12, help="of each run, of which the first two are not counted")
parser.add_argument("--records", action="store_true", help="only what a record of metrics.jsonl costs")
options = parser.parse_args()
TRAINER = options.build.resolve() / "trainer" / "rollcall-train"
SIDES = {"metrics.jsonl alone": [], "and TensorBoard": ["--tensorboard"],
         "and histograms of every step": ["--tensorboard", "--tensorboard-histograms=1"],
         "and a trace of every step": [f"--trace-steps=1-{options.steps}"]}


def milliseconds_a_step(more):
    """The median step of a run by itself."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([TRAINER, "--data=fake", f"--fake-size={options.batch_size * options.steps}", f"--model={options.model}",
                        f"--batch-size={options.batch_size}", f"--image-size={options.image_size}", f"--max-steps={options.steps}",
                        "--valid-epochs=0", "--checkpoint-epochs=0", "--log-steps=1", "--progress=none", "--report=off",
                        f"--checkpoint-dir={folder}", *more], check=True, stdout=subprocess.DEVNULL)
        records = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return 1e3 * statistics.median(record["seconds"] for record in records if record["event"] == "step" and record["step"] > 2)


def microseconds_a_record():
    """What a record of every step costs: small steps with and without, in turn; the median of the differences."""
    def seconds_a_step(log_steps):
        steps = 2000
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([TRAINER, "--data=fake", f"--fake-size={steps}", "--model=resnet20", "--batch-size=1", "--image-size=8",
                            f"--max-steps={steps}", "--valid-epochs=0", "--checkpoint-epochs=0", f"--log-steps={log_steps}",
                            "--progress=none", "--report=off", f"--checkpoint-dir={folder}"], check=True, stdout=subprocess.DEVNULL)
            times = {record["event"]: record["time"] for record in
                     map(json.loads, (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines())}
        return (times["end"] - times["begin"]) / steps
    differences = sorted(1e6 * (seconds_a_step(1) - seconds_a_step(10**6)) for _ in range(options.runs))
    print(f"a record of every step: {differences[0]:.0f} / {statistics.median(differences):.0f} / {differences[-1]:.0f} us "
          f"(min / median / max of {options.runs})")


def main():
    if options.records:
        microseconds_a_record()
        return
    results = measure.interleaved({name: lambda more=more: milliseconds_a_step(more) for name, more in SIDES.items()}, options.runs)
    base, *others = SIDES
    title = f"a step of {options.model}, batch {options.batch_size}, {options.image_size} pixels"
    for name in others:
        measure.report(title, "ms", {base: results[base], name: results[name]}, (name, base), options.json)


main()
