"""Who takes part in compare_loaders.py: rollcall over each kind of file and type, and the Python peers."""
import dataclasses
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measure  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ["torchvision", "torchvision-v2", "dali", "ffcv", "spdl", "webdataset"]
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


@dataclasses.dataclass(frozen=True)
class Contestant:
    name: str
    command: list           # without what differs from run to run
    workers_option: str
    epochs_option: str
    prepare: object         # () -> {distribution: version}; raises Absent
    reads: tuple = ()       # cold runs: dropped from the page cache before the program starts
    cold_options: tuple = ()

    def arguments(self, workers, epochs, cold):
        # A program that drops its files itself, between epochs, needs a warm one first; ours is started on cold files.
        epochs = 1 if cold and self.reads else epochs
        return [*self.command, f"{self.workers_option}={workers}", f"{self.epochs_option}={epochs}",
                *(self.cold_options if cold else ())]


class Absent(Exception):
    """Why a contestant cannot take part."""


def all_contestants(options):
    contestants = [ours(options, kind, dtype) for dtype in DTYPES for kind in ("files", "packed", "repacked")]
    contestants += [peer(options, name) for name in PEERS]
    if not options.only:
        return contestants
    unknown = set(options.only) - {c.name for c in contestants}
    if unknown:
        sys.exit(f"compare_loaders: {' '.join(sorted(unknown))}: no such contestant; try {' '.join(c.name for c in contestants)}")
    return [c for c in contestants if c.name in options.only]


def peer_python():
    return measure.run([HERE / "setup-peers", "--print-python"]).strip()


def photos(options):
    """The tree that all read; made unless it is there."""
    mark = options.photos / "complete"
    if not mark.exists():
        measure.run([peer_python(), HERE / "make_photos.py", f"--out={options.photos}", f"--images={options.images}"])
        mark.write_text(f"{options.images}\n", encoding="ascii")
    elif int(mark.read_text(encoding="ascii")) != options.images:
        sys.exit(f"compare_loaders: {options.photos} has other than {options.images} images; try another --photos")


def ours(options, kind, dtype):
    trainer = options.build / "trainer" / "rollcall-train"
    data = options.photos if kind == "files" else options.photos / f"rollcall-{kind}"

    def prepare():
        if not trainer.exists():
            raise Absent(f"{trainer} is not built")
        if kind != "files":
            pack(options, data, ["--repack"] if kind == "repacked" else [])
        return {"rollcall-train": measure.run([trainer, "--version"]).strip().removeprefix("rollcall-train ")}

    return Contestant(f"rollcall-{kind}-{dtype}",
                      [trainer, "--benchmark-data", f"--data={data}", f"--batch-size={options.batch_size}",
                       f"--image-size={options.image_size}", f"--image-dtype={DTYPES[dtype]}", "--json"],
                      "--train-num-workers", "--benchmark-epochs", prepare,
                      reads=(data / "train" if kind == "files" else data,))


def pack(options, out, extra):
    """Anew for every comparison: a file of an older rollcall-pack would say nothing about this one."""
    program = options.build / "trainer" / "rollcall-pack"
    if not program.exists():
        raise Absent(f"{program} is not built")
    source = options.photos / "tree"
    source.mkdir(exist_ok=True)
    for part in ("train", "val"):  # DIR also holds what the contestants made of it
        if not (source / part).exists():
            (source / part).symlink_to(options.photos / part)
    if out in _packed:
        return
    measure.run([measure.ROOT / "scripts" / "own-folder", "empty", "compare_loaders", out])
    done = subprocess.run([program, *extra, "--overwrite", source, out], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Absent(last_line(done))
    _packed.add(out)


_packed = set()


def peer(options, name):
    command = [peer_python(), HERE / "peer_loader.py", f"--peer={name}", f"--data={options.photos}",
               f"--batch-size={options.batch_size}", f"--image-size={options.image_size}"]

    def prepare():
        if not pathlib.Path(command[0]).exists():
            raise Absent("not installed; try benchmarks/data/setup-peers")
        done = subprocess.run([*command, "--prepare"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Absent(last_line(done))
        return json.loads(done.stdout.splitlines()[-1])

    return Contestant(name, command, "--workers", "--epochs", prepare, cold_options=("--cold",))


def last_line(done):
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
