#include "trainer/tools/checkpoint/known_models.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "trainer/tools/checkpoint/checkpoint_file.h"

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::format::DType;
using checkpoint::interop::StateDict;
using checkpoint::interop::StateTensor;

StateDict state_of(const std::string& name, std::int64_t num_classes, const std::string& prefix = "") {
  const auto model = resnet_tensors(name, num_classes);
  StateDict state;
  for (const ModelTensor& tensor : *model) {
    state.tensors.push_back({prefix + tensor.key, DType::Float32, tensor.shape, {}});
  }
  return state;
}

std::vector<std::string> keys_of(const std::vector<StateTensor>& tensors) {
  std::vector<std::string> keys;
  std::ranges::transform(tensors, std::back_inserter(keys), &StateTensor::key);
  return keys;
}

std::optional<KnownModel> recognised(StateDict& state) {
  const auto found = recognise_model(state, "a.pth");
  EXPECT_TRUE(found) << found.error().message();
  return *found;
}

TEST(KnownModels, AreRecognisedInAnyTensorOrderAndSorted) {
  for (const char* const name :
       {"resnet20", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d",
        "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2"}) {
    StateDict state = state_of(name, 7);
    std::ranges::sort(state.tensors, {}, &StateTensor::key);
    const auto model = recognised(state);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->name, name);
    EXPECT_EQ(model->num_classes, 7);
    EXPECT_EQ(state.tensors.front().key, "conv1.weight");
    EXPECT_EQ(state.tensors.back().key, "fc.bias");
  }
  EXPECT_FALSE(resnet_tensors("resnet19", 10));
}

TEST(KnownModels, LeaveUnknownModelsUnchanged) {
  StateDict state = state_of("resnet18", 10);
  state.tensors[3].shape = {65};
  EXPECT_FALSE(recognised(state));
  state = state_of("resnet18", 10);
  state.tensors.push_back({"more", DType::Float32, {}, {}});
  EXPECT_FALSE(recognised(state));
  EXPECT_EQ(state.tensors.back().key, "more");
  state = state_of("resnet18", 10, "net.");
  state.tensors.erase(state.tensors.end() - 2, state.tensors.end());  // fc
  EXPECT_FALSE(recognised(state));
  EXPECT_EQ(state.tensors.front().key, "net.conv1.weight");
  StateDict none;
  EXPECT_FALSE(recognised(none));
}

TEST(KnownModels, AreFoundUnderAnyPrefix) {
  StateDict state = state_of("resnet18", 10, "net.inner.");
  std::vector<StateTensor> second = state_of("resnet18", 10, "teacher.").tensors;
  second[1].shape = {65};  // no model that is known
  state.tensors.insert(state.tensors.end(), second.begin(), second.end());
  state.tensors.insert(state.tensors.begin(), {"head.fc.bias", DType::Float32, {10}, {}});
  ASSERT_TRUE(recognised(state));
  EXPECT_EQ(keys_of(state.tensors), keys_of(state_of("resnet18", 10).tensors));
  EXPECT_EQ(state.prefix, "net.inner.");
  EXPECT_EQ(state.others.size(), 1 + second.size());
  EXPECT_EQ(state.others.front().key, "head.fc.bias");
  EXPECT_EQ(state.others.back().key, "teacher.fc.bias");
}

TEST(KnownModels, AreRejectedIfSeveralMatch) {
  for (const std::array<const char*, 2> names : {std::array{"student.", "ema."}, {"", "ema."}, {"ema.", ""}}) {
    StateDict state = state_of("resnet18", 10, names[0]);
    StateDict second = state_of("resnet34", 10, names[1]);
    std::ranges::move(second.tensors, std::back_inserter(state.tensors));
    const auto found = recognise_model(state, "a.pth");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().reason,
              fmt::format("holds several models, whose names have different prefixes: \"{}\" and \"{}\"", names[0],
                          names[1]));
    EXPECT_EQ(found.error().action, "rollcall-checkpoint import --key=ema");
  }
  StateDict state = state_of("resnet34", 10, "model.");
  state.others = state_of("resnet18", 10, "ema.").tensors;
  remove_wrapper_prefixes(state);
  EXPECT_FALSE(recognise_model(state, "a.pth")) << "the smaller one is beside what most names have before them";
}

/// A smaller network has no name that a larger one of the same blocks lacks.
TEST(KnownModels, AreNotMatchedAsPartOfALargerModel) {
  for (const char* const name : {"resnet34", "resnet101", "resnet152"}) {
    StateDict state = state_of(name, 7, "net.");
    const auto model = recognised(state);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->name, name);
    EXPECT_TRUE(state.others.empty()) << name;
  }
  StateDict state = state_of("resnet18", 10, "net.");
  state.tensors.push_back({"net.more", DType::Float32, {}, {}});
  EXPECT_FALSE(recognised(state));
  EXPECT_TRUE(state.others.empty());
}

TEST(KnownModels, DoNotNeedBatchCounters) {
  StateDict state = state_of("resnet50", 10);
  std::erase_if(state.tensors, [](const StateTensor& one) { return one.key.ends_with("num_batches_tracked"); });
  EXPECT_TRUE(recognised(state));
  EXPECT_EQ(state.tensors.size(), 320U - 53U);
  state.tensors.push_back({"bn1.num_batches_tracked", DType::Int64, {1}, {}});
  EXPECT_FALSE(recognised(state));
}

TEST(NewCheckpoint, RejectsKeysThatCannotBeHdf5Groups) {
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
