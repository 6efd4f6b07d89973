#include "trainer/report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "trainer/report/html.h"

namespace rollcall::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Chart chart_of(std::vector<double> values, const std::string& name = "loss") {
  Chart chart;
  chart.id = "x";
  chart.title = "Loss";
  chart.lines.push_back({name, {}});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i + 1);
    chart.lines.front().points.push_back({step, step, 1, values[i], values[i], values[i]});
  }
  return chart;
}

TEST(Ticks, AreRoundNumbersWithinTheAxis) {
  EXPECT_THAT(ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(ticks(0.13, 0.42, 3),
              ElementsAre(testing::DoubleEq(0.2), testing::DoubleEq(0.3), testing::DoubleEq(0.4)));
  EXPECT_TRUE(ticks(1, 1, 5).empty());
}

TEST(Ticks, AreFewForEveryRange) {
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_LE(ticks(0.01, 0.01 + 2e-18, 5).size(), 11U);
  EXPECT_LE(ticks(1e15, 1e15 + 0.25, 5).size(), 11U);
  EXPECT_LE(ticks(-kMost, kMost, 5).size(), 11U);
  EXPECT_LE(ticks(0, std::numeric_limits<double>::denorm_min(), 5).size(), 11U);
}

TEST(ChartTest, DrawsThePointsAndDescribesThem) {
  const std::string html = chart_html(chart_of({4, 2, 1}));
  EXPECT_THAT(html, HasSubstr("first 4, last 1, between 1 and 4"));
  EXPECT_THAT(html, HasSubstr(R"("x":[1,2,3],"m":[4,2,1])"));
  EXPECT_THAT(html, testing::Not(HasSubstr("class=\"band")));  // each point is one value
}

TEST(ChartTest, EqualValuesGiveALine) {
  EXPECT_THAT(chart_html(chart_of({0.01, 0.01, 0.01 + 2e-18})), HasSubstr("class=\"line c0\""));
  EXPECT_THAT(chart_html(chart_of({0, 0})), HasSubstr("class=\"line c0\""));
  EXPECT_THAT(chart_html(chart_of({5})), HasSubstr("class=\"line c0\""));
}

TEST(ChartTest, NamesCannotCloseTheScript) {
  const std::string html = chart_html(chart_of({1, 2}, "</script><b>\xff"));
  const std::string data = html.substr(html.find("application/json"));
  EXPECT_EQ(data.find("</script>"), data.find("</script></figure>"));
  EXPECT_EQ(json_text("a\"<"), "\"a\\\"\\u003c\"");
}

TEST(ShortNumbers, HaveFourDigits) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(1234.5678), "1235");
  EXPECT_EQ(short_number(0.123456), "0.1235");
  EXPECT_EQ(short_number(0.00001), "1e-05");
  EXPECT_EQ(short_number(99'999), "99999");
  EXPECT_EQ(short_number(100'000), "100k");
  EXPECT_EQ(short_number(-213'456), "-213.5k");
  EXPECT_EQ(short_number(12'345'678), "12.35M");
  EXPECT_EQ(short_number(2e9), "2G");
  EXPECT_EQ(short_number(5e12), "5e+12");
  EXPECT_EQ(short_number(std::numeric_limits<double>::quiet_NaN()), "-");
}

}  // namespace
}  // namespace rollcall::report
