#include <array>

#include "trainer/config/settings_groups.h"

namespace rollcall::config {
namespace {

using settings::Kind;
using settings::Setting;

constexpr std::array kDataSettings{
    Setting{"data", Kind::Path, "", "PATH|fake",
            "Training images, or fake for synthetic ones. PATH is a folder with a sub-folder for each class, a "
            "file of rollcall-pack, a CSV file with columns path and label, or a folder of WebDataset tar shards. Its "
            "train and val are used if it has "
            "them; otherwise its images are split 85/10/5",
            "Data", "fake"}
        .common(),
    Setting{"class-names", Kind::Text, "", "FILE",
            "Names of the classes of a CSV file, in the order of their numbers: one a line (.txt), or a JSON list. "
            "Empty: its labels, sorted",
            "Data"},
    Setting{"index-dir", Kind::Path, "", "DIR|none",
            "Folder that keeps the list of the images for the next run. The list is made again once a folder or "
            "shard has changed. none: do not keep it. Empty: $SCRATCH/rollcall/index",
            "Data", "none"},
    Setting{"train-num-workers", Kind::Integer, "auto", "N|auto",
            "Threads that load training images. 0: the main thread loads them. auto: as many as the task has "
            "CPUs that do not compute, at least 1, and more if the first steps wait for data",
            "Data", "auto", 0, 1024}
        .common(),
    Setting{"valid-num-workers", Kind::Integer, "auto", "N|auto",
            "Threads that load validation images. auto: as many as the task has CPUs that do not compute, at "
            "least 1",
            "Data", "auto", 0, 1024},
    Setting{"prefetch", Kind::Integer, "2", "N", "Batches that each worker loads ahead", "Data", "", 1, 1024},
    Setting{"fake-size", Kind::Integer, "1000", "N",
            "Number of synthetic images with --data=fake, before the split 85/10/5", "Data", "", 20, 1e9},
    Setting{"image-size", Kind::Integer, "224", "PIXELS", "Height and width of the images that the model gets", "Data",
            "", 8, 8192}
        .common(),
    Setting{"image-size-schedule", Kind::List, "none", "PIXELS,BEGIN,END|none",
            "Smaller training images at first: of PIXELS for BEGIN epochs, then growing linearly in multiples of 32 to "
            "--image-size after END epochs",
            "Data", "none"},
    Setting{"valid-image-size", Kind::Integer, "0", "PIXELS", "Height and width of validation images. 0: --image-size",
            "Data", "", 0, 8192},
    Setting{"valid-resize", Kind::Integer, "0", "PIXELS",
            "Shorter side of a validation image before the centre crop. 0: 256/224 of the height that is cropped",
            "Data", "", 0, 16384},
    Setting{"interpolation", Kind::Choice, "bilinear", "bilinear|bicubic",
            "How images are resized, for training and validation. Both are antialiased as in Pillow", "Data"},
    Setting{"crop-scale-min", Kind::Number, "0.08", "FRACTION", "Smallest area of RandomResizedCrop", "Data", "", 1e-6,
            1},
    Setting{"crop-scale-max", Kind::Number, "1", "FRACTION", "Largest area of RandomResizedCrop", "Data", "", 1e-6, 1},
    Setting{"crop-ratio-min", Kind::Number, "0.75", "RATIO", "Smallest width/height of RandomResizedCrop", "Data", "",
            0.01, 100},
    Setting{"crop-ratio-max", Kind::Number, "1.3333333333333333", "RATIO", "Largest width/height of RandomResizedCrop",
            "Data", "", 0.01, 100},
    Setting{"flip", Kind::Number, "0.5", "PROBABILITY", "Probability of a horizontal flip in training", "Data", "", 0,
            1},
    Setting{"vertical-flip", Kind::Number, "0", "PROBABILITY", "Probability of a vertical flip in training", "Data", "",
            0, 1},
    Setting{"valid-flip", Kind::Switch, "false", "on|off",
            "Validate with the mean of the outputs for each image and its mirror image", "Data"},
    Setting{"mean", Kind::List, "0.485,0.456,0.406", "R,G,B",
            "Mean of each channel that images are normalised with, as (value / 255 - mean) / std", "Data"},
    Setting{"std", Kind::List, "0.229,0.224,0.225", "R,G,B",
            "Standard deviation of each channel that images are normalised with", "Data"},
    Setting{
        "image-dtype", Kind::Choice, "auto", "auto|uint8|bfloat16|float32",
        "Type of images in memory and in copies to the device. bfloat16 takes half the memory of float32, "
        "uint8 a quarter. uint8 images are normalised where the model computes. auto: float32 on CPUs, uint8 on "
        "a GPU. Random values of --random-erase do not fit uint8: then bfloat16 with --precision=bf16, else float32",
        "Data"},
    Setting{"last-batch", Kind::Choice, "drop", "drop|pad",
            "What to do with images that do not fill a global batch of training. drop: leave them out. pad: fill "
            "the batch from the epoch's beginning, as torch's DistributedSampler does",
            "Data"},
    Setting{"repeated-augmentation", Kind::Integer, "1", "N",
            "Images of an epoch are each read N times, with other random operations, by different ranks. An epoch has "
            "as many images as before, so it reads one of N images of the training set",
            "Data", "", 1, 100},
    Setting{"shuffle-window", Kind::Integer, "0", "N",
            "Consecutive images that are read at about the same time. 64 such windows are mixed. This helps with "
            "packed files on parallel file systems. 0: shuffle all images",
            "Data", "", 0, 1e9},
    Setting{"sampling", Kind::Choice, "shuffle", "shuffle|balanced",
            "Which images an epoch has. shuffle: each one once. balanced: as many, drawn with replacement so that all "
            "classes are equally likely",
            "Data"},
    Setting{"exif-orientation", Kind::Switch, "false", "on|off",
            "Rotate images as their EXIF orientation says. torchvision does not", "Data"},
    Setting{"dct-scaling", Kind::Switch, "false", "on|off",
            "Decode large crops at half size. This is faster and gives other pixels", "Data"},
    Setting{"bad-samples", Kind::Choice, "skip", "skip|fail",
            "What to do with an image that cannot be decoded. skip: leave it out. fail: end the run", "Data"},
    Setting{"max-bad-samples", Kind::Number, "0.05", "X",
            "Largest share of an epoch's images that --bad-samples=skip leaves out. With more the run ends", "Data", "",
            0, 1},

    Setting{
        "auto-augment", Kind::Choice, "none", "none|randaugment|trivial|randaugment-timm|augmix|3-augment",
        "Random operations on each training image. randaugment: RandAugment. trivial: TrivialAugmentWide. "
        "randaugment-timm: timm's RandAugment, with operations whose severity increases (inc1). augmix: AugMix as in "
        "timm (augmix-m3). 3-augment: greyscale, solarisation or blur, as in DeiT III",
        "Augmentation"},
    Setting{"randaugment-ops", Kind::Integer, "2", "N",
            "Operations on an image with --auto-augment=randaugment or randaugment-timm", "Augmentation", "", 0, 10},
    Setting{"randaugment-magnitude", Kind::Integer, "9", "N",
            "Strength of the operations with --auto-augment=randaugment, or at most 10 with randaugment-timm",
            "Augmentation", "", 0, 30},
    Setting{"randaugment-mstd", Kind::Number, "0.5", "X",
            "Standard deviation of the strength with --auto-augment=randaugment-timm", "Augmentation", "", 0, 100},
    Setting{"brightness", Kind::Number, "0", "X", "Colour jitter: the brightness is multiplied by 1 - X to 1 + X",
            "Augmentation", "", 0, 100},
    Setting{"contrast", Kind::Number, "0", "X", "Colour jitter: the contrast is multiplied by 1 - X to 1 + X",
            "Augmentation", "", 0, 100},
    Setting{"saturation", Kind::Number, "0", "X", "Colour jitter: the saturation is multiplied by 1 - X to 1 + X",
            "Augmentation", "", 0, 100},
    Setting{"hue", Kind::Number, "0", "TURNS", "Colour jitter: the hue is shifted by -TURNS to TURNS", "Augmentation",
            "", 0, 0.5},
    Setting{"random-erase", Kind::Number, "0", "PROBABILITY", "Probability that a box of the image is erased",
            "Augmentation", "", 0, 1},
    Setting{"random-erase-value", Kind::Choice, "zero", "zero|random", "Content of the box that --random-erase erases",
            "Augmentation"},
    Setting{"mixup", Kind::Number, "0", "ALPHA",
            "Mix the images of a batch, with weights from Beta(ALPHA, ALPHA). 0: do not", "Augmentation", "", 0, 100},
    Setting{"cutmix", Kind::Number, "0", "ALPHA",
            "Paste boxes from other images of the batch, with sizes from Beta(ALPHA, ALPHA). 0: do not. With "
            "--mixup, one of the two is chosen at random",
            "Augmentation", "", 0, 100},

};

}  // namespace

settings::Table data_settings() { return kDataSettings; }

}  // namespace rollcall::config
