#include "trainer/train/resume/same_training.h"

#include <gmock/gmock.h>

namespace rollcall::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

data::Datasets datasets_of(const data::DataIdentity& identity, bool split = false) {
  data::Datasets datasets;
  datasets.identity = identity;
  datasets.split_by_seed = split;
  return datasets;
}

const data::DataIdentity kIdentity{.images = 100, .class_names = 1, .labels = 2, .picture_names = 3, .parts = 4};

std::string refusal(const data::Datasets& now, OtherData other, std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> told;
  const Result<void> same = check_same_data(data_of(datasets_of(kIdentity)), now, "/data", other, told);
  if (warnings != nullptr) {
    *warnings = told;
  }
  if (same) {
    return "";
  }
  EXPECT_EQ(same.error().kind, ErrorKind::Mismatch);
  return same.error().message();
}

TEST(SameData, ResumesWithoutWarning) {
  std::vector<std::string> warnings;
  EXPECT_EQ(refusal(datasets_of(kIdentity, true), OtherData::Refuse, &warnings), "");
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(SameData, RejectsAnotherNumberOfImagesAlways) {
  data::DataIdentity less = kIdentity;
  less.images = 99;
  for (const OtherData other : {OtherData::Refuse, OtherData::Accept}) {
    EXPECT_THAT(refusal(datasets_of(less), other),
                HasSubstr("--data: /data: has 99 images, but the checkpoint is of a training with 100"));
  }
}

TEST(SameData, NamesEachDifferenceAndAcceptsItIfTheSplitIsFixed) {
  const std::vector<std::pair<std::int64_t data::DataIdentity::*, std::string>> rows{
      {&data::DataIdentity::class_names, "the names of the classes differ"},
      {&data::DataIdentity::labels, "the labels of the images differ"},
      {&data::DataIdentity::parts, "the parts of the split of the images differ"},
      {&data::DataIdentity::picture_names, "the names of the images differ"}};
  for (const auto& [number, text] : rows) {
    data::DataIdentity other = kIdentity;
    other.*number = 9;
    EXPECT_THAT(refusal(datasets_of(other), OtherData::Refuse), HasSubstr(text));
    EXPECT_THAT(refusal(datasets_of(other, true), OtherData::Accept), HasSubstr(text));
    std::vector<std::string> warnings;
    EXPECT_EQ(refusal(datasets_of(other), OtherData::Accept, &warnings), "");
    EXPECT_THAT(warnings, ElementsAre(HasSubstr(text.substr(0, text.find(" are")))));
    other.*number = -1;  // not known
    EXPECT_EQ(refusal(datasets_of(other), OtherData::Refuse), "");
  }
}

TEST(SameData, AcceptsOtherValidationImagesOnlyOnRequest) {
  data::Datasets then = datasets_of(kIdentity);
  then.valid_identity = {.images = 20, .class_names = 1, .labels = 5, .picture_names = 6};
  data::Datasets now = then;
  now.valid_identity.images = 10;
  std::vector<std::string> warnings;
  const Result<void> less = check_same_data(data_of(then), now, "/data", OtherData::Refuse, warnings);
  ASSERT_FALSE(less);
  EXPECT_THAT(less.error().message(), HasSubstr("the validation images (10, not 20) differ"));
  EXPECT_THAT(less.error().message(), HasSubstr("--resume=continue-with-changes"));
  now.valid_identity = then.valid_identity;
  now.valid_identity.picture_names = 9;
  const Result<void> renamed = check_same_data(data_of(then), now, "/data", OtherData::Refuse, warnings);
  ASSERT_FALSE(renamed);
  EXPECT_THAT(renamed.error().message(), HasSubstr("the names of the images for validation differ"));
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_TRUE(check_same_data(data_of(then), now, "/data", OtherData::Accept, warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("the names of the images for validation differ")));
  EXPECT_TRUE(check_same_data({data_of(then).train, {}}, now, "/data", OtherData::Refuse, warnings))
      << "a file of an earlier version";
}

TEST(SameData, WarnsOnceIfTheCheckpointRecordsNoData) {
  std::vector<std::string> warnings;
  EXPECT_TRUE(check_same_data({}, datasets_of(kIdentity), "/data", OtherData::Refuse, warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("an earlier version wrote the checkpoint")));
}

}  // namespace
}  // namespace rollcall::train
