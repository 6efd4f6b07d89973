#include "trainer/data/datasets/datasets.h"

#include <gtest/gtest.h>
#include <filesystem>
#include <set>
#include <span>

#include "tests/support/rgb_image.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_images.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/data/sources/class_names.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/sources/left_out.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

Result<Datasets> made(const DataOptions& options) {
  SourceIndices indices;
  return make_datasets(options, indices);
}

Result<ImageTree> scanned(const std::string& path) {
  SourceIndices indices;
  return scan_image_tree(path, indices);
}

Result<std::int64_t> read(const Dataset& dataset, std::int64_t index, std::uint64_t epoch, std::vector<float>& pixels,
                          int side) {
  Workspace workspace;
  return dataset.read(index, epoch, test::square_of(pixels, side), workspace);
}

/// A temporary folder with images in it.
class ImageTreeOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "rollcall_datasets_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(root_); }

  void add(const std::string& path, unsigned seed = 1) const {
    fs::create_directories((root_ / path).parent_path());
    const auto pixels = test::smooth_pixels(20, 16, seed);
    const bool png = path.ends_with(".png");
    test::write_file(root_ / path, png ? test::make_png(pixels.data(), 20, 16) : test::make_jpeg(pixels, 20, 16));
  }
  [[nodiscard]] DataOptions options() const {
    DataOptions result;
    result.source = root_.string();
    result.image_size = 8;
    return result;
  }
  void expect_error(ExitCode code, const std::string& text) const {
    const auto datasets = made(options());
    ASSERT_FALSE(datasets);
    EXPECT_EQ(datasets.error().exit_code(), code);
    EXPECT_NE(datasets.error().message().find(text), std::string::npos) << datasets.error().message();
  }

  fs::path root_;
};

TEST_F(ImageTreeOnDisk, ListsWithAnotherSplitAreOtherData) {
  for (const char* const path : {"a.jpg", "b.jpg", "c.jpg"}) {
    add(path);
  }
  const auto identities = [&](const std::string& a, const std::string& b) {
    const std::string rows = "path,label,split\na.jpg,x," + a + "\nb.jpg,x," + b + "\nc.jpg,x,train\n";
    test::write_file(root_ / "list.csv", std::as_bytes(std::span(rows)));
    const auto datasets = made({.source = (root_ / "list.csv").string()});
    return std::pair(datasets->identity, datasets->valid_identity);
  };
  const auto first = identities("train", "val");
  EXPECT_EQ(identities("train", "valid"), first);
  EXPECT_NE(identities("val", "train").first, first.first);
  EXPECT_NE(identities("val", "train").second, first.second);
  EXPECT_NE(identities("test", "val").first, first.first);
  EXPECT_EQ(identities("test", "val").first.labels, first.first.labels);  // as in checkpoints without the parts
  EXPECT_EQ(identities("train", "val").second.parts, first.first.parts);
}

TEST_F(ImageTreeOnDisk, IsListedInTheOrderOfImageFolder) {
  for (const char* path :
       {"zebra/b.jpg", "zebra/a.JPEG", "zebra/sub/0.png", "Ant/x.PNG.jpg", "Ant/B.jpg", "ant/c.jpg"}) {
    add(path);
  }
  test::write_file(root_ / "zebra/notes.txt", {});
  test::write_file(root_ / "README.jpg", {});
  const auto tree = scanned(root_.string());
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_EQ(tree->class_names(), (std::vector<std::string>{"Ant", "ant", "zebra"}));
  std::vector<std::string> paths;
  for (std::size_t file = 0; file < tree->size(); ++file) {
    paths.emplace_back(tree->name(file));
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"Ant/B.jpg", "Ant/x.PNG.jpg", "ant/c.jpg", "zebra/a.JPEG", "zebra/b.jpg",
                                             "zebra/sub/0.png"}));
  EXPECT_EQ(tree->label(tree->size() - 1), 2U);
}

TEST_F(ImageTreeOnDisk, UsesTrainAndValFolders) {
  for (const char* valid : {"val", "valid", "validation"}) {
    for (const char* name : {"train/cat/1.jpg", "train/cat/2.png", "train/dog/1.jpg"}) {
      add(name);
    }
    add(std::string(valid) + "/cat/9.jpg");
    add(std::string(valid) + "/dog/9.jpg");
    const auto datasets = made(options());
    ASSERT_TRUE(datasets) << datasets.error().message();
    EXPECT_EQ(datasets->train->size(), 3);
    EXPECT_EQ(datasets->valid->size(), 2);
    EXPECT_EQ(datasets->num_classes, 2);
    EXPECT_EQ(datasets->class_names, (std::vector<std::string>{"cat", "dog"}));
    std::vector<float> pixels;
    EXPECT_EQ(*read(*datasets->valid, 1, 0, pixels, 8), 1);
    EXPECT_EQ(*read(*datasets->train, 1, 0, pixels, 8), 0);
    fs::remove_all(root_ / valid);
  }
}

TEST_F(ImageTreeOnDisk, DanglingClassLinkIsAnError) {
  add("a/1.jpg");
  add("b/below/2.jpg");
  fs::create_symlink(root_ / "nowhere", root_ / "c");
  expect_error(ExitCode::NoInput, "c: is a link whose target cannot be reached: No such file or directory");
  fs::remove(root_ / "c");
  fs::create_symlink("more", root_ / "b/more");  // to itself
  expect_error(ExitCode::NoInput,
               "b/more: is a link whose target cannot be reached: Too many levels of symbolic links");
  fs::remove(root_ / "b/more");
  fs::create_symlink(root_ / "nowhere.jpg", root_ / "a/gone.jpg");  // a picture that cannot be read
  const auto tree = scanned(root_.string());
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_EQ(tree->size(), 3U);
}

TEST_F(ImageTreeOnDisk, MissingTrainOrValFolderIsAnError) {
  for (const char* valid : {"val", "valid", "validation"}) {
    add(std::string(valid) + "/cat/1.jpg");
    expect_error(ExitCode::NoInput, std::string("holds ") + valid + ", but not train");
    fs::create_symlink(root_ / "nowhere", root_ / "train");
    expect_error(ExitCode::NoInput, "train: is a link whose target cannot be reached");
    fs::remove(root_ / "train");
    fs::remove_all(root_ / valid);
  }
  add("train/cat/1.jpg");
  fs::create_symlink(root_ / "nowhere", root_ / "val");
  expect_error(ExitCode::NoInput, "val: is a link whose target cannot be reached");
}

TEST_F(ImageTreeOnDisk, MayHaveClassesValidAndInvalid) {
  for (int i = 0; i < 10; ++i) {
    add("valid/" + std::to_string(i) + ".jpg");
    add("invalid/" + std::to_string(i) + ".jpg");
  }
  const auto datasets = made(options());
  ASSERT_TRUE(datasets) << datasets.error().message();
  EXPECT_EQ(datasets->class_names, (std::vector<std::string>{"invalid", "valid"}));
}

TEST_F(ImageTreeOnDisk, AugmentationDependsOnTheEpochInTrainingOnly) {
  for (const char* name : {"train/a/1.jpg", "val/a/1.jpg"}) {
    add(name);
  }
  const auto datasets = made(options());
  const auto pixels = [](const Dataset& dataset, std::uint64_t epoch) {
    std::vector<float> result;
    EXPECT_TRUE(read(dataset, 0, epoch, result, 8));
    return result;
  };
  EXPECT_EQ(pixels(*datasets->train, 1), pixels(*datasets->train, 1));
  EXPECT_NE(pixels(*datasets->train, 1), pixels(*datasets->train, 2));
  for (std::uint64_t epoch = 2; epoch < 20; ++epoch) {
    EXPECT_EQ(pixels(*datasets->valid, 1), pixels(*datasets->valid, epoch)) << epoch;
  }
}

TEST_F(ImageTreeOnDisk, AugmentationDependsOnTheImageNotItsPosition) {
  for (const char* name : {"a/0.jpg", "a/1.jpg", "a/2.jpg"}) {
    add(name);  // equal pictures: only the random numbers differ
  }
  const auto source = std::make_shared<ImageFolder>(*scanned(root_.string()));
  const Transform transform = TrainTransform{.image_size = 8};
  const ImageDataset all(source, std::nullopt, transform, 1);
  const ImageDataset part(source, std::vector<std::int64_t>{2, 0}, transform, 1);
  std::vector<float> one;
  std::vector<float> other;
  for (const auto& [in_all, in_part] : {std::pair{2, 0}, {0, 1}}) {
    ASSERT_TRUE(read(all, in_all, 3, one, 8));
    ASSERT_TRUE(read(part, in_part, 3, other, 8));
    EXPECT_EQ(one, other);
  }
  ASSERT_TRUE(read(all, 2, 3, other, 8));
  EXPECT_NE(one, other);
}

TEST_F(ImageTreeOnDisk, WithoutATrainFolderIsSplitBySeed) {
  for (int i = 0; i < 40; ++i) {
    add("a/" + std::to_string(i) + ".png");
    add("b/" + std::to_string(i) + ".png");
  }
  const auto datasets = made(options());
  ASSERT_TRUE(datasets) << datasets.error().message();
  std::set<std::string> train;
  for (std::int64_t i = 0; i < datasets->train->size(); ++i) {
    train.insert(datasets->train->describe(i));
  }
  EXPECT_EQ(train.size(), 68U);
  EXPECT_EQ(datasets->valid->size(), 8);
  for (std::int64_t i = 0; i < 8; ++i) {
    EXPECT_FALSE(train.contains(datasets->valid->describe(i)));
  }
  DataOptions other_seed = options();
  other_seed.seed = 1;
  EXPECT_NE(made(other_seed)->train->describe(0), datasets->train->describe(0));
}

TEST_F(ImageTreeOnDisk, DamagedFileIsAnErrorNamingIt) {
  add("train/a/1.jpg");
  add("val/a/1.jpg");
  test::write_file(root_ / "train/a/1.jpg", std::vector<std::byte>(100));
  std::vector<float> pixels;
  const auto label = read(*made(options())->train, 0, 0, pixels, 8);
  ASSERT_FALSE(label);
  EXPECT_EQ(label.error().value, (root_ / "train/a/1.jpg").string());
}

TEST_F(ImageTreeOnDisk, UnusableTreesAreRejectedByName) {
  expect_error(ExitCode::BadData, root_.string() + ": holds no class folder");
  add("train/cat/1.jpg");
  expect_error(ExitCode::NoInput, "train, but not val");
  fs::create_directories(root_ / "train/dog");
  add("val/cat/1.jpg");
  expect_error(ExitCode::BadData, "rollcall: --data: " + (root_ / "train/dog").string() + ": holds no pictures (" +
                                      picture_endings() + "); try ");
  add("train/dog/1.jpg");
  expect_error(ExitCode::BadData, "its classes differ from those of ");
  add("val/wolf/1.jpg");  // as many, but others
  expect_error(ExitCode::BadData, "its classes differ from those of ");
  fs::remove_all(root_ / "val/wolf");
  add("val/dog/1.jpg");
  EXPECT_TRUE(made(options()));
  fs::remove_all(root_);
  expect_error(ExitCode::NoInput, "does not exist");
}

TEST_F(ImageTreeOnDisk, MisnamedTrainAndValFoldersAreNotTakenForClasses) {
  for (const auto& [train, valid] : {std::pair("Train", "Val"), {"TRAIN", "VALIDATION"}, {"Train", "Test"}}) {
    add(std::string(train) + "/cat/1.jpg");
    add(std::string(valid) + "/cat/1.jpg");
    expect_error(ExitCode::NoInput,
                 std::string("holds ") + train + " and " + valid + ", which must be named train and val");
    fs::remove_all(root_ / train);
    add("train/cat/1.jpg");
    expect_error(ExitCode::NoInput, std::string("but not val, valid or validation; try renaming ") + valid + " to val");
    fs::remove_all(root_);
  }
  for (int i = 0; i < 10; ++i) {
    add("Train/" + std::to_string(i) + ".jpg");  // on rails
    add("Bus/" + std::to_string(i) + ".jpg");
  }
  EXPECT_TRUE(made(options()));
}

TEST_F(ImageTreeOnDisk, WarnsIfThePathIsALevelTooHigh) {
  const auto warnings = [&] {
    SourceIndices indices;
    EXPECT_TRUE(scan_image_tree(root_.string(), indices));
    return indices.warnings();
  };
  add("data/training/1.jpg");
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("holds only one class, data; try naming the folder whose sub-folders"),
            std::string::npos);
  add("more/training/1.jpg");
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(
      warnings()[0].find(
          "its classes are data, more, but the pictures are in folders below them, such as data/training/1.jpg; try"),
      std::string::npos);
  add("more/1.jpg");
  EXPECT_TRUE(warnings().empty());
}

TEST_F(ImageTreeOnDisk, SkippedFilesAreCountedInOneWarning) {
  for (const char* name : {"a/1.jpg", "a/3.heic", "a/4.HEIC", "a/sub/5.tga", "b/1.jpg", "b/._1.jpg", "b/.DS_Store",
                           "b/LIST", "2.jpg", "notes.txt"}) {
    add(name);
  }
  const test::TemporaryFolder kept;
  for (int again = 0; again < 2; ++again) {
    SourceIndices indices(kept.path());
    const auto tree = scan_image_tree(root_.string(), indices);
    ASSERT_TRUE(tree);
    EXPECT_EQ(tree->size(), 2U);
    ASSERT_EQ(indices.warnings().size(), 1U);
    EXPECT_EQ(indices.warnings()[0],
              "--data: " + root_.string() +
                  ": files whose endings are not those of pictures are left out, 5: 2 .heic (such as "
                  "a/3.heic), 1 .tga "
                  "(such as a/sub/5.tga), 1 beside the class folders (such as 2.jpg), 1 without an ending (such as "
                  "b/LIST); try converting those that are pictures");
  }
}

TEST_F(ImageTreeOnDisk, DifferingClassesOfTrainAndValAreNamed) {
  for (const char* name : {"train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "val/c/1.jpg", "val/x/1.jpg"}) {
    add(name);
  }
  expect_error(ExitCode::BadData, "train: it lacks a and b, and has x, which the training set lacks; try");
  for (int i = 0; i < 10; ++i) {
    add("train/d" + std::to_string(i) + "/1.jpg");
  }
  expect_error(ExitCode::BadData, "it lacks a, b, d0, d1, d2 and 7 more, and has x");
}

TEST(ClassDifference, IgnoresMissingLastNumericClasses) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(class_difference({"0", "1", "2"}, {"0", "1"}), "");
  EXPECT_EQ(class_difference({"0", "1"}, {"0", "1", "2"}), "has 2, which the training set lacks");
  EXPECT_EQ(class_difference({"0", "1", "2"}, {"0", "2"}), "lacks 1");
  EXPECT_EQ(class_difference({"cat", "dog"}, {"cat"}), "lacks dog");
  EXPECT_EQ(class_difference({"cat", "dog"}, {"dog", "cat"}), "has them in another order");
  EXPECT_EQ(class_difference(Names{"cat"}, Names{"cat"}), "");
}

TEST_F(ImageTreeOnDisk, SettingsOutOfRangeAreRejected) {
  DataOptions small_resize = options();
  small_resize.resize_size = 4;
  EXPECT_EQ(made(small_resize).error().setting, "--valid-resize");
  DataOptions scales = options();
  scales.crop_scale_min = 0.9;
  scales.crop_scale_max = 0.1;
  EXPECT_EQ(made(scales).error().setting, "--crop-scale-min");
  DataOptions ratios = options();
  ratios.crop_ratio_min = 2;
  EXPECT_EQ(made(ratios).error().setting, "--crop-ratio-min");
}

TEST(SplitOfSamples, CoversEachSampleOnceInTheProportions85To10To5) {
  for (const std::int64_t size : {0, 1, 2, 19, 1000, 12'345}) {
    Split split = split_85_10_5(size, 3);
    std::set<std::int64_t> all(split.train.begin(), split.train.end());
    all.insert(split.valid.begin(), split.valid.end());
    all.insert(split.test.begin(), split.test.end());
    EXPECT_EQ(static_cast<std::int64_t>(all.size()), size);
    EXPECT_EQ(static_cast<std::int64_t>(split.train.size() + split.valid.size() + split.test.size()), size);
  }
  EXPECT_EQ(split_85_10_5(1000, 0).train.size(), 850U);
  EXPECT_EQ(split_85_10_5(1000, 0).valid.size(), 100U);
}

TEST(SplitOfSamples, IsIndependentOfTheEpochOrder) {
  const Permutation first_epoch(1000, 5, 0);
  const Split split = split_85_10_5(1000, 5);
  int same = 0;
  for (std::size_t i = 0; i < split.train.size(); ++i) {
    same += split.train[i] == first_epoch(static_cast<std::int64_t>(i)) ? 1 : 0;
  }
  EXPECT_LT(same, 20);
}

TEST(FakeData, HasTheExpectedSizesAndIsTheSameInEveryEpoch) {
  DataOptions options;
  options.image_size = 16;
  const auto datasets = made(options);
  ASSERT_TRUE(datasets);
  EXPECT_EQ(datasets->train->size(), 850);
  EXPECT_EQ(datasets->valid->size(), 100);
  EXPECT_EQ(datasets->num_classes, 1000);
  EXPECT_EQ(datasets->class_names.size(), 10U);
  std::vector<float> one;
  std::vector<float> other;
  std::set<std::int64_t> labels;
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::int64_t label = *read(*datasets->train, i, 0, one, 16);
    EXPECT_EQ(*read(*datasets->train, i, 5, other, 16), label);
    EXPECT_EQ(one, other);
    labels.insert(label);
  }
  EXPECT_EQ(labels.size(), 10U);
  EXPECT_TRUE(read(*datasets->train, 0, 0, other, 16));
  EXPECT_NE(one, other);
  ASSERT_TRUE(read(FakeDataset({7, 3}, 1), 1, 0, one, 16));
  ASSERT_TRUE(read(FakeDataset({3}, 1), 0, 0, other, 16));
  EXPECT_EQ(one, other) << "a sample's pixels are its own";
}

}  // namespace
}  // namespace rollcall::data
