#include "trainer/data/sources/label_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/support/temporary_folder.h"
#include "trainer/data/datasets/datasets.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class LabelList : public testing::Test {
 protected:
  LabelList() {
    for (const char* const name : {"a.jpg", "b, \"best\".png", "c\nd.jpg", "list/0001.png", "list/0002.jpg"}) {
      write(name, "");
    }
  }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(data_.file(name)).parent_path());
    std::ofstream(data_.file(name)) << text;
  }

  [[nodiscard]] Result<ImageTree> read(const std::string& text, const ListOptions& options = {}) const {
    write("list.csv", text);
    SourceIndices indices;
    return read_label_list(data_.file("list.csv"), options, indices);
  }

  void expect_error(const std::string& text, const std::string& row, const std::string& reason,
                    ErrorKind kind = ErrorKind::BadData, const ListOptions& options = {}) const {
    const Result<ImageTree> tree = read(text, options);
    ASSERT_FALSE(tree) << text;
    EXPECT_EQ(tree.error().value, data_.file("list.csv") + row) << text;
    EXPECT_THAT(tree.error().reason, HasSubstr(reason)) << text;
    EXPECT_EQ(tree.error().kind, kind) << text;
  }

  static std::vector<std::pair<std::string, std::uint32_t>> samples_of(const ImageTree& tree) {
    std::vector<std::pair<std::string, std::uint32_t>> samples;
    for (std::size_t i = 0; i < tree.size(); ++i) {
      samples.emplace_back(tree.name(i), tree.label(i));
    }
    return samples;
  }

  const test::TemporaryFolder data_;
};

TEST_F(LabelList, SamplesHaveTheOrderOfTheRowsAndClassesAreSorted) {
  const Result<ImageTree> tree = read("label,more,path\ndog,1,list/0002.jpg\ncat,2,a.jpg\ndog,,list/0001.png\n");
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_THAT(tree->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(samples_of(*tree),
              ElementsAre(std::pair("list/0002.jpg", 1U), std::pair("a.jpg", 0U), std::pair("list/0001.png", 1U)));
  EXPECT_EQ(tree->path(1), data_.file("a.jpg"));
}

TEST_F(LabelList, FieldsMayBeQuotedAndLinesMayEndAsOnWindows) {
  const Result<ImageTree> tree =
      read("\xEF\xBB\xBFpath,label\r\n\"b, \"\"best\"\".png\",\"a \"\"cat\"\"\"\r\n\r\n\"c\nd.jpg\",x,y");
  ASSERT_FALSE(tree);  // the last row has three fields
  EXPECT_EQ(tree.error().value, data_.file("list.csv") + ", row 4");
  const Result<ImageTree> correct =
      read("\xEF\xBB\xBFpath,label\r\n\"b, \"\"best\"\".png\",\"a \"\"cat\"\"\"\r\n\r\n\"c\nd.jpg\",\"x,y\"");
  ASSERT_TRUE(correct) << correct.error().message();
  EXPECT_THAT(correct->class_names(), ElementsAre("a \"cat\"", "x,y"));
  EXPECT_THAT(samples_of(*correct), ElementsAre(std::pair("b, \"best\".png", 0U), std::pair("c\nd.jpg", 1U)));
}

TEST_F(LabelList, AnIdIsAFileBesideTheListOrInTheFolderOfItsName) {
  const Result<ImageTree> tree = read("id,label\n0001,x\na,x\n0002,y\n");
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_THAT(samples_of(*tree),
              ElementsAre(std::pair("list/0001.png", 0U), std::pair("a.jpg", 0U), std::pair("list/0002.jpg", 1U)));
}

TEST_F(LabelList, ClassNamesGiveTheNumbersOfTheClasses) {
  const Result<ImageTree> tree =
      read("path,label\na.jpg,cat\n" + data_.file("list/0001.png") + ",dog\n", {.class_names = {"wolf", "dog", "cat"}});
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_EQ(tree->class_names().size(), 3U);
  EXPECT_EQ(tree->label(0), 2U);
  EXPECT_EQ(tree->label(1), 1U);
  FetchBuffer buffer;
  EXPECT_TRUE(ImageFolder(*tree).fetch(1, buffer));  // an absolute path
}

TEST_F(LabelList, WhatIsWrongIsReportedWithItsRow) {
  expect_error("path,label\na.jpg,cat\nno.jpg,cat\n", ", row 3",
               "names " + data_.file("no.jpg") + ", which does not exist", ErrorKind::NoInput);
  expect_error("path,label\na.jpg,cat\na.jpg,bird\n", ", row 3", "has the unknown label 'bird'", ErrorKind::BadData,
               {.class_names = {"cat", "dog"}});
  expect_error("path,label\na.jpg\n", ", row 2", "has 1 fields instead of 2");
  expect_error("path,label\na.jpg,\n", ", row 2", "has no label");
  expect_error("path,label\n,cat\n", ", row 2", "has no path");
  expect_error("path,label\n\"a.jpg,cat\n", ", row 2", "begins a quote that does not end");
  expect_error("path,label,split\na.jpg,cat,dev\n", ", row 2", "names the part 'dev'");
  expect_error("file,label\na.jpg,cat\n", ", row 1", "names no column path or id");
  expect_error("path,breed\na.jpg,cat\n", ", row 1", "names no column label");
  expect_error("", ", row 1", "names no column");
  expect_error("path,label\n", "", "lists no images");
}

TEST_F(LabelList, AnImageMayHaveSeveralClassesOrNone) {
  const std::string text = "path,labels\na.jpg,dog  cat\nlist/0001.png,\nlist/0002.jpg,cat dog\na.jpg,bird\n";
  const Result<ImageTree> tree = read(text, {.several = true});
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_THAT(tree->class_names(), ElementsAre("", "bird", "cat dog"));
  EXPECT_THAT(samples_of(*tree), ElementsAre(std::pair("a.jpg", 2U), std::pair("list/0001.png", 0U),
                                             std::pair("list/0002.jpg", 2U), std::pair("a.jpg", 1U)));
  expect_error(text, ", row 1", "has a column labels");
  expect_error(text, ", row 5", "has the unknown label 'bird'", ErrorKind::BadData,
               {.class_names = {"dog", "cat"}, .several = true});
  expect_error("path,label\na.jpg,cat dog cat\n", ", row 2", "has the label 'cat' twice", ErrorKind::BadData,
               {.several = true});
  expect_error("path,label\na.jpg,\n", "", "gives no image a class", ErrorKind::BadData, {.several = true});
  for (const char* const cell : {"\"cat, dog\"", "cat;dog", "cat|dog", "cat\tdog"}) {
    expect_error(std::string("path,label\na.jpg,") + cell + "\n", ", row 2", "looks like a list with another separator",
                 ErrorKind::BadData, {.several = true});
  }
  EXPECT_TRUE(read("path,label\na.jpg,a|b\n", {.class_names = {"a|b"}, .several = true}));
  expect_error("path,label,labels\na.jpg,cat,cat dog\n", ", row 1", "has the columns label and labels",
               ErrorKind::BadData, {.several = true});
}

TEST_F(LabelList, BothPartsOfImagesWithSeveralClassesHaveTheClassesOfTheTrainingList) {
  write("train.csv", "path,label\na.jpg,cat dog\nlist/0001.png,bird\n");
  write("val.csv", "path,label\nlist/0002.jpg,dog\nlist/0001.png,\n");
  SourceIndices indices;
  const Result<Datasets> datasets = make_datasets({.source = data_.path(), .several_labels = true}, indices);
  ASSERT_TRUE(datasets) << datasets.error().message();
  EXPECT_THAT(datasets->class_names, ElementsAre("bird", "cat", "dog"));
  EXPECT_EQ(datasets->num_classes, 3);
  const LabelSets& sets = *datasets->valid->label_sets();
  EXPECT_THAT(sets.classes_of(datasets->valid->label(0)), ElementsAre(2));
  EXPECT_TRUE(sets.classes_of(datasets->valid->label(1)).empty());
  EXPECT_THAT(datasets->train->label_sets()->classes_of(datasets->train->label(0)), ElementsAre(1, 2));
  write("val.csv", "path,label\nlist/0002.jpg,dog wolf\n");
  SourceIndices others;
  const Result<Datasets> unknown = make_datasets({.source = data_.path(), .several_labels = true}, others);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().value, data_.file("val.csv") + ", row 2");
  for (const std::string& source : {data_.file("list"), std::string("fake")}) {
    EXPECT_EQ(make_datasets({.source = source, .several_labels = true}, indices).error().setting, "--loss");
  }
}

TEST_F(LabelList, AnotherOrderOfTheClassesOfSeveralIsOtherData) {
  write("one/list.csv", "path,label,split\n../a.jpg,cat dog,train\n../list/0001.png,dog,val\n");
  write("two/train.csv", "path,label\n../a.jpg,cat dog\n");
  write("two/val.csv", "path,label\n../list/0001.png,dog\n");
  for (const char* const source : {"one/list.csv", "two"}) {
    const auto identities = [&](const std::string& names) {
      write("names.txt", names);
      SourceIndices indices;
      const Result<Datasets> datasets = make_datasets({.source = data_.file(source),
                                                       .class_names = names.empty() ? "" : data_.file("names.txt"),
                                                       .several_labels = true},
                                                      indices);
      EXPECT_TRUE(datasets) << datasets.error().message();
      return std::pair(datasets->identity, datasets->valid_identity);
    };
    const auto sorted = identities("");
    EXPECT_EQ(identities("cat\ndog\n"), sorted) << source;
    const auto turned = identities("dog\ncat\n");
    EXPECT_NE(turned.first.class_names, sorted.first.class_names) << source;
    EXPECT_NE(turned.second.class_names, sorted.second.class_names) << source;
    EXPECT_EQ(turned.first.labels, sorted.first.labels) << source;
  }
}

TEST_F(LabelList, TheColumnSplitNamesTheParts) {
  write("list.csv",
        "path,label,split\na.jpg,cat,train\nlist/0001.png,dog,val\nlist/0002.jpg,dog,test\na.jpg,dog,train\n");
  SourceIndices indices;
  const Result<Datasets> datasets = make_datasets({.source = data_.file("list.csv")}, indices);
  ASSERT_TRUE(datasets) << datasets.error().message();
  EXPECT_EQ(datasets->train->size(), 2);
  EXPECT_EQ(datasets->valid->size(), 1);
  EXPECT_EQ(datasets->valid->describe(0), data_.file("list/0001.png"));
  EXPECT_FALSE(datasets->split_by_seed);
}

TEST_F(LabelList, AValidationListHasTheClassesOfTheTrainingList) {
  write("train.csv", "path,label\na.jpg,cat\nlist/0001.png,dog\n");
  write("val.csv", "path,label\nlist/0002.jpg,dog\n");
  SourceIndices indices;
  const Result<Datasets> datasets = make_datasets({.source = data_.path()}, indices);
  ASSERT_TRUE(datasets) << datasets.error().message();
  EXPECT_THAT(datasets->valid->class_names(), ElementsAre("cat", "dog"));
  write("val.csv", "path,label\nlist/0002.jpg,bird\n");
  SourceIndices others;
  const Result<Datasets> unknown = make_datasets({.source = data_.path()}, others);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().value, data_.file("val.csv") + ", row 2");
}

TEST_F(LabelList, ClassNamesAreReadFromAFile) {
  write("list.csv", "path,label\n" + std::string("a.jpg,cat\na.jpg,dog\na.jpg,dog\na.jpg,dog\na.jpg,dog\na.jpg,dog\n") +
                        "a.jpg,dog\na.jpg,dog\na.jpg,dog\na.jpg,dog\na.jpg,dog\n");
  const auto made = [&](const std::string& names) {
    write("names.txt", names);
    SourceIndices indices;
    return make_datasets({.source = data_.file("list.csv"), .class_names = data_.file("names.txt")}, indices);
  };
  const Result<Datasets> datasets = made("dog\ncat\nwolf\n");
  ASSERT_TRUE(datasets) << datasets.error().message();
  EXPECT_THAT(datasets->class_names, ElementsAre("dog", "cat", "wolf"));
  EXPECT_EQ(made("dog\ncat\ndog\n").error().setting, "--class-names");
  EXPECT_EQ(made("\n").error().setting, "--class-names");
  SourceIndices indices;
  for (const std::string& source : {data_.path(), std::string("fake")}) {
    EXPECT_EQ(make_datasets({.source = source, .class_names = "x"}, indices).error().setting, "--class-names");
  }
}

TEST_F(LabelList, TheIndexIsKeptAndMadeAgainOnceTheListHasChanged) {
  const test::TemporaryFolder kept;
  const auto rows_read = [&](const std::string& folder) {
    SourceIndices indices(folder);
    const Result<ImageTree> tree = read_label_list(data_.file("list.csv"), {}, indices);
    EXPECT_TRUE(tree);
    const std::string path = index_path(kept.path(), tree->index.about().source);
    EXPECT_TRUE(write_index(path, tree->index, std::numeric_limits<std::int64_t>::max()));
    return indices.found.load();
  };
  write("list.csv", "path,label\na.jpg,cat\n");
  EXPECT_EQ(rows_read(""), 1);
  EXPECT_EQ(rows_read(kept.path()), 0);
  write("list.csv", "path,label\na.jpg,cat\na.jpg,dog\n");
  EXPECT_EQ(rows_read(kept.path()), 2);
}

}  // namespace
}  // namespace rollcall::data
