"""ResNet-50 divided among ranks of one thread each: images/s of our FSDP, our DDP and PyTorch's fully_shard, interleaved in one
run, with what of the communication the computation did not hide: by how much a step takes longer than one of ranks that train side
by side and exchange nothing."""
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure  # noqa: E402

parser = measure.parser(__doc__, runs=3)
parser.add_argument("--batch-sizes", type=int, nargs="+", default=(16, 2))
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--ucx", action="store_true", help="our sides communicate over UCX instead of Gloo")
options = parser.parse_args()
ours = options.build.resolve() / "benchmarks" / "fsdp" / "parallel_step"
peer = [measure.python(), pathlib.Path(__file__).with_name("peer_fsdp_step.py")]

for batch in options.batch_sizes:
    common = [f"--batch-size={batch}", f"--image-size={options.image_size}", "--threads=1", f"--steps={options.steps}"]
    waits = []

    def own(*arguments):
        return measure.run_ranks([ours, *arguments, f"--ucx={int(options.ucx)}", *common], options.ranks)

    def fsdp():
        result = own("--fsdp=1")
        waits.append(result["waited_ms_per_step"] / result["ms_per_step"])
        return result["images_per_s"]

    results = measure.interleaved({
        "rollcall FSDP": fsdp,
        "rollcall DDP": lambda: own("--fsdp=0")["images_per_s"],
        "no exchange": lambda: own("--fsdp=0", "--exchange=0")["images_per_s"],
        "Python fully_shard": lambda: measure.run_ranks([*peer, *common], options.ranks)["images_per_s"],
    }, options.runs)
    title = f"ResNet-50, {options.ranks} ranks x 1 thread, batch {batch}, ours over {'UCX' if options.ucx else 'Gloo'}"
    for other in ("Python fully_shard", "rollcall DDP"):
        measure.report(title, "images/s", results, ("rollcall FSDP", other), options.json)
    if not options.json:
        for side in ("rollcall FSDP", "rollcall DDP"):
            longer = statistics.median(1 - a / b for a, b in zip(results[side], results["no exchange"]))
            print(f"  {side}: {100 * longer:.1f} % of a step is communication that the computation does not hide")
        print(f"  FSDP waits for communication during {100 * statistics.median(waits):.1f} % of a step")
