"""Decoding and transforms against Pillow and torchvision."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build/dev"))
DUMP = BUILD / "tests/transform_dump"
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LEVEL = 1 / 255 / min(DEVIATION)


def dump(dtype, *arguments):
    done = subprocess.run([DUMP, *map(str, arguments)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, dtype)


def photo(seed, mode="RGB", size=None):
    """Smooth shapes with noise on top, of a random size."""
    random = np.random.default_rng(seed)
    width, height = size or random.integers(40, 500, 2)
    small = random.integers(0, 256, (7, 9, 4), dtype=np.uint8)
    array = np.asarray(Image.fromarray(small, "RGBA").resize((width, height), Image.BICUBIC)).astype(int)
    array = np.clip(array + random.normal(0, 12, array.shape), 0, 255).astype(np.uint8)
    if mode == "CMYK":
        return Image.fromarray(array, "CMYK")
    return Image.fromarray(array, "RGBA").convert(mode)


def save_jpeg(path, seed, mode="RGB", **options):
    photo(seed, mode).save(path, quality=90, **options)
    return path


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True}])
def test_jpeg_decodes_to_pillows_pixels(tmp_path, mode, options):
    for seed in range(4):
        path = save_jpeg(tmp_path / f"{seed}.jpg", seed, mode, **options)
        expected = np.asarray(Image.open(path).convert("RGB"))
        assert np.array_equal(dump(np.uint8, "decode", path), expected.ravel())


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "1"])
def test_png_decodes_to_pillows_pixels(tmp_path, mode):
    path = tmp_path / "a.png"
    photo(3, mode).save(path)
    assert np.array_equal(dump(np.uint8, "decode", path), np.asarray(Image.open(path).convert("RGB")).ravel())


def test_transparent_colour_of_a_palette_is_dropped_as_pillow_does(tmp_path):
    path = tmp_path / "a.png"
    photo(4, "P").save(path, transparency=3)
    assert np.array_equal(dump(np.uint8, "decode", path), np.asarray(Image.open(path).convert("RGB")).ravel())


def test_16_bit_grey_png_keeps_its_levels(tmp_path):
    path = tmp_path / "a.png"
    levels = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    Image.fromarray(levels).save(path)
    assert np.array_equal(dump(np.uint8, "decode", path).reshape(16, 16, 3)[..., 0], levels // 257)


def test_validation_transform_is_torchvisions(tmp_path):
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


def test_resized_crop_is_torchvisions(tmp_path):
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
