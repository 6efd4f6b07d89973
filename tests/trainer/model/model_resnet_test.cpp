#include "trainer/model/resnet.h"

#include <gtest/gtest.h>
#include <cmath>
#include <map>

#include "trainer/model/state.h"

namespace rollcall::model {
namespace {

ResNet made(std::string_view name, const ResNetOptions& options = {}) {
  torch::manual_seed(0);
  return *make_model(name, options);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.ends_with(end);
}

// Parameters with 1000 classes, as torchvision's documentation gives them. resnet20 with ten has 272,474 (He et al.
// 2015, table 6: 0.27 million). The widest, which take seconds to make, are compared with torchvision in
// test_resnet_parity.py.
TEST(ResNet, EveryDepthHasItsPublishedNumberOfParameters) {
  const std::map<std::string, std::int64_t> published = {{"resnet20", 272'474 + 990 * 65}, {"resnet18", 11'689'512},
                                                         {"resnet34", 21'797'672},         {"resnet50", 25'557'032},
                                                         {"resnet101", 44'549'160},        {"resnet152", 60'192'808},
                                                         {"resnext50_32x4d", 25'028'904}};
  for (const auto& [name, expected] : published) {
    std::int64_t count = 0;
    const ResNet network = made(name);
    for (const at::Tensor& parameter : network->parameters()) {
      count += parameter.numel();
    }
    EXPECT_EQ(count, expected) << name;
  }
}

TEST(ResNet, StateHasNamesAndOrderOfTheStateDictInPython) {
  const std::vector<std::string> keys = state_keys(*made("resnet18"));
  ASSERT_EQ(keys.size(), 122U);
  const std::vector<std::string> first = {"conv1.weight",         "bn1.weight",      "bn1.bias",
                                          "bn1.running_mean",     "bn1.running_var", "bn1.num_batches_tracked",
                                          "layer1.0.conv1.weight"};
  EXPECT_EQ(std::vector<std::string>(keys.begin(), keys.begin() + 7), first);
  EXPECT_EQ(keys[keys.size() - 2], "fc.weight");
  EXPECT_EQ(keys.back(), "fc.bias");
  EXPECT_NE(std::find(keys.begin(), keys.end(), "layer2.0.downsample.1.num_batches_tracked"), keys.end());
}

TEST(ResNet, GivesOneScorePerClassInBothMemoryFormats) {
  const torch::NoGradGuard no_grad;
  ResNet network = made("resnet18", {.num_classes = 7});
  network->eval();
  const at::Tensor images = torch::randn({2, 3, 40, 56});
  const at::Tensor scores = network->forward(images);
  EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, 7}));
  use_channels_last(*network);
  const at::Tensor channels_last = network->forward(images.contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::allclose(scores, channels_last, 1e-4, 1e-4));
}

TEST(ResNet, ConvolutionsStartNormalWithVarianceTwoOverFanOut) {
  for (const auto& parameter : made("resnet50")->named_parameters()) {
    const at::Tensor& weight = parameter.value();
    if (weight.dim() != 4) {
      continue;
    }
    const auto fan_out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
    const double expected = std::sqrt(2 / fan_out);
    const auto n = static_cast<double>(weight.numel());
    // Five standard errors: of the mean sigma / sqrt(n), of the standard deviation sigma / sqrt(2 n).
    EXPECT_NEAR(weight.mean().item<double>(), 0, 5 * expected / std::sqrt(n)) << parameter.key();
    EXPECT_NEAR(weight.std().item<double>(), expected, 5 * expected / std::sqrt(2 * n)) << parameter.key();
  }
}

TEST(ResNet, ZeroInitResidualZeroesTheLastBatchNormOfEveryBlockOnly) {
  for (const auto& [name, last] : {std::pair{"resnet18", "bn2.weight"}, std::pair{"resnet50", "bn3.weight"}}) {
    for (const bool zero : {false, true}) {
      for (const auto& parameter : made(name, {.zero_init_residual = zero})->named_parameters()) {
        if (parameter.value().dim() != 1 || !ends_with(parameter.key(), ".weight")) {
          continue;
        }
        const double expected =
            zero && parameter.key().starts_with("layer") && ends_with(parameter.key(), last) ? 0 : 1;
        EXPECT_TRUE(parameter.value().eq(expected).all().item<bool>()) << name << " " << parameter.key();
      }
    }
  }
}

TEST(ResNet, TheSameSeedGivesTheSameWeights) {
  EXPECT_TRUE(torch::equal(made("resnet18")->parameters()[0], made("resnet18")->parameters()[0]));
}

TEST(ResNet, RejectsAnUnknownNameSuggestingTheNearest) {
  const Result<ResNet> network = make_model("resnet5O");
  ASSERT_FALSE(network.has_value());
  EXPECT_EQ(network.error().message(), "rollcall: --model: resnet5O: is not a known model; try --model=resnet50");
  EXPECT_NE(make_model("vgg").error().action.find("resnet152"), std::string::npos);
  EXPECT_EQ(make_model("resnet50", {.num_classes = 0}).error().setting, "--num-classes");
}

TEST(UseChannelsLast, KeepsValuesAndGradientsMatchParameterStrides) {
  ResNet network = made("resnet50", {.num_classes = 3});
  const at::Tensor before = network->named_parameters()["layer1.0.conv2.weight"].detach().clone();
  use_channels_last(*network);
  EXPECT_TRUE(torch::equal(before, network->named_parameters()["layer1.0.conv2.weight"]));
  const at::Tensor images = torch::randn({2, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  network->forward(images).sum().backward();
  for (const auto& parameter : network->named_parameters()) {
    EXPECT_EQ(parameter.value().grad().strides(), parameter.value().strides()) << parameter.key();
  }
}

}  // namespace
}  // namespace rollcall::model
