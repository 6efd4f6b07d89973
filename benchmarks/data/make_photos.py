"""Writes photo-like JPEGs as image trees DIR/train/class_NN/NNNNNN.jpg and DIR/val, always the same ones for a seed.

About 500 x 375 pixels (a quarter of them upright), quality 90, 4:2:0, 80 KB each: a photo of scikit-learn's or scikit-image's
samples, cropped at random, blended with a second one, with light grain. Needs Pillow, numpy and the wheels' files:
benchmarks/data/setup-peers installs them.
"""
import argparse
import functools
import importlib.util
import json
import multiprocessing
import pathlib

import numpy
from PIL import Image

SAMPLES = {"sklearn": ["datasets/images/china.jpg", "datasets/images/flower.jpg"],
           "skimage": [f"data/{name}" for name in ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png",
                                                   "rocket.jpg", "retina.jpg", "hubble_deep_field.jpg")]}
QUALITY = 90
SUBSAMPLING_420 = 2


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="its folders train and val are written")
    p.add_argument("--images", type=int, default=2000, help="of train; val has a twentieth as many more")
    p.add_argument("--classes", type=int, default=10)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--samples", nargs="+", choices=list(SAMPLES), default=list(SAMPLES), help="packages whose photos these are made of")
    p.add_argument("--processes", type=int, default=2)
    options = p.parse_args()
    photos = options.images + max(options.classes, options.images // 20)
    for number in range(photos):
        photo_path(options, number).parent.mkdir(parents=True, exist_ok=True)
    with multiprocessing.Pool(options.processes) as pool:
        sizes = pool.map(functools.partial(write_photo, options), range(photos), chunksize=16)[:options.images]
    print(json.dumps({"images": len(sizes), "bytes": sum(sizes), "median_bytes": int(numpy.median(sizes)),
                      "p5_bytes": int(numpy.percentile(sizes, 5)), "p95_bytes": int(numpy.percentile(sizes, 95))}))


def photo_path(options, number):
    part = "train" if number < options.images else "val"
    return options.out / part / f"class_{number % options.classes:02d}" / f"{number:06d}.jpg"


def write_photo(options, number):
    random = numpy.random.default_rng((options.seed, number))  # of its own: the number of processes changes no photo
    width, height = (375, 500) if random.random() < 0.25 else (500, 375)
    width, height = width + int(random.integers(-20, 21)), height + int(random.integers(-20, 21))
    photo, ghost = (random_part(random, tuple(options.samples), width, height) for _ in range(2))
    share = random.uniform(0, 0.35)
    grain = random.normal(0, random.uniform(5, 12), (height, width, 1)).astype(numpy.float32)
    pixels = (photo * (1 - share) + ghost * share + grain).clip(0, 255).astype(numpy.uint8)
    path = photo_path(options, number)
    Image.fromarray(pixels).save(path, quality=QUALITY, subsampling=SUBSAMPLING_420)
    return path.stat().st_size


def random_part(random, packages, width, height):
    """A random crop of a random sample, resized to width x height and perhaps mirrored, as float32."""
    photos = samples(packages)
    photo = photos[random.integers(len(photos))]
    scale = random.uniform(0.55, 1.0) * min(photo.width / width, photo.height / height)
    crop_width, crop_height = int(width * scale), int(height * scale)
    left = random.integers(0, photo.width - crop_width + 1)
    top = random.integers(0, photo.height - crop_height + 1)
    part = photo.resize((width, height), Image.BICUBIC, box=(left, top, left + crop_width, top + crop_height))
    if random.random() < 0.5:
        part = part.transpose(Image.FLIP_LEFT_RIGHT)
    return numpy.asarray(part, numpy.float32)


@functools.cache
def samples(packages):
    """The photos, from the files of the packages: none is imported."""
    paths = []
    for package in packages:
        found = importlib.util.find_spec(package)
        if found is None:
            raise SystemExit(f"rollcall: make_photos: {package}: not installed; try benchmarks/data/setup-peers")
        paths += [pathlib.Path(found.submodule_search_locations[0], name) for name in SAMPLES[package]]
    return [Image.open(path).convert("RGB") for path in paths]


if __name__ == "__main__":
    main()
