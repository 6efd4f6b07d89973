"""Images/s of this machine, training step of ResNet-50 or a TorchScript file, float32 channels-last: ours and Python's of the
same LibTorch, as one rank with two threads and as two DDP ranks with one thread each."""
import measure

parser = measure.parser(__doc__, runs=5)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--ranks", type=int, nargs="+", choices=(1, 2), default=(1, 2), help="only these numbers of ranks")
parser.add_argument("--script", help="a TorchScript file of 1000 classes instead of ResNet-50")
options = parser.parse_args()
build = options.build.resolve()
ours = [build / "benchmarks" / "train_step"]
peer = [measure.python(), measure.ROOT / "benchmarks" / "peer_train_step.py"]


def images_per_second(command, ranks, threads):
    arguments = [f"--batch-size={options.batch_size}", f"--image-size={options.image_size}", f"--threads={threads}",
                 f"--steps={options.steps}", *([f"--script={options.script}"] if options.script else [])]
    return measure.run_ranks(command + arguments, ranks, threads)["images_per_s"]


for ranks, threads in ((ranks, 2 // ranks) for ranks in options.ranks):
    results = measure.interleaved({
        "rollcall": lambda r=ranks, t=threads: images_per_second(ours, r, t),
        "python eager": lambda r=ranks, t=threads: images_per_second(peer, r, t),
    }, options.runs)
    title = f"{options.script or 'ResNet-50'} training, {ranks} rank(s) x {threads} thread(s), batch {options.batch_size}"
    measure.report(title, "images/s", results, ("rollcall", "python eager"), options.json)
