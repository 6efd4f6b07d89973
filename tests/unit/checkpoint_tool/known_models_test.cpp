#include "trainer/tools/checkpoint/known_models.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "trainer/tools/checkpoint/checkpoint_file.h"

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::exchange::StateTensor;
using checkpoint::format::DType;

std::vector<StateTensor> state_of(const std::string& name, std::int64_t num_classes) {
  const auto model = resnet_tensors(name, num_classes);
  std::vector<StateTensor> tensors;
  for (const ModelTensor& tensor : *model) {
    tensors.push_back({tensor.key, DType::Float32, tensor.shape, {}});
  }
  return tensors;
}

TEST(KnownModels, AreRecognisedInAnyOrderAndPutIntoTheirOwn) {
  for (const char* const name : {"resnet20", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}) {
    std::vector<StateTensor> tensors = state_of(name, 7);
    std::ranges::sort(tensors, {}, &StateTensor::key);
    const auto model = recognise_model(tensors);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->name, name);
    EXPECT_EQ(model->num_classes, 7);
    EXPECT_EQ(tensors.front().key, "conv1.weight");
    EXPECT_EQ(tensors.back().key, "fc.bias");
  }
  EXPECT_FALSE(resnet_tensors("resnet19", 10));
}

TEST(KnownModels, OthersAreNotTouched) {
  std::vector<StateTensor> tensors = state_of("resnet18", 10);
  tensors[3].shape = {65};
  EXPECT_FALSE(recognise_model(tensors));
  tensors = state_of("resnet18", 10);
  tensors.push_back({"more", DType::Float32, {}, {}});
  EXPECT_FALSE(recognise_model(tensors));
  EXPECT_EQ(tensors.back().key, "more");
  std::vector<StateTensor> none;
  EXPECT_FALSE(recognise_model(none));
}

TEST(NewCheckpoint, NamesThatCannotBeGroupsAreRefused) {
  const auto problem = [](const std::vector<std::string>& keys) {
    std::vector<StateTensor> tensors;
    for (const std::string& key : keys) {
      tensors.push_back({key, DType::Float32, {}, {}});
    }
    return key_problem(tensors);
  };
  EXPECT_EQ(problem({"a.b", "a.c", "ab", "a.d.0"}), "");
  for (const char* const key : {"", ".", "a.", ".a", "a..b", "a/b", "/"}) {
    EXPECT_NE(problem({key}), "") << key;
  }
  EXPECT_NE(problem({"a", "a"}), "");
  EXPECT_NE(problem({"a.b.c", "a.b"}), "");
}

}  // namespace
}  // namespace rollcall::checkpoint_tool
