"""The Python peers: each gives, for one Work, batches of RandomResizedCrop + flip + normalise as float32 [n, 3, size, size].

A peer is a function Work -> an object to iterate over once an epoch, whose items start with the images. What a peer reads
in its own format is written below Work.scratch once, from the same JPEGs.
"""
import dataclasses
import math
import os
import pathlib
import random

import numpy
import torch

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)


@dataclasses.dataclass(frozen=True)
class Work:
    photos: pathlib.Path   # class folders of JPEGs
    scratch: pathlib.Path  # where a peer's own format is kept
    workers: int           # 0: in the caller, or one thread where a peer always has one
    batch_size: int
    image_size: int

    def files(self):
        return sorted(self.photos.glob("*/*.jpg"))

    def converted(self, name, write):
        """The peer's copy of the photos: write(path) makes it unless it is there for just these photos."""
        files = self.files()
        mark = f"{len(files)}-{sum(f.stat().st_size for f in files)}"
        path = self.scratch / f"{name}-{mark}"
        if not path.exists():
            self.scratch.mkdir(parents=True, exist_ok=True)
            partial = self.scratch / f"{name}.partial-{os.getpid()}"
            write(partial)
            partial.rename(path)
        return path


def torch_loader(dataset, work, **options):
    return torch.utils.data.DataLoader(dataset, batch_size=work.batch_size, num_workers=work.workers,
                                       persistent_workers=work.workers > 0, **options)


def pillow_transform(work):
    from torchvision import transforms
    return transforms.Compose([transforms.RandomResizedCrop(work.image_size, AREA, ASPECT), transforms.RandomHorizontalFlip(),
                               transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def torchvision_pillow(work):
    from torchvision.datasets import ImageFolder
    return torch_loader(ImageFolder(work.photos, pillow_transform(work)), work, shuffle=True)


def torchvision_v2(work):
    from torchvision.datasets import ImageFolder
    from torchvision.io import decode_jpeg, read_file
    from torchvision.transforms import v2
    transform = v2.Compose([v2.RandomResizedCrop(work.image_size, AREA, ASPECT, antialias=True), v2.RandomHorizontalFlip(),
                            v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    return torch_loader(ImageFolder(work.photos, transform, loader=lambda path: decode_jpeg(read_file(path))), work, shuffle=True)


def webdataset(work):
    import webdataset as wds

    def write_shards(folder):
        folder.mkdir()
        files = work.files()
        random.Random(0).shuffle(files)
        classes = sorted({f.parent.name for f in files})
        for shard in range(4):
            with wds.TarWriter(str(folder / f"{shard:03d}.tar")) as tar:
                for f in files[shard::4]:
                    tar.write({"__key__": f.stem, "jpg": f.read_bytes(), "cls": str(classes.index(f.parent.name))})

    shards = sorted(map(str, work.converted("webdataset", write_shards).glob("*.tar")))
    dataset = wds.WebDataset(shards, shardshuffle=len(shards), empty_check=False).shuffle(500).decode("pil")
    return torch_loader(dataset.to_tuple("jpg", "cls").map_tuple(pillow_transform(work)), work)


def dali(work):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=work.batch_size, num_threads=max(1, work.workers), device_id=None)
    def pipeline():
        jpegs, labels = fn.readers.file(file_root=str(work.photos), random_shuffle=True)
        images = fn.decoders.image_random_crop(jpegs, device="cpu", random_area=AREA, random_aspect_ratio=ASPECT)
        images = fn.resize(images, size=[work.image_size] * 2)
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mirror=fn.random.coin_flip(),
                                          mean=[255 * m for m in MEAN], std=[255 * s for s in STD])
        return images, labels

    built = pipeline()
    built.build()
    batches = len(work.files()) // work.batch_size
    return Epochs(lambda: ((torch.from_dlpack(images.as_tensor()), labels)
                           for images, labels in (built.run() for _ in range(batches))))


def spdl(work):
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    files = list(map(str, work.files()))
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) * 255 for values in (MEAN, STD))

    def decode(path):
        # FFmpeg crops after decoding; the aspect ratio is drawn evenly in its logarithm, as torchvision does.
        area, aspect = random.uniform(*AREA), math.exp(random.uniform(*map(math.log, ASPECT)))
        crop = (f"crop=w='min(iw,sqrt(iw*ih*{area * aspect}))':h='min(ih,sqrt(iw*ih*{area / aspect}))'"
                f":x='(iw-ow)*{random.random()}':y='(ih-oh)*{random.random()}'")
        flip = "hflip," if random.random() < 0.5 else ""
        scale = f"scale={work.image_size}:{work.image_size}:flags=bilinear,format=pix_fmts=rgb24"
        return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=f"{crop},{flip}{scale}")

    def collate(frames):
        pixels = spdl.io.to_torch(spdl.io.convert_frames(frames)).permute(0, 3, 1, 2)
        return (pixels.float().sub_(mean).div_(std).contiguous(),)

    def epoch():
        threads = max(1, work.workers)
        random.shuffle(files)
        pipeline = (PipelineBuilder().add_source(files).pipe(decode, concurrency=threads).aggregate(work.batch_size)
                    .pipe(collate).add_sink(3).build(num_threads=threads))
        with pipeline.auto_stop():
            yield from pipeline

    return Epochs(epoch)


def ffcv(work):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    from ffcv.writer import DatasetWriter
    from torchvision.datasets import ImageFolder

    def write_beton(path):  # FFCV encodes anew; the same quality gives files of about the same size
        fields = {"image": RGBImageField(write_mode="jpg", max_resolution=None, jpeg_quality=90), "label": IntField()}
        DatasetWriter(str(path), fields, num_workers=2).from_indexed_dataset(ImageFolder(work.photos))

    mean, std = (numpy.array(values) * 255 for values in (MEAN, STD))
    image = [RandomResizedCropRGBImageDecoder((work.image_size,) * 2, AREA, ASPECT), RandomHorizontalFlip(),
             NormalizeImage(mean, std, numpy.float32), ToTensor(), ToTorchImage(channels_last=True)]
    return Loader(str(work.converted("ffcv", write_beton)), batch_size=work.batch_size, num_workers=max(1, work.workers),
                  order=OrderOption.RANDOM, os_cache=True, drop_last=False,
                  pipelines={"image": image, "label": [IntDecoder(), ToTensor()]})


@dataclasses.dataclass(frozen=True)
class Epochs:
    start: object  # () -> the batches of one epoch

    def __iter__(self):
        return iter(self.start())


# name: the function, and the distributions whose versions say what was measured
PEERS = {
    "torchvision": (torchvision_pillow, ["torchvision", "torch", "pillow"]),
    "torchvision-v2": (torchvision_v2, ["torchvision", "torch"]),
    "dali": (dali, ["nvidia-dali-cuda130"]),
    "ffcv": (ffcv, ["ffcv", "numba"]),
    "spdl": (spdl, ["spdl-io", "spdl-core"]),
    "webdataset": (webdataset, ["webdataset", "torchvision", "pillow"]),
}
