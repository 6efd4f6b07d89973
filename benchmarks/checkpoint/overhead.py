"""What saving in the background every 10 steps costs a training: seconds for the same steps with and without, interleaved."""
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure

parser = measure.parser(__doc__, runs=3)
parser.add_argument("--model", default="resnet50")
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--steps", type=int, default=20, help="measured steps, a multiple of 10; 3 more go before them")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()), help="on the file system to write to")
options = parser.parse_args()
TRAIN = options.build.resolve() / "trainer" / "rollcall-train"
WARM_UP = 3


def seconds(every):
    """From the end of the warm-up to the end of the last measured step; the run's final save comes after it."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        command = [TRAIN, f"--model={options.model}", f"--image-size={options.image_size}", f"--batch-size={options.batch_size}",
                   f"--max-steps={WARM_UP + options.steps + 1}", f"--checkpoint-steps={every}", "--checkpoint-epochs=0",
                   "--valid-epochs=0", "--progress=lines", "--log-steps=1", "--train-num-workers=1", f"--checkpoint-dir={folder}"]
        environment = {"OMP_NUM_THREADS": str(options.threads)}
        with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True, env={**measure.os.environ, **environment}) as run:
            ends = [time.monotonic() for line in run.stdout if line.startswith("epoch ")]
        assert run.returncode == 0
    return ends[WARM_UP + options.steps - 1] - ends[WARM_UP - 1]


results = measure.interleaved({"a save every 10 steps": lambda: seconds(10), "none": lambda: seconds(0)}, options.runs)
measure.report(f"{options.steps} steps of {options.model}, {options.image_size} x {options.image_size}, batch {options.batch_size}", "s",
               results, ("a save every 10 steps", "none"), options.json)
