#include "trainer/train/observer/run_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rollcall::train {
namespace {

using testing::ElementsAre;

TEST(ShownArguments, HideValuesOfVariablesAndOfOptionsNamedLikeSecrets) {
  EXPECT_THAT(shown_arguments({"--variables=HF_TOKEN=s3cr3t,B=c", "--lr=0.1"}),
              ElementsAre("--variables=(not shown)", "--lr=0.1"));
  EXPECT_THAT(shown_arguments({"--variables", "HF_TOKEN=s3cr3t", "--lr", "0.1"}),
              ElementsAre("--variables", "(not shown)", "--lr", "0.1"));
  EXPECT_THAT(shown_arguments({"--hf-token=s3cr3t", "--Password", "s3cr3t", "--epochs=2"}),
              ElementsAre("--hf-token=(not shown)", "--Password", "(not shown)", "--epochs=2"));
}

TEST(ShownArguments, KeepOtherArgumentsUnchanged) {
  const std::vector<std::string> plain{"--data=/d/token-free", "--run-name", "secret-model", "train", "--"};
  EXPECT_EQ(shown_arguments(plain), plain);
  EXPECT_THAT(shown_arguments({"--variables"}), ElementsAre("--variables")) << "its value is missing";
  EXPECT_TRUE(shown_arguments({}).empty());
}

}  // namespace
}  // namespace rollcall::train
