"""The bundle's photos as training data of any size: a packed file in which they come over and over."""
import pathlib

from report import Failure

CLASSES = 10
MOST_PACKING = 120


def pack(machine, folder, images):
    """FOLDER/photos.h5 of so many images, re-encoded into tiles as a user would (rollcall-pack --repack)."""
    photos = sorted((machine.bundle / "photos").glob("*.jpg"))
    if not photos:
        raise Failure("the bundle has no photos; try scripts/gpu-check bundle, which makes them")
    tree, packed = pathlib.Path(folder, "photos"), pathlib.Path(folder, "photos.h5")
    for number in range(CLASSES):
        (tree / f"class_{number}").mkdir(parents=True)
    for number in range(images):
        (tree / f"class_{number % CLASSES}" / f"{number:06d}.jpg").symlink_to(photos[number % len(photos)])
    machine.run("rollcall-pack", "--repack", "--progress=none", tree, packed, seconds=MOST_PACKING)
    return packed
