"""Peak resident memory of a rank by the number of ranks, on a stack of linear layers with Adam, whose memory is nearly all
parameters, gradients and moments: DDP holds four times the parameters whatever the ranks, FSDP 4/N of them."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure  # noqa: E402

parser = measure.parser(__doc__, runs=1)
parser.add_argument("--ranks", type=int, nargs="+", default=(1, 2, 4, 8))
parser.add_argument("--layers", type=int, default=32)
parser.add_argument("--width", type=int, default=1024)
options = parser.parse_args()
program = options.build.resolve() / "benchmarks" / "fsdp" / "parallel_step"
parameters = options.layers * (options.width + 1) * options.width * 4 / 1e6
common = [f"--layers={options.layers}", f"--width={options.width}", "--batch-size=4", "--steps=2", "--warmup=1"]

rows = []
for ranks in options.ranks:
    row = {"ranks": ranks}
    for name, fsdp in (("ddp", 0), ("fsdp", 1)):
        result = measure.run_ranks([program, f"--fsdp={fsdp}", *common], ranks)
        row[name] = result["peak_resident_mb"] - result["resident_before_mb"]
    rows.append(row)
if options.json:
    print(json.dumps({"benchmark": "peak resident memory", "unit": "MB", "parameters_mb": parameters, "rows": rows}))
else:
    print(f"{parameters:.0f} MB of parameters; MB that the training adds to a rank's peak")
    print(f"{'ranks':>6} {'DDP':>8} {'FSDP':>8} {'FSDP/DDP':>9}")
    for row in rows:
        print(f"{row['ranks']:6} {row['ddp']:8.0f} {row['fsdp']:8.0f} {row['fsdp'] / row['ddp']:9.2f}")
