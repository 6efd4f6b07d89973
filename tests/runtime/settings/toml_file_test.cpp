#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"

namespace rollcall::settings {
namespace {

using namespace std::string_literals;

class DamagedToml : public testing::TestWithParam<std::string> {};

// What fuzzing found: the parser must refuse these, not abort.
INSTANTIATE_TEST_SUITE_P(Found, DamagedToml,
                         testing::Values("[host]\ntemplate = \"{host}i\"\n[~\0\0\0cetae]\ngloo = [\"ib0\"\n"s, "[~"s,
                                         "pnge =0\"20000w2cache.xdgh\320\217urge-days"s, "venv = \"a\\\n \320\217\""s,
                                         "\303\251 = 1"s, std::string(100'000, '['), "a = " + std::string(100'000, '['),
                                         "a" + std::string(50'000, '.') + "b = 1"));

TEST_P(DamagedToml, IsAnErrorThatNamesTheFile) {
  const std::string path = testing::TempDir() + "rollcall-damaged-" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path, std::ios::binary) << GetParam();
  Settings values(launch_table());
  const Result<void> applied = apply_toml_file(values, path, true);
  std::filesystem::remove(path);
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message(), testing::HasSubstr(path));
  EXPECT_EQ(applied.error().kind, ErrorKind::Configuration);
}

TEST(TomlCharacters, NonAsciiIsAcceptedInStringsAndComments) {
  const std::string path = testing::TempDir() + "rollcall-accents-" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << "\xef\xbb\xbf# caf\303\251\nvenv = \"/home/jos\303\251/\\\"v\" # \303\251\n"
                         "[cache]\nshared = '/gr\303\266\303\237e'\n";
  Settings values(launch_table());
  const Result<void> applied = apply_toml_file(values, path, true);
  std::filesystem::remove(path);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(values.text("venv"), "/home/jos\303\251/\"v");
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

// Each part of a key is a table, and tables are destroyed recursively.
INSTANTIATE_TEST_SUITE_P(Deep, DamagedToml,
                         testing::Values(repeated("a.", 30'000) + "a = 1", "[" + repeated("a.", 30'000) + "a]",
                                         repeated("\"a\".", 15'000) + "a = 1",
                                         "x = 1\n\"=\"" + repeated(".\"=\"", 12'000) + " = 1",
                                         "x = 1\n 'b'" + repeated(" . a", 15'000) + " = 1",
                                         "a = {" + repeated("b.", 30'000) + "c = 1}", repeated("a = {", 10'000),
                                         std::string(60'000, '['), "a = " + std::string(60'000, '['),
                                         "a = " + repeated("{a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = ", 1'000)));

/// The error of a file with this text.
std::string refusal_of(const std::string& text) {
  const std::string path = testing::TempDir() + "rollcall-refused-" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path, std::ios::binary) << text;
  Settings values(launch_table());
  const Result<void> applied = apply_toml_file(values, path, true);
  std::filesystem::remove(path);
  return applied ? "" : applied.error().message();
}

TEST(TomlLength, KeyLengthLimitCannotBeBypassedByQuotes) {
  const std::string key = repeated("a.", 100) + "a = 1";
  for (const std::string quotes : {"\"\"\"", "'''"}) {
    const std::string other = quotes[0] == '"' ? "'" : "\"";
    EXPECT_THAT(refusal_of("x = [" + quotes + "\n " + other + " " + quotes + ", {" + key + "}]"),
                testing::HasSubstr("triple quotes"));
    EXPECT_THAT(refusal_of("x = 1\ny = " + quotes + "a" + quotes),
                testing::HasSubstr(".toml:2: has text in triple quotes"));
  }
  EXPECT_THAT(refusal_of("\xef\xbb\xbf\"a \" = {" + key + "}"), testing::HasSubstr("too many parts"));
  EXPECT_THAT(refusal_of("x = [\"\\\"\", '\\', {" + key + "}]"), testing::HasSubstr("too many parts"));
  EXPECT_THAT(refusal_of("x = ['\"\"\"', \"'''\", \"\", ''] # \"\"\""), testing::HasSubstr("unknown setting"));
}

TEST(TomlLength, DotsOutsideKeysAreNotLimited) {
  const std::string path = testing::TempDir() + "rollcall-dots-" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << "# " << std::string(100, '.') << "\nvenv = '" << std::string(100, '.') << "' # "
                      << std::string(100, '.') << "\n";
  Settings values(launch_table());
  const Result<void> applied = apply_toml_file(values, path, true);
  std::filesystem::remove(path);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(values.text("venv"), std::string(100, '.'));
}

}  // namespace
}  // namespace rollcall::settings
