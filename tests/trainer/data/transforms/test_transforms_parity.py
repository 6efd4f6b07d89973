"""Decoding and transforms against Pillow and torchvision."""
import struct
import zlib

import numpy as np
import pytest
import torch
from decoded_pictures import dump, photo
from PIL import Image, ImageCms, ImageFilter
from reference.pictures import TIMM, augmix, timms_moving, timms_operation
from reference.random_numbers import AUGMENTATION, Random
from reference.training import DEFAULTS
from torchvision.transforms import v2

pytestmark = pytest.mark.python
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LEVEL = 1 / 255 / min(DEVIATION)


def save_jpeg(path, seed, mode="RGB", **options):
    photo(seed, mode).save(path, quality=90, **options)
    return path


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True}])
def test_jpeg_decodes_like_pillow(tmp_path, mode, options):
    for seed in range(4):
        path = save_jpeg(tmp_path / f"{seed}.jpg", seed, mode, **options)
        expected = np.asarray(Image.open(path).convert("RGB"))
        assert np.array_equal(dump(np.uint8, "decode", path), expected.ravel())


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3, 2), (5, 17), (16, 16), (17, 33), (255, 257)])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_jpeg_of_odd_size_decodes_like_pillow(tmp_path, mode, size):
    for i, options in enumerate([{"subsampling": 2}, {"subsampling": 1, "restart_marker_blocks": 3},
                                 {"subsampling": 2, "progressive": True, "optimize": True}]):
        path = tmp_path / f"{i}.jpg"
        photo(i, mode, size).save(path, quality=70, **options)
        assert np.array_equal(dump(np.uint8, "decode", path), np.asarray(Image.open(path).convert("RGB")).ravel())


def test_jpeg_orientation_is_ignored_by_default_like_torchvision(tmp_path):
    path = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    photo(1, size=(60, 40)).save(path, exif=exif)
    assert np.array_equal(dump(np.uint8, "decode", path), np.asarray(Image.open(path)).ravel())


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "1"])
def test_png_decodes_like_pillow(tmp_path, mode):
    path = tmp_path / "a.png"
    photo(3, mode).save(path)
    assert np.array_equal(dump(np.uint8, "decode", path), np.asarray(Image.open(path).convert("RGB")).ravel())


def png_file(depth, kind, chunks=(), interlaced=False):
    """Noise of a colour type (0 grey, 2 colours, 3 palette, 4 and 6 with alpha), with chunks before the pixels."""
    random = np.random.default_rng(7)
    width, height, channels = 29, 17, {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    # Adam7's passes: first column and row, steps.
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    pixels = b""
    for left, top, right, down in passes if interlaced else [(0, 0, 1, 1)]:
        columns, rows = -(-(width - left) // right), -(-(height - top) // down)
        for _ in range(rows):
            pixels += b"\0" + random.bytes((columns * channels * depth + 7) // 8)
    palette = [(b"PLTE", random.bytes(3 * 2**depth))] if kind == 3 else []
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    pieces = [(b"IHDR", header), *chunks, *palette, (b"IDAT", zlib.compress(pixels)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content)) for name, content in pieces)


GAMMA = (b"gAMA", struct.pack(">I", 100000))
PNG_CHUNKS = {
    "none": [],
    "linear": [GAMMA],
    "Macintosh": [(b"gAMA", struct.pack(">I", 55556))],
    "another space": [(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000)), GAMMA],
    "sRGB": [(b"sRGB", b"\0")],
    "a profile": [(b"iCCP", b"x\0\0" + zlib.compress(ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes())), GAMMA],
}


@pytest.mark.parametrize("chunks", PNG_CHUNKS)
@pytest.mark.parametrize("kind, depths", [(0, (1, 2, 4, 8)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))])
def test_png_of_every_kind_decodes_like_pillow_with_any_gamma(tmp_path, kind, depths, chunks):
    path = tmp_path / "a.png"
    for depth in depths:
        for interlaced in (False, True):
            path.write_bytes(png_file(depth, kind, PNG_CHUNKS[chunks], interlaced))
            expected = np.asarray(Image.open(path).convert("RGB"))
            assert np.array_equal(dump(np.uint8, "decode", path), expected.ravel()), (depth, interlaced)


def test_palette_transparency_is_dropped_like_pillow(tmp_path):
    path = tmp_path / "a.png"
    photo(4, "P").save(path, transparency=3)
    assert np.array_equal(dump(np.uint8, "decode", path), np.asarray(Image.open(path).convert("RGB")).ravel())


def test_16_bit_grey_png_keeps_its_levels(tmp_path):
    path = tmp_path / "a.png"
    levels = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    Image.fromarray(levels).save(path)
    assert np.array_equal(dump(np.uint8, "decode", path).reshape(16, 16, 3)[..., 0], levels // 257)


def test_validation_transform_matches_torchvision(tmp_path):
    paths = [save_jpeg(tmp_path / f"{seed}.jpg", seed) for seed in range(20)]
    for image_size, resize_size in [(224, 256), (224, 232), (32, 37), (97, 97)]:
        ours = dump(np.float32, "eval", image_size, resize_size, *paths).reshape(20, image_size, image_size, 3)
        transform = v2.Compose([v2.Resize(resize_size, antialias=True), v2.CenterCrop(image_size),
                                v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)])
        exact = v2.Compose([v2.ToDtype(torch.float32, scale=True), *transform.transforms[:2], v2.Normalize(MEAN, DEVIATION)])
        for i, path in enumerate(paths):
            picture = v2.functional.pil_to_tensor(Image.open(path))
            for reference, limit in ((transform, 1.01 * LEVEL), (exact, 0.01 * LEVEL)):
                expected = reference(picture).permute(1, 2, 0).numpy()
                assert np.abs(ours[i] - expected).max() <= limit, (path, image_size, resize_size)


def test_resized_crop_matches_torchvision(tmp_path):
    path = tmp_path / "a.png"
    photo(8, size=(300, 200)).save(path)
    picture = v2.functional.pil_to_tensor(Image.open(path))
    random = np.random.default_rng(1)
    for _ in range(30):
        width, height = random.integers(1, 301), random.integers(1, 201)
        left, top = random.integers(0, 301 - width), random.integers(0, 201 - height)
        size = int(random.choice([1, 7, 32, 224]))
        ours = dump(np.float32, "crop", left, top, width, height, size, path).reshape(size, size, 3)
        expected = v2.functional.resized_crop(picture.float(), top, left, height, width, [size, size], antialias=True)
        assert np.abs(ours - expected.permute(1, 2, 0).numpy()).max() < 0.01


def random_crops(count, width=300, height=200):
    random = np.random.default_rng(2)
    for _ in range(count):
        w, h = random.integers(1, width + 1), random.integers(1, height + 1)
        left, top = random.integers(0, width + 1 - w), random.integers(0, height + 1 - h)
        yield left, top, w, h, int(random.choice([1, 7, 32, 224]))


def test_bicubic_resize_matches_torchvision_and_pillow(tmp_path):
    """Floats are torchvision's. Levels are torchvision's within one. Pillow rounds and clips between the axes: nearly all within one."""
    path = tmp_path / "a.png"
    photo(9, size=(300, 200)).save(path)
    image = Image.open(path)
    picture = v2.functional.pil_to_tensor(image)
    far, pixels = 0, 0
    for left, top, width, height, size in random_crops(30):
        expected = v2.functional.resized_crop(picture.float(), top, left, height, width, [size, size],
                                              interpolation=v2.InterpolationMode.BICUBIC, antialias=True).permute(1, 2, 0).numpy()
        ours = dump(np.float32, "crop_cubic", left, top, width, height, size, path).reshape(size, size, 3)
        assert np.abs(ours - expected).max() < 0.01
        levels = dump(np.uint8, "crop_cubic_levels", left, top, width, height, size, path).reshape(size, size, 3).astype(int)
        assert np.abs(levels - expected.clip(0, 255)).max() <= 0.51
        box = (left, top, left + width, top + height)
        pillow = np.asarray(image.crop(box).resize((size, size), Image.Resampling.BICUBIC)).astype(int)
        far, pixels = far + (np.abs(levels - pillow) > 1).sum(), pixels + pillow.size
    print(f"{far} of {pixels} values differ from Pillow's by more than one level")
    assert far <= 1e-3 * pixels


def test_uint8_resize_matches_torchvision_within_one_level(tmp_path):
    path = tmp_path / "a.png"
    photo(9, size=(300, 200)).save(path)
    picture = v2.functional.pil_to_tensor(Image.open(path))
    for left, top, width, height, size in random_crops(30):
        ours = dump(np.uint8, "crop_levels", left, top, width, height, size, path).reshape(size, size, 3)
        expected = v2.functional.resized_crop(picture, top, left, height, width, [size, size], antialias=True)
        assert np.abs(ours.astype(int) - expected.permute(1, 2, 0).numpy()).max() <= 1
        exact = v2.functional.resized_crop(picture.float(), top, left, height, width, [size, size], antialias=True)
        assert np.abs(ours - exact.permute(1, 2, 0).numpy()).max() <= 0.51


def test_bfloat16_output_is_rounded_like_torch(tmp_path):
    path = tmp_path / "a.png"
    photo(10, size=(300, 200)).save(path)
    for crop in random_crops(20):
        floats = torch.from_numpy(dump(np.float32, "crop", *crop, path).copy())
        halves = torch.from_numpy(dump(np.int16, "crop_bfloat16", *crop, path).copy())
        assert torch.equal(halves, floats.to(torch.bfloat16).view(torch.int16))


OPERATIONS = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
              "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
GEOMETRIC = OPERATIONS[1:6]
POLICIES = {1: v2.RandAugment(), 2: v2.TrivialAugmentWide()}


def torchvisions_magnitudes(policy, width, height):
    """[operation][bin] and whether each operation's sign is drawn."""
    table, signed = np.zeros((14, 31)), []
    for i, name in enumerate(OPERATIONS):
        magnitudes, is_signed = POLICIES[policy]._AUGMENTATION_SPACE[name]
        values = magnitudes(31, height, width)
        signed.append(is_signed)
        if values is not None:
            table[i] = [float(value) for value in values]
    return table, signed


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("size", [(224, 224), (96, 160)])
def test_augmentation_magnitudes_match_torchvision(policy, size):
    ours = dump(np.float64, "magnitudes", policy, *size).reshape(14, 31)
    expected, _ = torchvisions_magnitudes(policy, *size)
    assert np.abs(ours - expected).max() <= 1e-5
    assert np.array_equal(ours.astype(int), expected.astype(int))  # pixels and bits are cut to whole numbers


def photos(tmp_path):
    """A photo-like picture, noise (every colour occurs), and one flat but for a corner."""
    random = np.random.default_rng(4)
    flat = np.full((40, 40, 3), 90, np.uint8)
    flat[:3, :5] = [10, 200, 255]
    pictures = [photo(11, size=(224, 224)), photo(12, size=(97, 60)),
                Image.fromarray(random.integers(0, 256, (128, 128, 3), dtype=np.uint8)), Image.fromarray(flat)]
    for i, picture in enumerate(pictures):
        picture.save(tmp_path / f"{i}.png")
        yield tmp_path / f"{i}.png", v2.functional.pil_to_tensor(picture)


def narrow_pictures(tmp_path):
    """Fewer pixels than a blur reaches."""
    for width, height in ((1, 9), (7, 1), (2, 3)):
        path = tmp_path / f"{width}x{height}.png"
        photo(13, size=(width, height)).save(path)
        yield path, v2.functional.pil_to_tensor(Image.open(path))


def changed(path, picture, *arguments):
    return dump(np.uint8, *arguments, path).reshape(picture.shape[1], picture.shape[2], 3).astype(int)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_augmentation_operations_match_torchvision(tmp_path, policy, operation):
    number, transform, worst, elsewhere, pixels = OPERATIONS.index(operation), POLICIES[policy], 0, 0, 0
    for path, picture in photos(tmp_path):
        table, signed = torchvisions_magnitudes(policy, picture.shape[2], picture.shape[1])
        for bin_ in [0, 4, 9, 15, 20, 26, 30]:
            for sign in [1, -1] if signed[number] else [1]:
                magnitude = sign * table[number][bin_]
                ours = changed(path, picture, "operation", number, repr(float(magnitude)))
                expected = transform._apply_image_or_video_transform(picture, operation, magnitude, "nearest", {})
                difference = np.abs(ours - expected.permute(1, 2, 0).numpy())
                worst, pixels = max(worst, difference.max()), pixels + difference[..., 0].size
                elsewhere += (difference.max(-1) > 0).sum()
    print(f"{operation}: at most {worst} levels, {elsewhere} of {pixels} pixels")
    if operation in GEOMETRIC:  # pixels that lie halfway between two of the source: float32's rounding decides, and so the processor
        assert elsewhere <= 3e-3 * pixels
    else:
        assert worst <= 1


@pytest.mark.parametrize("operation", TIMM)
def test_timms_operations_match_pillow(tmp_path, operation):
    moves = operation in ("Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
    worst = 0
    for path, _ in photos(tmp_path):
        image = Image.open(path)
        for level in [0, 0.7, 3, 6.5, 7.31, 10]:
            for negative in (0, 1):
                for cubic in (0, 1) if moves else (1,):
                    ours = changed(path, v2.functional.pil_to_tensor(image), "timm", TIMM.index(operation), level, negative, cubic)
                    resample = Image.Resampling.BICUBIC if cubic else Image.Resampling.BILINEAR
                    expected = np.asarray(timms_operation(image, operation, level, negative, resample)).astype(int)
                    worst = max(worst, np.abs(ours - expected).max())
    print(f"{operation}: at most {worst} levels")
    near = ("AutoContrast", "Rotate", "ColorIncreasing", "ContrastIncreasing", "SharpnessIncreasing")
    assert worst <= (1 if operation in near else 0)


def test_timms_operations_are_those_of_the_installed_timm(tmp_path):
    timm = pytest.importorskip("timm.data.auto_augment")
    image = photo(3, size=(64, 48))
    for name in TIMM:
        for level in (0.0, 3.0, 7.31, 10.0):
            operation = timm.AugmentOp(name, prob=1, magnitude=level, hparams={"img_mean": (124, 116, 104), "interpolation": Image.BICUBIC})
            possible = [timms_operation(image, name, level, negative, Image.Resampling.BICUBIC) for negative in (0, 1)]
            assert np.asarray(operation(image)).tobytes() in [np.asarray(one).tobytes() for one in possible], (name, level)


@pytest.mark.parametrize("radius", [0.1, 0.2, 0.5, 0.77, 1, 1.3, 1.9, 2, 7.5])
def test_gaussian_blur_equals_pillows(tmp_path, radius):
    for path, picture in [*photos(tmp_path), *narrow_pictures(tmp_path)]:
        expected = Image.open(path).filter(ImageFilter.GaussianBlur(radius=radius))
        assert np.array_equal(changed(path, picture, "blur", radius), np.asarray(expected)), path


def test_greyscale_equals_pillows(tmp_path):
    for path, picture in photos(tmp_path):
        assert np.array_equal(changed(path, picture, "greyscale"), np.asarray(Image.open(path).convert("L").convert("RGB"))), path


def test_augmix_has_the_operations_and_the_mixture_of_the_installed_timm(tmp_path):
    """The reference, with which whole trainings are compared, on timm's own AugMixAugment with the same draws."""
    timm = pytest.importorskip("timm.data.auto_augment")
    settings = {**DEFAULTS, "interpolation": "bicubic"}
    made = timm.augment_and_mix_transform("augmix-m3-w3", {"img_mean": (124, 116, 104), "interpolation": Image.BICUBIC})
    assert {operation.name for operation in made.ops} == set(TIMM) - {"Invert", "SolarizeAdd"}
    assert {(operation.prob, operation.magnitude, operation.magnitude_std) for operation in made.ops} == {(1.0, 3, float("inf"))}
    assert (made.alpha, made.width, made.depth, made.blended) == (1.0, 3, -1, False)
    square = photo(3, size=(48, 48))  # timm takes width for height
    picture = v2.functional.pil_to_tensor(square)

    class Chains:  # of the reference, whose draws have no other way into timm
        def __init__(self, random):
            self.random = random

        def __call__(self, image):
            for _ in range(1 + self.random.below(3)):
                name, level = names[self.random.below(13)], self.random.uniform(0, 3)
                image = timms_operation(image, name, level, self.random.below(2) == 0, *timms_moving(settings))
            return image

    names = [name for name in TIMM if name not in ("Invert", "SolarizeAdd")]
    for sample in range(20):
        random = Random(1, AUGMENTATION, 0, sample)
        expected = augmix(picture, settings, Random(1, AUGMENTATION, 0, sample))
        draws = np.array([-np.log(1 - random.uniform()) for _ in range(3)])
        made.depth, part, made.ops = 1, random.uniform(), np.array([Chains(random)], dtype=object)
        found = made._apply_basic(square, np.float32(draws / draws.sum()), np.float32(part))
        assert np.array_equal(np.asarray(found), expected.permute(1, 2, 0).numpy()), sample


@pytest.mark.parametrize("function, number", [("brightness", 6), ("saturation", 7), ("contrast", 8), ("sharpness", 9)])
@pytest.mark.parametrize("factor", [0.0, 0.2, 0.6, 1.0, 1.3, 1.8, 3.0])
def test_colour_functions_match_torchvision_within_one_level(tmp_path, function, number, factor):
    for path, picture in photos(tmp_path):
        ours = changed(path, picture, "operation", number, factor - 1)
        expected = getattr(v2.functional, f"adjust_{function}")(picture, factor)
        assert np.abs(ours - expected.permute(1, 2, 0).numpy()).max() <= 1


@pytest.mark.parametrize("turns", [-0.5, -0.31, -0.1, 0.0, 0.05, 0.2, 0.5])
def test_hue_matches_torchvision_within_one_level(tmp_path, turns):
    for path, picture in photos(tmp_path):
        ours = changed(path, picture, "hue", turns)
        expected = v2.functional.adjust_hue(picture, turns)
        assert np.abs(ours - expected.permute(1, 2, 0).numpy()).max() <= 1
