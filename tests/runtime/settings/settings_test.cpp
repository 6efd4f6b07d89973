#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::array kTable{
    Setting{"a", Kind::Choice, "x", "x|y", "a choice <of two>", "First", "x|y"},
    Setting{"long.name", Kind::Path, "", "DIR", "a path", "Second"},
};

TEST(PrintConfig, ShowsNameValueAndOriginInColumns) {
  Settings settings(kTable);
  ASSERT_TRUE(settings.set("a", "y", "--a"));
  EXPECT_EQ(print_config(settings, false),
            "a          y        --a\n"
            "long.name  (empty)  default\n");
}

TEST(PrintConfig, JsonHoldsEverySettingWithItsOrigin) {
  Settings settings(launch_table());
  ASSERT_TRUE(settings.set("venv", "/a \"quoted\" \\ path", "--venv"));
  const auto json = nlohmann::json::parse(print_config(settings, true));
  EXPECT_EQ(json.size(), launch_table().size());
  EXPECT_EQ(json["venv"]["value"], "/a \"quoted\" \\ path");
  EXPECT_EQ(json["venv"]["origin"], "--venv");
  EXPECT_EQ(json["debug"]["origin"], "default");
}

TEST(PrintConfig, PrintsAValueThatIsNotUtf8) {
  Settings settings(launch_table());
  ASSERT_TRUE(settings.set("venv", "/a\xff", "--venv"));
  EXPECT_THAT(print_config(settings, true), HasSubstr("/a"));
}

TEST(SettingsMarkdown, PrintsATablePerGroupAndEscapesHtml) {
  EXPECT_EQ(settings_markdown("Title", kTable),
            "## Title\n\n"
            "### First\n\n| setting | default | accepts | meaning |\n|---|---|---|---|\n"
            "| `a` | `x` | x, y | a choice &lt;of two>. |\n"
            "\n### Second\n\n| setting | default | accepts | meaning |\n|---|---|---|---|\n"
            "| `long.name` |  | a path | a path. |\n");
}

}  // namespace
}  // namespace rollcall::settings
