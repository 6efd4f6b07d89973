"""Runs one Python peer over an image tree and prints one JSON line: images/s and images per second of CPU time.

The first epoch (workers start, code is compiled) is not counted. With --check: tries every peer on a few photos.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import page_cache
import peers
import process_tree


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--peer", choices=peers.PEERS)
    p.add_argument("--data", type=pathlib.Path, metavar="DIR", help="tree of make_photos.py: DIR/train is read")
    p.add_argument("--scratch", type=pathlib.Path, metavar="DIR", help="where a peer's own format is kept [DATA/peers]")
    p.add_argument("--workers", type=int, default=0, help="processes or threads; 0: in the caller")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--epochs", type=int, default=3, help="the first is not counted")
    p.add_argument("--cold", action="store_true", help="drop the files from the page cache before each counted epoch")
    p.add_argument("--prepare", action="store_true", help="write the peer's own format, load nothing, print the versions")
    p.add_argument("--check", action="store_true", help="try every peer on a few photos, and say which run")
    options = p.parse_args()
    if options.check:
        check_all()
        return
    if not (options.peer and options.data and options.epochs > 1):
        p.error("--peer and --data are needed, and two epochs; or --check")
    result = prepare(options) if options.prepare else measure(options)
    print(json.dumps(result), flush=True)
    os._exit(0)  # FFCV and its compiler sometimes wait for each other forever while Python shuts down


def scratch_folder(options):
    return options.scratch or options.data / "peers"


def loader(options):
    make, _ = peers.PEERS[options.peer]
    return make(peers.Work(options.data / "train", scratch_folder(options), options.workers, options.batch_size, options.image_size))


def prepare(options):
    loader(options)
    return versions(options)


def versions(options):
    _, distributions = peers.PEERS[options.peer]
    return {name: importlib.metadata.version(name) for name in distributions}


def measure(options):
    torch.set_num_threads(1)  # each worker is one thread
    batches = loader(options)
    epochs, cached = [], []
    for number in range(options.epochs):
        if options.cold and number > 0:
            page_cache.drop(options.data / "train", scratch_folder(options))
            cached.append(page_cache.cached_share(options.data / "train", scratch_folder(options)))
        epochs.append(one_epoch(batches, options.image_size))
    counted = epochs[1:]
    result = {"peer": options.peer, "workers": options.workers, "images": sum(e["images"] for e in counted),
              "images_per_second": statistics.median(e["images"] / e["seconds"] for e in counted),
              "images_per_cpu_second": statistics.median(e["images"] / e["cpu_seconds"] for e in counted),
              "seconds": sum(e["seconds"] for e in counted), "cpu_seconds": sum(e["cpu_seconds"] for e in counted),
              "epochs": epochs, "versions": versions(options)}
    if options.cold:
        result["cached_before_epochs"] = cached
    return result


def one_epoch(batches, image_size):
    images = 0
    began, cpu_before = time.monotonic(), process_tree.cpu_seconds(process_tree.descendants(os.getpid()))
    for pixels, *_ in batches:
        assert pixels.dtype == torch.float32 and pixels.shape[1:] == (3, image_size, image_size), (pixels.dtype, pixels.shape)
        images += pixels.shape[0]
    seconds = time.monotonic() - began
    return {"images": images, "seconds": seconds,
            "cpu_seconds": process_tree.cpu_seconds(process_tree.descendants(os.getpid())) - cpu_before}


def check_all():
    """Each in a process of its own: a library that crashes takes nobody with it."""
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        subprocess.run([sys.executable, here / "make_photos.py", f"--out={folder}", "--images=128", "--classes=2"],
                       check=True, stdout=subprocess.DEVNULL)
        for name in peers.PEERS:
            done = subprocess.run([sys.executable, __file__, f"--peer={name}", f"--data={folder}", "--epochs=2"],
                                  capture_output=True, text=True, check=False)
            print(f"{name:16} {verdict(done)}", flush=True)


def verdict(done):
    if done.returncode != 0:
        return "does not run: " + (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    versions = json.loads(done.stdout.splitlines()[-1])["versions"]
    return "runs: " + ", ".join(f"{name} {version}" for name, version in versions.items())


if __name__ == "__main__":
    main()
