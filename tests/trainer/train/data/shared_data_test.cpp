// Rank 0 scans the data and distributes the index to all ranks.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>

#include "tests/support/multiproc.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/train/data/shared_data.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;
using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

/// Classes a and b, each with `count` empty files, in parts train and val.
void make_tree(const fs::path& root, int count) {
  for (const char* const part : {"train", "val"}) {
    for (const char* const name : {"a", "b"}) {
      fs::create_directories(root / part / name);
      for (int i = 0; i < count; ++i) {
        std::ofstream(root / part / name / (std::to_string(i) + ".jpg"));
      }
    }
  }
}

JobContext world_of(Rank& rank, const std::string& host) {
  JobContext context;
  context.rank = rank.rank;
  context.world_size = rank.world_size;
  context.host = host;
  context.process_group = rank.make_group();
  return context;
}

config::DataConfig config_of(const fs::path& tree, const std::string& index_folder) {
  config::DataConfig config;
  config.datasets.source = tree;
  config.datasets.image_size = 8;
  config.index_folder = index_folder;
  return config;
}

/// Stores an index for the train part of the tree that lists one image which does not exist.
void keep_false_index(const fs::path& tree, const std::string& folder) {
  data::SourceIndices indices;
  const auto real = data::scan_image_tree(tree / "train", indices);
  data::SampleIndexBuilder builder;
  builder.add({.label = 1}, "b/nowhere.jpg");
  const auto index = builder.finish(real->index.about());
  const std::string& source = real->index.about().source;
  MULTIPROC_CHECK(data::write_index(data::index_path(folder, source), *index, std::numeric_limits<std::int64_t>::max())
                      .has_value());
}

/// Checks that this rank uses the false index of rank 0.
void check_false_data(const data::Datasets& datasets) {
  MULTIPROC_CHECK(datasets.train->size() == 1);
  MULTIPROC_CHECK(datasets.train->describe(0).ends_with("b/nowhere.jpg"));
  MULTIPROC_CHECK(datasets.valid->size() == 6);
  MULTIPROC_CHECK(datasets.class_names == (std::vector<std::string>{"a", "b"}));
}

TEST(SharedData, AllRanksOfAllHostsUseTheIndexOfRankZero) {
  const auto ranks = spawn(4, [](Rank& rank) {
    JobContext context = world_of(rank, rank.rank == 0 ? "one" : "two");  // rank 1 receives, 2 and 3 map what it has
    if (rank.rank == 0) {
      make_tree(rank.folder / "data", 3);
      keep_false_index(rank.folder / "data", rank.folder / "kept");
    }
    MULTIPROC_CHECK(process_group::barrier(context.process_group).has_value());
    std::vector<std::string> warnings;
    const std::string kept = rank.rank == 0 ? rank.folder / "kept" : "";  // who looked for itself would see all of them
    const auto opened = open_shared_data(config_of(rank.folder / "data", kept), context, warnings);
    MULTIPROC_CHECK(opened.has_value());
    check_false_data(*opened);
    MULTIPROC_CHECK(warnings.empty());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(SharedData, ReachARankInAnotherProcessNamespace) {
  const auto ranks = spawn(3, [](Rank& rank) {
    JobContext context = world_of(rank, "one");
    if (rank.rank == 0) {
      make_tree(rank.folder / "data", 3);
      keep_false_index(rank.folder / "data", rank.folder / "kept");
    }
    MULTIPROC_CHECK(process_group::barrier(context.process_group).has_value());
    if (rank.rank == 2 &&
        (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
         mount("none", "/proc", "tmpfs", 0, nullptr) != 0)) {
      std::ofstream(rank.folder / "no namespaces");  // then it sees them, which is tested above
    }
    std::vector<std::string> warnings;
    const auto opened = open_shared_data(config_of(rank.folder / "data", rank.folder / "kept"), context, warnings);
    MULTIPROC_CHECK(opened.has_value());
    check_false_data(*opened);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// `lacks`: which rank has none from before; -1: all have.
void open_again(Rank& rank, int lacks) {
  const JobContext context = world_of(rank, "one");
  const auto barrier = [&] { MULTIPROC_CHECK(process_group::barrier(context.process_group).has_value()); };
  if (rank.rank == 0) {
    make_tree(rank.folder / "data", 3);
  }
  barrier();
  std::vector<std::string> warnings;
  const config::DataConfig config = config_of(rank.folder / "data", "");
  const auto opened = open_shared_data(config, context, warnings);
  MULTIPROC_CHECK(opened.has_value());
  barrier();
  if (rank.rank == 0) {
    fs::remove_all(rank.folder / "data");
  }
  barrier();
  const bool has = static_cast<int>(rank.rank) != lacks;
  const auto again = open_shared_data(config, context, warnings, has ? std::optional(*opened) : std::nullopt);
  MULTIPROC_CHECK(again.has_value() == (lacks < 0));
  MULTIPROC_CHECK(lacks >= 0 ? again.error().kind == ErrorKind::NoInput : again->train == opened->train);
}

TEST(SharedData, AreNotScannedAgainIfAllRanksHaveThem) {
  for (const int lacks : {-1, 0, 1}) {
    const auto ranks = spawn(2, [lacks](Rank& rank) { open_again(rank, lacks); });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

TEST(SharedData, AreScannedAgainIfRanksHaveDifferentData) {
  const auto ranks = spawn(2, [](Rank& rank) {
    const JobContext context = world_of(rank, "one");
    const fs::path own = rank.folder / ("own" + std::to_string(rank.rank));
    make_tree(own, rank.rank == 0 ? 3 : 5);
    std::vector<std::string> warnings;
    const auto mine = open_shared_data(config_of(own, ""), JobContext{}, warnings);
    MULTIPROC_CHECK(mine.has_value());
    const auto opened = open_shared_data(config_of(rank.folder / "own0", ""), context, warnings, *mine);
    MULTIPROC_CHECK(opened.has_value() && opened->train->size() == 6);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(SharedData, AnErrorOfRankZeroIsTheErrorOfAllRanks) {
  const auto ranks = spawn(3, [](Rank& rank) {
    const JobContext context = world_of(rank, "one");
    std::vector<std::string> warnings;
    const auto opened = open_shared_data(config_of(rank.folder / "nothing", ""), context, warnings);
    MULTIPROC_CHECK(!opened && opened.error().kind == ErrorKind::NoInput);
    MULTIPROC_CHECK(opened.error().reason == "does not exist");
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// What two ranks say that have the trees `data0` and `data1`, after rank 1's was changed.
void check_refused(Rank& rank, const std::string& text, const std::function<void(const fs::path&)>& change) {
  const JobContext context = world_of(rank, "host" + std::to_string(rank.rank));
  const fs::path tree = rank.folder / ("data" + std::to_string(rank.rank));
  make_tree(tree, 3);
  if (rank.rank == 1) {
    change(tree);
  }
  std::vector<std::string> warnings;
  const auto opened = open_shared_data(config_of(tree, ""), context, warnings);
  MULTIPROC_CHECK(!opened && opened.error().kind == ErrorKind::Mismatch);
  MULTIPROC_CHECK(opened.error().reason == "rank 1 on host1 has other data than rank 0: " + text);
}

TEST(SharedData, RejectsAnotherNumberOfImagesOnOneRank) {
  const auto ranks = spawn(2, [](Rank& rank) {
    check_refused(rank, "5 images for training, not 6",
                  [](const fs::path& tree) { fs::remove(tree / "train" / "a" / "0.jpg"); });
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(SharedData, RejectsOtherLabelsOnOneRank) {
  const auto ranks = spawn(2, [](Rank& rank) {
    check_refused(rank, "the same number of images, but the labels of the images differ",
                  [](const fs::path& tree) { fs::rename(tree / "val" / "a" / "2.jpg", tree / "val" / "b" / "9.jpg"); });
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(SharedData, OpenWithASingleRank) {
  const auto ranks = spawn(1, [](Rank& rank) {
    make_tree(rank.folder / "data", 3);
    std::vector<std::string> warnings;
    const auto opened = open_shared_data(config_of(rank.folder / "data", ""), JobContext{}, warnings);
    MULTIPROC_CHECK(opened.has_value() && opened->train->size() == 6);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(SharedData, FailWhenARankDiesMeanwhile) {
  testing_support::Ranks running(2, [](Rank& rank) {
    const JobContext context = world_of(rank, "one");
    make_tree(rank.folder / ("data" + std::to_string(rank.rank)), 3);
    MULTIPROC_CHECK(process_group::barrier(context.process_group).has_value());
    if (rank.rank == 1) {
      raise(SIGKILL);
    }
    std::vector<std::string> warnings;
    const auto opened = open_shared_data(config_of(rank.folder / "data0", ""), context, warnings);
    MULTIPROC_CHECK(!opened && opened.error().exit_code() == ExitCode::Unavailable);
  });
  const auto& ranks = running.wait();
  EXPECT_TRUE(ranks.at(0).succeeded()) << report(ranks);
}

/// Mounts, for this process alone, a file system whose server never answers.
bool mount_silent_file_system(const fs::path& folder) {
  fs::create_directories(folder);
  const int server = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);  // stays open as long as the process lives
  const std::string options = "fd=" + std::to_string(server) + ",rootmode=40000,user_id=0,group_id=0";
  return server >= 0 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "fuse", 0, options.c_str()) == 0;
}

TEST(SharedData, ReportALostRankDespiteAHangingFileSystem) {
  testing_support::Ranks running(2, [](Rank& rank) {
    const JobContext context = world_of(rank, "one");
    const fs::path data = rank.folder / "silent";
    const bool mounted = rank.rank == 0 && mount_silent_file_system(data);
    MULTIPROC_CHECK(process_group::barrier(context.process_group).has_value());
    if (rank.rank == 1) {
      raise(SIGKILL);
    }
    if (!mounted) {
      std::ofstream(rank.folder / "no FUSE");  // nothing to be tested here
      return;
    }
    std::vector<std::string> warnings;
    const auto opened = open_shared_data(config_of(data, ""), context, warnings);
    MULTIPROC_CHECK(!opened && opened.error().exit_code() == ExitCode::Unavailable);
  });
  const auto& ranks = running.wait();
  EXPECT_TRUE(ranks.at(0).succeeded()) << report(ranks);
}

}  // namespace
}  // namespace rollcall::train
