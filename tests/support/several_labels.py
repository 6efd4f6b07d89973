"""Pictures of several classes, in a list: each class is a colour that a part of a picture has."""
import numpy
import small_trainings
from PIL import Image

CLASSES = ["blue", "green", "red", "rare", "tall"]


def picture(random, names, size):
    """Noise, tinted by the classes."""
    width, height = (size[0] - 4, size[1] + 4) if "tall" in names and size != (32, 32) else size
    array = random.normal(90, 40, (height, width, 3))
    for channel, name in enumerate(("red", "green", "blue")):
        array[..., channel] += 70 if name in names else -30
    array[: height // 3] += 40 if "rare" in names else 0
    return Image.fromarray(numpy.clip(array, 0, 255).astype(numpy.uint8))


def make_list(folder, size=(32, 32), train=64, valid=27):
    """The path of a list with so many pictures. Some have no class, and no validation picture is `rare`."""
    folder.mkdir(parents=True, exist_ok=True)
    random, rows = numpy.random.default_rng(11), ["labels,path,split"]
    for i in range(train + valid):
        names = [name for name, p in zip(CLASSES, (0.5, 0.4, 0.6, 0.1 if i < train else 0, 0.3)) if random.random() < p]
        random.shuffle(names)
        picture(random, names, size).save(folder / f"{i}.png")
        rows.append(f"{' '.join(names)},{i}.png,{'train' if i < train else 'val'}")
    (folder / "list.csv").write_text("\n".join(rows) + "\n")
    return folder / "list.csv"


# What a training on such a list is, on pictures of which both sides see the same bits.
TRAINING = {**small_trainings.SMALL, **small_trainings.SAME_BITS, "loss": "multi-label", "optimizer": "sgd"}
