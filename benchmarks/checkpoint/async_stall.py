"""ResNet-50 + AdamW (307 MB): how long a training stands still for a save in the background, and when the file is durable.
rollcall-train between two steps of a real training against torch.distributed.checkpoint.async_save, interleaved."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure

parser = measure.parser(__doc__, runs=5)
parser.add_argument("--image-size", type=int, default=64, help="of the steps during which the state is copied")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()), help="on the file system to write to")
options = parser.parse_args()

PEER = pathlib.Path(__file__).parent / "peer_async_save.py"
TRAIN = options.build.resolve() / "trainer" / "rollcall-train"


def ours(read_back):
    """The save of step 16: buffers exist since that of step 8, which is durable long before; the one of step 30 comes after it is durable."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure.run([TRAIN, "--model=resnet50", f"--image-size={options.image_size}", f"--batch-size={options.batch_size}", "--max-steps=30",
                     "--checkpoint-steps=8", "--keep-last=2", "--checkpoint-overlap=wait", "--valid-epochs=0", "--checkpoint-epochs=0",
                      "--progress=none",
                     f"--checkpoint-read-back={read_back}", f"--checkpoint-dir={folder}"])
        saves = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return next(save for save in saves if save["event"] == "checkpoint" and save["step"] == 16)


def peer():
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        return json.loads(measure.run([measure.python(), PEER, folder, str(options.image_size), str(options.batch_size)]))


SIDES = {"rollcall": lambda: ours("memory"), "rollcall, read back from the device": lambda: ours("device"), "torch.distributed.checkpoint": peer}
found = {name: [] for name in SIDES}


def collect(name):
    found[name].append(SIDES[name]())
    return found[name][-1]["stall_seconds"]


stalls = measure.interleaved({name: lambda name=name: collect(name) for name in SIDES}, options.runs)
both = ("torch.distributed.checkpoint", "rollcall")
measure.report("stall of the training", "ms", {name: [1000 * s for s in v] for name, v in stalls.items()}, both, options.json)
durable = {name: [save["durable_seconds"] for save in saves[1:]] for name, saves in found.items()}
measure.report("from the call until the file is durable", "s", durable, both, options.json)
