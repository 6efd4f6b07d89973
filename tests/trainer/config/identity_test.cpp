#include "trainer/config/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/config/options.h"

namespace rollcall::config {
namespace {

using settings::Settings;
using testing::ElementsAre;
using testing::IsEmpty;

Settings with(std::initializer_list<std::pair<const char*, const char*>> given) {
  Settings settings(trainer_table());
  for (const auto& [name, text] : given) {
    EXPECT_TRUE(settings.set(name, text, "test"));
  }
  return settings;
}

std::string json(std::initializer_list<std::pair<const char*, const char*>> given) {
  return settings::print_config(with(given), true);
}

std::vector<std::string> options(const std::vector<Change>& changes) {
  std::vector<std::string> names;
  for (const Change& change : changes) {
    names.push_back(change.option);
  }
  return names;
}

/// Another accepted text of a setting.
std::string other_text(const settings::Setting& setting) {
  for (const char* const text :
       {"7",      "0.5",         "0.25",     "true",     "false", "never",    "sgd",  "cosine", "bf16", "fp16",
        "none",   "shards",      "resnet18", "metadata", "lines", "mpi",      "skip", "wait",   "sync", "device",
        "random", "randaugment", "pad",      "sqrt",     "fsdp",  "bfloat16", "fail", "25",     "100",  "neighbour",
        "on",     "bicubic",     "bce",      "goyal",    "deep",  "balanced", "test"}) {
    Settings settings(trainer_table());
    if (text != setting.default_text && settings.set(setting.name, text, "test")) {
      return settings.text(setting.name);
    }
  }
  return "";
}

TEST(Identity, EverySettingEitherDefinesTheTrainingOrMayChange) {
  const std::string before = json({});
  for (const settings::Setting& setting : trainer_table()) {
    const std::string text = other_text(setting);
    ASSERT_NE(text, "") << setting.name;
    const Settings now = with({{std::string(setting.name).c_str(), text.c_str()}});
    const auto found = options(changes(before, now));
    if (may_change(setting.name)) {
      EXPECT_THAT(found, IsEmpty()) << setting.name;
    } else {
      EXPECT_THAT(found, ElementsAre("--" + std::string(setting.name)));
    }
  }
}

TEST(Identity, DefaultsOfEarlierVersionsAreTodays) {
  EXPECT_THAT(options(changes(json({{"image-dtype", "float32"}}), with({}))), IsEmpty());
  EXPECT_THAT(options(changes(json({{"image-dtype", "uint8"}}), with({}))), ElementsAre("--image-dtype"));
  EXPECT_THAT(options(changes(json({{"image-dtype", "float32"}}), with({}), /*on_device=*/true)),
              ElementsAre("--image-dtype"));
  const Settings exact = with({{"elastic-exact", "4"}});
  EXPECT_THAT(options(changes(json({{"elastic-exact", "4"}, {"own-kernels", "true"}}), exact)), IsEmpty());
  EXPECT_THAT(options(changes(json({{"elastic-exact", "4"}, {"own-kernels", "false"}}), exact)),
              ElementsAre("--own-kernels"));
}

TEST(Identity, ElasticExactAlsoPinsChannelsLastAndOwnKernels) {
  const std::string before = json({{"elastic-exact", "4"}});
  for (const char* const name : {"channels-last", "own-kernels"}) {
    EXPECT_THAT(options(changes(before, with({{"elastic-exact", "4"}, {name, "off"}}))),
                ElementsAre("--" + std::string(name)));
  }
}

TEST(Identity, ModelDataSeedOptimizerAndScheduleDefineATraining) {
  for (const char* const name : {"model", "seed", "optimizer", "lr", "lr-schedule", "weight-decay", "momentum",
                                 "adam-beta1", "precision", "mixup", "image-size", "label-smoothing", "sync-bn"}) {
    EXPECT_FALSE(may_change(name)) << name;
  }
}

TEST(Identity, EqualNumbersInOtherSpellingsAreNoChange) {
  EXPECT_THAT(changes(json({{"lr", "3e-4"}}), with({{"lr", "0.0003"}})), IsEmpty());
  EXPECT_EQ(changes_text(changes(json({{"lr", "3e-4"}}), with({{"lr", "0.0004"}}))), "--lr was 3e-4 and is 0.0004");
  EXPECT_THAT(changes(json({{"lr-factors", "fc=2,bn1=3"}}), with({{"lr-factors", "bn1=3.0,fc=2"}})), IsEmpty());
  EXPECT_THAT(options(changes(json({{"lr-factors", "fc=2"}}), with({{"lr-factors", "fc=3"}}))),
              ElementsAre("--lr-factors"));
}

TEST(Identity, TheEndDefinesTheTrainingOnlyIfTheScheduleUsesIt) {
  EXPECT_THAT(changes(json({{"epochs", "9"}}), with({{"epochs", "8"}, {"max-steps", "3"}})), IsEmpty());
  const auto found = changes(json({{"epochs", "9"}, {"lr-schedule", "cosine"}}),
                             with({{"epochs", "8"}, {"max-steps", "3"}, {"lr-schedule", "cosine"}}));
  EXPECT_THAT(options(found), ElementsAre("--epochs", "--max-steps"));
}

TEST(Identity, SettingsUnknownToAnOlderVersionHadTheirDefault) {
  const std::string old =
      R"({"lr": {"value": "0.1", "origin": "--lr"}, "since-removed": {"value": "1", "origin": "default"}, "site": {}})";
  EXPECT_THAT(changes(old, with({{"lr", "0.1"}})), IsEmpty());
  EXPECT_THAT(options(changes(old, with({{"lr", "0.1"}, {"mixup", "0.2"}}))), ElementsAre("--mixup"));
}

TEST(Identity, SettingsThatOnlyTheOtherVersionKnowsAreChangesIfTheyWereGiven) {
  const std::string newer =
      R"({"lr": {"value": "0.1", "origin": "--lr"}, "later": {"value": "2", "origin": "--later"}})";
  const auto found = changes(newer, with({{"lr", "0.1"}}));
  EXPECT_EQ(changes_text(found), "--later was 2 and is unknown to this version");
  EXPECT_THAT(options(differences_among_ranks(newer, with({{"lr", "0.1"}}))), ElementsAre("--later"));
  for (const char* const entry : {"7", "[]", R"({"value": "2"})", R"({"origin": "--later"})"}) {
    EXPECT_THAT(changes(std::string(R"({"later": )") + entry + "}", with({})), IsEmpty()) << entry;
  }
}

TEST(Identity, IgnoresInvalidConfigurations) {
  for (const char* const text : {"", "{", "[1]", "7", "{}"}) {
    EXPECT_THAT(changes(text, with({{"lr", "0.7"}})), IsEmpty()) << text;
  }
  EXPECT_EQ(setting_then("{\"lr\": 3}", "lr"), "");
  const std::string deep = std::string(20, '[') + std::string(20, ']');
  EXPECT_EQ(setting_then(R"({"lr": {"value": "3"}, "more": )" + deep + "}", "lr"), "") << "a file may fill the memory";
  EXPECT_EQ(changes_text({{"--init-from", "", "a.h5"}}), "--init-from was not given and is a.h5");
}

}  // namespace
}  // namespace rollcall::config
