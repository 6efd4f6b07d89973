#include <array>

#include "runtime/settings/choices.h"
#include "trainer/config/settings_groups.h"
#include "trainer/model/resnet_shapes.h"
#include "trainer/optim/optimizer_kind.h"

namespace rollcall::config {
namespace {

using settings::Kind;
using settings::Setting;

constexpr std::string_view kOptimizers = settings::kChoicesOf<optim::kOptimizers>;

constexpr std::array kTrainingSettings{
    Setting{"model", Kind::Choice, "resnet50", "NAME|FILE.pt",
            "Network to train. resnet20 is for images of about 32 pixels. FILE.pt: a model of your own, as "
            "torch.jit.script(model).save(FILE) wrote it",
            "Model", settings::kChoicesOf<model::kResNets>}
        .common()
        .or_file(),
    Setting{"num-classes", Kind::Integer, "0", "N",
            "Number of outputs of the model. 0: the number of classes in the data, 1000 with --data=fake", "Model", "",
            0, 1e6},
    Setting{"resnet-stem", Kind::Choice, "standard", "standard|deep",
            "deep: three 3x3 convolutions as the stem, and average pooling in shortcuts (ResNet-D)", "Model"},
    Setting{"blurpool", Kind::Switch, "false", "on|off", "Blur the input of convolutions with a stride (Zhang 2019)",
            "Model"},
    Setting{"init", Kind::Choice, "torchvision", "torchvision|goyal|fan-in",
            "Initial values. goyal: those of the last layer have a standard deviation of 0.01. fan-in: those of "
            "convolutions "
            "have a variance of 2 / fan_in instead of 2 / fan_out",
            "Model"},
    Setting{"zero-init-residual", Kind::Switch, "false", "on|off",
            "Start every residual branch at zero (Goyal et al. 2017), which helps large batches", "Model"},
    Setting{"stochastic-depth", Kind::Number, "0", "P",
            "Probability that an image skips the last block's branch in training. Earlier blocks have proportionally "
            "lower ones",
            "Model", "", 0, 0.99},
    Setting{"dropout", Kind::Number, "0", "P",
            "Probability that a feature before the last layer is dropped in training", "Model", "", 0, 0.99},
    Setting{
        "freeze", Kind::List, "", "PREFIXES",
        "Do not train the parameters whose names begin so, such as conv1,bn1,layer1. Statistics of batch norms still "
        "follow the images",
        "Model"},
    Setting{"channels-last", Kind::Switch, "true", "on|off",
            "Keep images and weights in the channels-last memory format", "Model"},

    Setting{
        "recipe", Kind::Text, "none", "NAME|FILE",
        "Published settings for a training, such as goyal-90. The user's own settings have precedence. FILE: a TOML "
        "file with a table [trainer]. --recipe-list shows the names",
        "Training", "none"}
        .common(),
    Setting{"sweep", Kind::Path, "none", "FILE|none",
            "Settings of the elements of a job array. Element N takes the options in line N of this file as well, and "
            "they have precedence. Empty lines and lines that begin with # do not count",
            "Training", "none"},
    Setting{"epochs", Kind::Integer, "120", "N", "Passes over the training data", "Training", "", 1, 1e9}.common(),
    Setting{"max-steps", Kind::Integer, "0", "N",
            "Stop after this many steps in total, 0: no limit. A schedule that depends on the end ends there too",
            "Training", "", 0, kMost}
        .common(),
    Setting{
        "early-stopping", Kind::Integer, "0", "N",
        "End the training after this many validations without a better top-1 accuracy, or mean average precision with "
        "--loss=multi-label. 0: do not",
        "Training", "", 0, 1e9},
    Setting{"global-batch", Kind::Integer, "0", "N",
            "Images per step of all ranks together, for the same training on any number of ranks. Micro-batches are as "
            "large as --batch-size allows, and --lr is the rate of a step. 0: --batch-size and --grad-accumulation",
            "Training", "", 0, 1e9},
    Setting{"batch-size", Kind::Integer, "64", "N",
            "Images per rank and micro-batch. A step has --grad-accumulation micro-batches", "Training", "", 1, 1e6}
        .common(),
    Setting{"grad-accumulation", Kind::Integer, "1", "N",
            "Micro-batches per step. Their gradients are added up and sent once. If this is not given, a training that "
            "resumes with another number of ranks takes the number that keeps the images per step",
            "Training", "", 1, 1e6},
    Setting{"seed", Kind::Integer, "0", "N", "Seed of initial weights, order of the images and augmentation",
            "Training", "", 0, kMost},
    Setting{"optimizer", Kind::Choice, "adamw", "NAME", "Optimizer", "Training", kOptimizers}.common(),
    Setting{"lr", Kind::Number, "3e-4", "RATE",
            "Learning rate for a rank and micro-batch, see --lr-scaling. With sgd: 0.1 per 256 images, with lars: 0.8",
            "Training", "", 0, 1e6}
        .common(),
    Setting{"lr-scaling", Kind::Choice, "linear", "linear|sqrt|none",
            "How the learning rate grows with ranks * grad-accumulation", "Training"},
    Setting{"lr-factors", Kind::List, "", "LAYER=FACTOR,...",
            "Factors of the learning rate for the parameters whose names begin so, such as layer3=0.1,layer4=0.3. The "
            "longest beginning has precedence. Other parameters have 1",
            "Training"},
    Setting{"lr-schedule", Kind::Choice, "none", "none|cosine|linear|polynomial|one-cycle|step|milestones",
            "How the learning rate changes after warm-up. cosine, linear, polynomial and one-cycle end at "
            "--lr-end-factor. The default with sgd is cosine",
            "Training"}
        .common(),
    Setting{"lr-end-factor", Kind::Number, "0", "FACTOR",
            "Learning rate at the end of the training, as a fraction of the rate after warm-up", "Training", "", 0, 1},
    Setting{"lr-power", Kind::Number, "2", "X", "Power of --lr-schedule=polynomial", "Training", "", 0.01, 100},
    Setting{"lr-milestones", Kind::List, "30,60,80", "EPOCHS",
            "Epochs at which the learning rate drops by --lr-step-factor with --lr-schedule=milestones", "Training"},
    Setting{"lr-step-epochs", Kind::Number, "30", "EPOCHS", "Epochs between two drops with --lr-schedule=step",
            "Training", "", 1e-6, 1e9},
    Setting{"lr-step-factor", Kind::Number, "0.1", "FACTOR", "Factor of each drop of the learning rate", "Training", "",
            0, 1},
    Setting{"warmup-epochs", Kind::Number, "0", "EPOCHS", "Epochs of linear warm-up of the learning rate, 0: none",
            "Training", "", 0, 1e9}
        .common(),
    Setting{"warmup-start-factor", Kind::Number, "0", "FACTOR",
            "Learning rate before the warm-up, as a fraction of the rate after it", "Training", "", 0, 1},
    Setting{"scale-optim-params", Kind::Switch, "false", "on|off",
            "Scale AdamW's lr, betas and eps with ranks * grad-accumulation. This is the square-root rule of arXiv "
            "2205.10287",
            "Training"},
    Setting{"momentum", Kind::Number, "0.9", "FACTOR", "Momentum of SGD, LARS and RMSprop", "Training", "", 0, 1},
    Setting{"nesterov", Kind::Switch, "false", "on|off", "Use Nesterov momentum with SGD", "Training"},
    Setting{"lars-trust", Kind::Number, "0.001", "FACTOR",
            "Trust coefficient of LARS: how far a weight may move in a step, as a fraction of its norm, at a rate of 1",
            "Training", "", 0, 1e6},
    Setting{"rmsprop-alpha", Kind::Number, "0.99", "FACTOR", "Decay of the mean of squared gradients of RMSprop",
            "Training", "", 0, 1},
    Setting{"weight-decay", Kind::Number, "0.01", "FACTOR",
            "Weight decay. It does not apply to batch norms and biases. The default with sgd is 1e-4", "Training", "",
            0, 1e6},
    Setting{"weight-decay-all", Kind::Switch, "false", "on|off", "Apply weight decay to batch norms and biases too",
            "Training"},
    Setting{"adam-beta1", Kind::Number, "0.9", "FACTOR", "Decay of the first moment of AdamW and LAMB", "Training", "",
            0, 1},
    Setting{"adam-beta2", Kind::Number, "0.999", "FACTOR", "Decay of the second moment of AdamW and LAMB", "Training",
            "", 0, 1},
    Setting{"adam-eps", Kind::Number, "1e-8", "EPSILON", "Number that AdamW, LAMB and RMSprop add to the denominator",
            "Training", "", 0, 1},
    Setting{"clip-grad-norm", Kind::Number, "0", "NORM",
            "Largest norm of all gradients together. Larger gradients are scaled down to it. 0: no limit", "Training",
            "", 0, 1e9},
    Setting{
        "ema", Kind::Number, "0", "DECAY",
        "Decay of an exponential moving average of weights and batch norm statistics. Validation, the choice of the "
        "best checkpoints and exports use it. 0: none",
        "Training", "", 0, 0.999999999},
    Setting{"ema-steps", Kind::Integer, "1", "N", "Steps between two updates of the average of the weights", "Training",
            "", 1, kMost},
    Setting{"max-skipped-steps", Kind::Integer, "10", "N",
            "Skipped steps in a row that end the training. A step is skipped if its gradients are not finite. 0: no "
            "limit. --precision=fp16 has its own rule",
            "Training", "", 0, kMost},
    Setting{"precision", Kind::Choice, "fp32", "fp32|bf16|fp16",
            "Type of convolutions and matrix products. Weights, their updates, statistics and the loss stay fp32. fp16 "
            "also scales the loss",
            "Training"}
        .common(),
    Setting{
        "loss", Kind::Choice, "cross-entropy", "cross-entropy|bce|multi-label",
        "Loss of the training and of validations. bce: binary cross entropy of each class, the mean over all classes. "
        "multi-label: bce for images that may have several classes, or none. The CSV file of --data separates their "
        "names with blanks",
        "Training"},
    Setting{"bce-target-threshold", Kind::Number, "0", "X",
            "Make targets of --loss=bce 1 if they are above this, and 0 otherwise. 0: leave them", "Training", "", 0,
            1},
    Setting{"class-weights", Kind::Path, "none", "none|balanced|FILE",
            "Weights of the classes in the loss. balanced: images / (classes * images of the class). FILE: lines of "
            "NAME,WEIGHT",
            "Training"},
    Setting{"label-smoothing", Kind::Number, "0", "FACTOR", "Label smoothing of the loss", "Training", "", 0, 1},

};

}  // namespace

settings::Table training_settings() { return kTrainingSettings; }

}  // namespace rollcall::config
