"""Short trainings on pictures of their own: their settings, and trees of files. Shared by tests of whole trainings; nothing here imports
torch, which takes seconds."""
import numpy
from PIL import Image

CLASSES = 8
# Small enough that a step takes less than a tenth of a second of one core. Residual branches begin at zero, which keeps a fresh network from
# amplifying the last bit of a weight by a thousand in a step.
SMALL = {"model": "resnet20", "image-size": 32, "batch-size": 8, "epochs": 2, "valid-epochs": 1, "log-steps": 3, "lr": 0.01,
         "lr-schedule": "none", "weight-decay": 0.01, "zero-init-residual": True}
# Pictures of the model's size (make_tree's `size`), never resized, flipped at random: both sides see the same bits, and then a
# training with SGD is equal to the last bit, whatever its precision and number of ranks.
SAME_BITS = {"crop-scale-min": 1.0, "crop-ratio-min": 1.0, "crop-ratio-max": 1.0, "valid-resize": 32}


def picture(random, label, size=None):
    """Smooth shapes with some noise, of a random size, tinted by class so that there is something to learn."""
    width, height = size or random.integers(36, 90, 2)
    small = random.integers(0, 200, (4, 5, 3), dtype=numpy.uint8)
    small[..., label % 3] //= 1 + label // 3
    array = numpy.asarray(Image.fromarray(small).resize((width, height), Image.BICUBIC)).astype(int)
    return Image.fromarray(numpy.clip(array + random.normal(0, 8, array.shape), 0, 255).astype(numpy.uint8))


def write_pictures(folder, count, random, size, classes=CLASSES):
    """JPEG and PNG, names and folders whose order is easily got wrong."""
    for label in range(classes):
        name = ["ape", "Bear", "cow 1", "cow 10", "cow 2", "d", "eel", "fox"][label % 8]
        (folder / name / "more").mkdir(parents=True)
        for i in range(count):
            stem = f"{i * 7 % 11}{'.JPG' if i % 3 == 1 else '.png' if i % 3 == 2 else '.jpeg'}"
            path = folder / name / ("more" if i % 4 == 3 else ".") / stem
            picture(random, label, size).save(path, format="PNG" if i % 3 == 2 else "JPEG", **({} if i % 3 == 2 else {"quality": 92}))


def make_tree(root, size=None, train=8, valid=3):
    """A class-per-folder tree with so many pictures of each class in train and val. With a size, all pictures have it."""
    random = numpy.random.default_rng(7)
    write_pictures(root / "train", train, random, size)
    write_pictures(root / "val", valid, random, size)
    return root


def text(value):
    if isinstance(value, bool):
        return "on" if value else "off"
    return repr(value) if isinstance(value, float) else str(value)


def options(settings):
    return [f"--{name}={text(value)}" for name, value in settings.items()]
