#include "trainer/data/sources/label_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rollcall::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<float> row_of(const LabelSets& sets, std::int64_t label) {
  std::vector<float> row(static_cast<std::size_t>(sets.width()), 9);
  sets.write_row(label, row);
  return row;
}

TEST(LabelSets, TurnALabelIntoARow) {
  const LabelSets sets({"", "cat dog", "bird"});
  EXPECT_THAT(sets.class_names(), ElementsAre("bird", "cat", "dog"));
  EXPECT_THAT(row_of(sets, 0), ElementsAre(0, 0, 0));
  EXPECT_THAT(row_of(sets, 1), ElementsAre(0, 1, 1));
  EXPECT_THAT(row_of(sets, 2), ElementsAre(1, 0, 0));
  EXPECT_THAT(sets.classes_of(0), IsEmpty());
  EXPECT_THAT(sets.classes_of(1), ElementsAre(1, 2));
}

TEST(LabelSets, ClassesMayBeGivenAndRenumbered) {
  const LabelSets sets({"cat dog", "dog"}, {"wolf", "dog", "cat"});
  EXPECT_THAT(row_of(sets, 0), ElementsAre(0, 1, 1));
  const std::vector<std::int64_t> outputs{3, 0, 1};
  const LabelSets others = sets.renumbered(outputs, 4);
  EXPECT_THAT(row_of(others, 0), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(row_of(others, 1), ElementsAre(1, 0, 0, 0));
}

TEST(LabelSets, BlanksSeparateNames) {
  EXPECT_THAT(names_in_cell(" dog  cat "), ElementsAre("cat", "dog"));
  EXPECT_THAT(names_in_cell("a,b c-d"), ElementsAre("a,b", "c-d"));
  EXPECT_THAT(names_in_cell("  "), IsEmpty());
}

}  // namespace
}  // namespace rollcall::data
