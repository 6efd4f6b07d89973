#!/usr/bin/env python3
"""Seconds until all ranks of a node have opened a data set, and the memory that its index takes on the node.

A tree of empty files in 1000 classes (--kind=tree), or tar shards of small pictures with labels (--kind=shards), made below --folder
unless it is there. Three ways, interleaved: every rank for itself; rank 0 for all; rank 0 with an index that an earlier run kept.
With --peer, torchvision's ImageFolder lists the tree too, once for each rank at the same time, as a training with torchrun does.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure  # noqa: E402

CLASSES = 1000


def read_options():
    p = measure.parser(__doc__, runs=3)
    p.add_argument("--kind", choices=("tree", "shards"), default="tree")
    p.add_argument("--images", type=int, default=1_000_000)
    p.add_argument("--picture-bytes", type=int, default=5000, help="of each picture in a shard")
    p.add_argument("--ranks", type=int, default=8)
    p.add_argument("--folder", type=pathlib.Path, default=measure.ROOT / "build" / "open-data")
    p.add_argument("--peer", action="store_true")
    return p.parse_args()


def make_tree(root, images, _):
    for i in range(CLASSES):
        folder = root / f"n{i:08}"
        folder.mkdir(parents=True)
        for k in range(images // CLASSES):
            os.close(os.open(folder / f"n{i:08}_{k * 7919 % 1000003}.JPEG", os.O_CREAT | os.O_WRONLY, 0o644))


def make_shards(root, images, picture_bytes):
    """Of 10,000 pictures each."""
    for shard in range(images // 10_000):
        with open(root / f"shard-{shard:06}.tar", "wb") as out:
            for k in range(10_000):
                for ending, content in (("jpg", b"\xff\xd8" + bytes(picture_bytes)), ("cls", b"%d" % (k % CLASSES))):
                    info = tarfile.TarInfo(f"{shard:06}{k:06}.{ending}")
                    info.size = len(content)
                    out.write(info.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512))
            out.write(bytes(1024))


def own_folder(action, folder):
    subprocess.run([measure.ROOT / "scripts" / "own-folder", action, "open_data", folder], check=True)


def make_data(options):
    root = options.folder / f"{options.kind}-{options.images}"
    if not root.exists():
        print(f"making {root}", file=sys.stderr, flush=True)
        making = root.with_suffix(".making")
        own_folder("empty", making)
        {"tree": make_tree, "shards": make_shards}[options.kind](making, options.images, options.picture_bytes)
        making.rename(root)
        time.sleep(1.1)  # an index of data from just now is not kept
    return root


def environment(rank, ranks, folder):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_", "ROLLCALL_"))}
    world = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1",
             "ROLLCALL_RENDEZVOUS": "file", "ROLLCALL_RENDEZVOUS_FOLDER": folder, "GLOO_SOCKET_IFNAME": "lo"} if ranks > 1 else {}
    return {**inherited, **{k: str(v) for k, v in world.items()}}


def of_ranks(command, options, together):
    """(seconds until the last is ready, bytes on the node, largest rank): together as one world, or each by itself."""
    worlds = [(rank, options.ranks) if together else (0, 1) for rank in range(options.ranks)]
    processes = [subprocess.Popen([str(c) for c in command], env=environment(*world, options.folder), stdout=subprocess.PIPE, text=True)
                 for world in worlds]
    lines = [process.communicate()[0].split() for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{command} failed")
    assert all(abs(int(line[3]) - options.images) <= options.images * 0.06 for line in lines), lines
    return max(float(line[0]) for line in lines), sum(int(line[1]) for line in lines), max(int(line[2]) for line in lines)


PEER = """
import resource, sys, time
import torchvision
def bytes_now():
    return [int(line.split()[1]) * 1024 for line in open('/proc/self/smaps_rollup') if line.startswith('Pss:')][0]
before, began = bytes_now(), time.monotonic()
data = torchvision.datasets.ImageFolder(sys.argv[1])
print(time.monotonic() - began, bytes_now() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, len(data))
"""


def main():
    options = read_options()
    root = make_data(options)
    program = options.build / "benchmarks" / "data" / "open_data"
    kept = options.folder / "kept"
    own_folder("empty", kept)
    ways = {"each rank for itself": lambda: of_ranks([program, f"--data={root}"], options, False),
            "rank 0 for all": lambda: of_ranks([program, f"--data={root}"], options, True),
            "rank 0, with an index kept": lambda: of_ranks([program, f"--data={root}", f"--index-dir={kept}"], options, True)}
    if options.peer:
        ways["torchvision.datasets.ImageFolder"] = lambda: of_ranks([measure.python(), "-c", PEER, root], options, False)
    results = measure.interleaved(ways, options.runs)
    print(f"{options.kind} of {options.images} images, {options.ranks} ranks on {os.cpu_count()} CPUs; median of {options.runs}")
    for name, runs in results.items():
        seconds, memory, largest = (statistics.median(run[i] for run in runs) for i in range(3))
        print(f"  {name:34} {seconds:9.2f} s   {memory / 2**20:9.0f} MiB on the node   {largest / 2**20:7.0f} MiB peak of a rank")
    if any(kept.iterdir()):
        print(f"  an index file has {sum(path.stat().st_size for path in kept.iterdir()) / options.images:.1f} bytes an image")


if __name__ == "__main__":
    main()
