#include "trainer/config/own_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/config/options.h"
#include "trainer/config/train_config.h"

namespace rollcall::config {
namespace {

settings::Settings with(const char* value) {
  settings::Settings settings(trainer_table());
  EXPECT_TRUE(settings.set("own-kernels", value, "--own-kernels")) << value;
  return settings;
}

/// The names of the chosen parts; "off" if LibTorch's operators compute.
std::string chosen(const char* value) {
  const std::optional<device::KernelParts> parts = *own_kernels(with(value));
  if (!parts) {
    return "off";
  }
  std::string names;
  for (const auto& [name, part] : device::kKernelParts) {
    names += *parts.*part ? " " + std::string(name) : "";
  }
  return names;
}

TEST(OwnKernels, AreOffUntilTheyWereMeasured) {
  EXPECT_EQ(*own_kernels(settings::Settings(trainer_table())), std::nullopt);
  EXPECT_EQ(chosen("auto"), "off");
}

TEST(OwnKernels, HaveThePartsOfTheList) {
  const std::string all = " residual-gradient relu-mask stem-pool merge-at-once reverse-order weights-at-once";
  EXPECT_EQ(chosen("on"), all);
  EXPECT_EQ(chosen("off"), "off");
  EXPECT_EQ(chosen("basic"), "");
  EXPECT_EQ(chosen("stem-pool, relu-mask"), " relu-mask stem-pool");
  EXPECT_EQ(chosen("true"), all);  // of version 0.1.0, where it was a switch
  EXPECT_EQ(chosen("false"), "off");
  EXPECT_TRUE(make_process_group_config(with("on")).arithmetic.own_kernels);
  EXPECT_FALSE(make_process_group_config(with("auto")).arithmetic.own_kernels);
}

TEST(OwnKernels, RejectUnknownParts) {
  for (const char* const value : {"relu-masks", "basic,on", "7"}) {
    const auto refused = make_train_config(with(value), {});
    ASSERT_FALSE(refused) << value;
    EXPECT_EQ(refused.error().setting, "--own-kernels");
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    EXPECT_THAT(refused.error().reason, ::testing::HasSubstr("is not one of basic, residual-gradient"));
  }
}

}  // namespace
}  // namespace rollcall::config
