#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/settings/launch_settings.h"

namespace rollcall::settings {
namespace {

using namespace std::string_literals;

class DamagedToml : public testing::TestWithParam<std::string> {};

// What fuzzing found: the parser must refuse these, not abort.
INSTANTIATE_TEST_SUITE_P(Found, DamagedToml,
                         testing::Values("[host]\ntemplate = \"{host}i\"\n[~\0\0\0cetae]\ngloo = [\"ib0\"\n"s, "[~"s,
                                         std::string(100'000, '['), "a = " + std::string(100'000, '['),
                                         "a" + std::string(50'000, '.') + "b = 1"));

TEST_P(DamagedToml, IsAnErrorThatNamesTheFile) {
  const std::string path = testing::TempDir() + "rollcall-damaged-" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path, std::ios::binary) << GetParam();
  Settings values(launch_table());
  const Result<void> applied = apply_toml_file(values, path, true);
  std::filesystem::remove(path);
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message(), testing::HasSubstr(path));
  EXPECT_EQ(applied.error().exit_code, ExitCode::Configuration);
}

}  // namespace
}  // namespace rollcall::settings
