"""What becomes of an image: Pillow decodes, torchvision crops, resizes and changes it; the draws are rollcall's documented ones."""
import csv
import math
import pathlib

import numpy
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from . import order
from .random_numbers import AUGMENTATION, BATCH_MIX, FAKE_LABEL, FAKE_PIXELS, Random

OPERATIONS = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness",
              "Posterize", "Solarize", "AutoContrast", "Equalize"]


def channels(settings):
    """Mean and standard deviation of each channel."""
    return ([float(value) for value in settings[name].split(",")] for name in ("mean", "std"))


def normalised(levels, settings):
    """[3][h][w] levels 0 ... 255 to what the model sees: scaled and shifted in one rounding."""
    means, deviations = channels(settings)
    scale = torch.tensor([1 / (255 * d) for d in deviations], dtype=torch.float32).double()
    bias = torch.tensor([-m / d for m, d in zip(means, deviations)], dtype=torch.float32).double()
    return (levels.double() * scale[:, None, None] + bias[:, None, None]).float()


def load(path, settings):
    picture = Image.open(path)
    if settings["exif-orientation"]:
        picture = ImageOps.exif_transpose(picture)
    return functional.pil_to_tensor(picture.convert("RGB"))


def random_crop(random, height, width, settings):
    """(top, left, height, width) as torchvision's RandomResizedCrop chooses it."""
    low, high = settings["crop-ratio-min"], settings["crop-ratio-max"]
    for _ in range(10):
        target = height * width * random.uniform(settings["crop-scale-min"], settings["crop-scale-max"])
        ratio = math.exp(random.uniform(math.log(low), math.log(high)))
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            top, left = random.below(height - h + 1), random.below(width - w + 1)
            return top, left, h, w
    w, h = width, height
    if width / height < low:
        h = min(max(round(width / low), 1), height)
    elif width / height > high:
        w = min(max(round(height * high), 1), width)
    return (height - h) // 2, (width - w) // 2, h, w


def policy_operation(levels, policy, name, bin_, random):
    magnitudes, signed = policy._AUGMENTATION_SPACE[name]
    values = magnitudes(31, levels.shape[1], levels.shape[2])
    magnitude = float(values[bin_]) if values is not None and values.ndim > 0 else 0.0
    if signed and random.below(2) == 0:
        magnitude = -magnitude
    return policy._apply_image_or_video_transform(levels, name, magnitude, "nearest", {})


TIMM = ["AutoContrast", "Equalize", "Invert", "Rotate", "PosterizeIncreasing", "SolarizeIncreasing", "SolarizeAdd", "ColorIncreasing",
        "ContrastIncreasing", "BrightnessIncreasing", "SharpnessIncreasing", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"]


def timms_operation(image, name, level, negative, resample, fill=(124, 116, 104)):
    """timm.data.auto_augment (1.0.31) at this level and sign, on Pillow."""
    part, sign = level / 10, -1 if negative else 1
    factor = max(0.1, 1 + sign * part * 0.9)

    def moved(*matrix):
        return image.transform(image.size, Image.Transform.AFFINE, matrix, resample=resample, fillcolor=fill)
    return {
        "AutoContrast": lambda: ImageOps.autocontrast(image), "Equalize": lambda: ImageOps.equalize(image),
        "Invert": lambda: ImageOps.invert(image),
        "Rotate": lambda: image.rotate(sign * part * 30, resample=resample, fillcolor=fill),
        "PosterizeIncreasing": lambda: ImageOps.posterize(image, 4 - int(part * 4)),
        "SolarizeIncreasing": lambda: ImageOps.solarize(image, 256 - min(256, int(part * 256))),
        "SolarizeAdd": lambda: image.point([min(255, i + min(128, int(part * 110))) if i < 128 else i for i in range(256)] * 3),
        "ColorIncreasing": lambda: ImageEnhance.Color(image).enhance(factor),
        "ContrastIncreasing": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "BrightnessIncreasing": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "SharpnessIncreasing": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "ShearX": lambda: moved(1, sign * part * 0.3, 0, 0, 1, 0), "ShearY": lambda: moved(1, 0, 0, sign * part * 0.3, 1, 0),
        "TranslateXRel": lambda: moved(1, 0, sign * part * 0.45 * image.size[0], 0, 1, 0),
        "TranslateYRel": lambda: moved(1, 0, 0, 0, 1, sign * part * 0.45 * image.size[1])}[name]()


def timms_moving(settings):
    """How moved pixels are resampled, and the colour of those from outside."""
    means, _ = channels(settings)
    resample = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}[settings["interpolation"]]
    return resample, tuple(round(255 * mean) for mean in means)


def timm_augmented(levels, settings, random):
    """timm's rand-mM-nN-mstdX-inc1 with our draws."""
    image = functional.to_pil_image(levels)
    resample, fill = timms_moving(settings)
    for _ in range(settings["randaugment-ops"]):
        name = TIMM[random.below(15)]
        if random.below(2) == 0:
            continue
        level = settings["randaugment-magnitude"] + settings["randaugment-mstd"] * float(random.normals(2)[0])
        negative = random.below(2) == 0
        image = timms_operation(image, name, min(max(level, 0.0), 10.0), negative, resample, fill)
    return functional.pil_to_tensor(image)


def augmix(levels, settings, random):
    """timm's AugMixAugment (1.0.31), augmix-m3-w3, with our draws: _apply_basic() after _apply_chain's operations."""
    image = functional.to_pil_image(levels)
    names = [name for name in TIMM if name not in ("Invert", "SolarizeAdd")]
    draws = [-math.log(1 - random.uniform()) for _ in range(3)]  # exponential ones, whose shares are Dirichlet(1, 1, 1)
    weights, part = numpy.float32(numpy.array(draws) / sum(draws)), random.uniform()
    mixed = numpy.zeros((image.size[1], image.size[0], 3), numpy.float32)
    for weight in weights:
        changed = image
        for _ in range(1 + random.below(3)):
            name, level = names[random.below(13)], random.uniform(0, 3)
            changed = timms_operation(changed, name, level, random.below(2) == 0, *timms_moving(settings))
        mixed += weight * numpy.asarray(changed, numpy.float32)
    other = Image.fromarray(numpy.clip(mixed, 0, 255).astype(numpy.uint8))
    return functional.pil_to_tensor(Image.blend(image, other, part))


def three_augment(levels, random):
    """deit's augment.py, new_data_aug_generator(): one of its gray_scale, Solarization and GaussianBlur."""
    image, which = functional.to_pil_image(levels), random.below(3)
    if which == 0:
        return functional.pil_to_tensor(image.convert("L").convert("RGB"))
    image = ImageOps.solarize(image) if which == 1 else image.filter(ImageFilter.GaussianBlur(radius=random.uniform(0.1, 2.0)))
    return functional.pil_to_tensor(image)


def auto_augmented(levels, settings, random):
    if settings["auto-augment"] == "randaugment-timm":
        return timm_augmented(levels, settings, random)
    if settings["auto-augment"] == "augmix":
        return augmix(levels, settings, random)
    if settings["auto-augment"] == "3-augment":
        return three_augment(levels, random)
    if settings["auto-augment"] == "randaugment":
        for _ in range(settings["randaugment-ops"]):
            name = OPERATIONS[random.below(14)]
            levels = policy_operation(levels, v2.RandAugment(), name, settings["randaugment-magnitude"], random)
    elif settings["auto-augment"] == "trivial":
        name = OPERATIONS[random.below(14)]
        levels = policy_operation(levels, v2.TrivialAugmentWide(), name, random.below(31), random)
    return levels


def jittered(levels, settings, random):
    """torchvision's ColorJitter on uint8. All four factors are drawn whatever is on."""
    order_ = ["brightness", "contrast", "saturation", "hue"]
    for left in range(4, 1, -1):
        j = random.below(left)
        order_[left - 1], order_[j] = order_[j], order_[left - 1]
    factors = {name: random.uniform(max(0.0, 1 - settings[name]), 1 + settings[name]) for name in ("brightness", "contrast", "saturation")}
    factors["hue"] = random.uniform(-settings["hue"], settings["hue"])
    for name in order_:
        if settings[name] > 0:
            levels = getattr(functional, f"adjust_{name}")(levels, factors[name])
    return levels


def erased(image, settings, random):
    """torchvision's RandomErasing after the normalisation: 0 or normal draws, row by row, channels innermost."""
    if random.uniform() >= settings["random-erase"]:
        return image
    height, width = image.shape[1:]
    for _ in range(10):
        area = height * width * random.uniform(0.02, 0.33)
        ratio = math.exp(random.uniform(math.log(0.3), math.log(3.3)))
        h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if h < height and w < width:
            top, left = random.below(height - h + 1), random.below(width - w + 1)
            for y in range(top, top + h):
                row = random.normals(3 * w) if settings["random-erase-value"] == "random" else numpy.zeros(3 * w, numpy.float32)
                image[:, y, left : left + w] = torch.from_numpy(row.reshape(w, 3).T.copy())
            return image
    return image


def as_levels(image):
    return image.round().clamp(0, 255)


def size_in(epoch, settings):
    """FFCV's get_resolution() (rn50, train_imagenet.py), within the two sizes."""
    if settings["image-size-schedule"] == "none":
        return settings["image-size"]
    smallest, begin, end = (float(value) for value in settings["image-size-schedule"].split(","))
    if epoch >= end:
        return settings["image-size"]
    size = numpy.interp(epoch, [begin, end], [smallest, settings["image-size"]]) if epoch > begin else smallest
    return int(numpy.clip(numpy.round(size / 32) * 32, smallest, settings["image-size"])) if epoch > begin else int(smallest)


def training_image(levels, settings, random, size):
    top, left, h, w = random_crop(random, levels.shape[1], levels.shape[2], settings)
    flip = random.uniform() < settings["flip"]
    vertical = settings["vertical-flip"] > 0 and random.uniform() < settings["vertical-flip"]
    mode = v2.InterpolationMode(settings["interpolation"])
    image = functional.resized_crop(levels.float(), top, left, h, w, [size, size], mode, antialias=True)
    image = as_levels(image) if settings["interpolation"] == "bicubic" else image
    image = image.flip(2) if flip else image
    image = image.flip(1) if vertical else image
    jitter = any(settings[name] > 0 for name in ("brightness", "contrast", "saturation", "hue"))
    if settings["auto-augment"] != "none" or jitter:
        image = as_levels(image).to(torch.uint8)
        image = auto_augmented(image, settings, random)
        image = jittered(image, settings, random) if jitter else image
    image = normalised(image, settings)
    return erased(image, settings, random) if settings["random-erase"] > 0 else image


def validation_image(levels, settings):
    size = settings["valid-image-size"] or settings["image-size"]
    shorter = settings["valid-resize"] or (size * 256 + 112) // 224
    # Antialiased without a rounding to levels, as the loader does it: one rounding for resize, crop and normalisation.
    mode = v2.InterpolationMode(settings["interpolation"])
    image = functional.center_crop(functional.resize(levels.float(), shorter, mode, antialias=True), [size, size])
    return normalised(as_levels(image) if settings["interpolation"] == "bicubic" else image, settings)


class Fake:
    """Synthetic images: normal draws and labels of (seed, sample)."""

    def __init__(self, settings):
        self.settings, self.outputs = settings, 1000
        self.train, self.valid, _ = order.split(settings["fake-size"], settings["seed"])

    def label(self, member):
        return Random(self.settings["seed"], FAKE_LABEL, 0, member).below(10)

    def train_labels(self):
        return [self.label(member) for member in self.train]

    def image(self, member):
        size = self.settings["image-size"]
        values = Random(self.settings["seed"], FAKE_PIXELS, 0, member).normals(size * size * 3)
        return torch.from_numpy(values.reshape(size, size, 3).transpose(2, 0, 1).copy())

    def training(self, index, _epoch):
        return self.image(self.train[index]), self.label(self.train[index])

    def validation(self, index):
        return self.image(self.valid[index]), self.label(self.valid[index])


def files_of(folder):
    """[(path, label)] by class, then by folder and name; and the classes' names."""
    classes, files = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()), []
    for label, name in enumerate(classes):
        found = [path for path in (folder / name).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png")]
        files += [(path, label) for path in sorted(found, key=lambda path: (str(path.parent), path.name))]
    return files, classes


class Folder:
    """A class-per-folder tree: train and val below it, or all to be split 85/10/5."""

    def __init__(self, settings):
        self.settings, root = settings, pathlib.Path(settings["data"])
        if (root / "train").is_dir():
            (train, classes), (valid, _) = files_of(root / "train"), files_of(root / "val")
            self.train, self.valid = list(enumerate(train)), list(enumerate(valid))
        else:
            files, classes = files_of(root)
            train, valid, _ = order.split(len(files), settings["seed"])
            self.train, self.valid = [(i, files[i]) for i in train], [(i, files[i]) for i in valid]
        self.outputs = len(classes)

    def train_labels(self):
        return [label for _, (_, label) in self.train]

    def training(self, index, epoch):
        number, (path, label) = self.train[index]
        random = Random(self.settings["seed"], AUGMENTATION, epoch, number)
        size = size_in(epoch % 2**24, self.settings)
        return training_image(load(path, self.settings), self.settings, random, size), label

    def validation(self, index):
        _, (path, label) = self.valid[index]
        return validation_image(load(path, self.settings), self.settings), label


class Listed(Folder):
    """A CSV file of path,labels,split whose images have several classes, or none: labels are rows of 0 and 1."""

    def __init__(self, settings):
        self.settings, listed = settings, pathlib.Path(settings["data"])
        rows = list(csv.DictReader(listed.read_text().splitlines()))
        classes = sorted({name for row in rows for name in row["labels"].split()})
        entries = [(listed.parent / row["path"], [float(name in row["labels"].split()) for name in classes]) for row in rows]
        self.train, self.valid = ([(i, entries[i]) for i, row in enumerate(rows) if row["split"] == part] for part in ("train", "val"))
        self.outputs = len(classes)


def open_data(settings):
    if settings["data"] == "fake":
        return Fake(settings)
    return Listed(settings) if settings["data"].endswith(".csv") else Folder(settings)


def mixed(images, labels, settings, epoch, position):
    """(images, partners' labels, the own labels' weight): MixUp or CutMix of a rank's batch with the sample before each."""
    mixup, cutmix, partners = settings["mixup"], settings["cutmix"], labels.roll(1, 0)
    if not (mixup > 0 or cutmix > 0) or len(labels) < 2:
        return images, partners, 1.0
    random = Random(settings["seed"], BATCH_MIX, epoch, position)
    heads = random.below(2) == 0
    if mixup > 0 and (heads or cutmix <= 0):
        weight = random.symmetric_beta(mixup)
        own, other = numpy.float32(weight), numpy.float32(1 - weight)
        return images * own + images.roll(1, 0) * other, partners, weight
    size = images.shape[-1]
    part = random.symmetric_beta(cutmix)
    x, y = random.below(size), random.below(size)
    half = int(0.5 * math.sqrt(1 - part) * size)
    left, right, top, bottom = max(x - half, 0), min(x + half, size), max(y - half, 0), min(y + half, size)
    pasted = images.clone()
    pasted[:, :, top:bottom, left:right] = images.roll(1, 0)[:, :, top:bottom, left:right]
    return pasted, partners, 1 - (right - left) * (bottom - top) / size**2
