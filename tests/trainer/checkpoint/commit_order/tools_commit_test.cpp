// rollcall-checkpoint syncs what it writes or removes before it reports success and before any rename.

#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "tests/trainer/checkpoint/commit_order/traced_calls.h"
#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::format::checkpoint_name;
using checkpoint::format::SampleContent;
using checkpoint::format::TemporaryFolder;
using testing::ElementsAre;
using testing_support::calls_of;
using testing_support::start_trace;
using testing_support::stop_trace;
using testing_support::without_reads;

/// Folders "all/run", as a trace names them, and "all/from" with checkpoints of steps 10, 20 and 30.
class ToolsCommit : public testing::Test {
 protected:
  ToolsCommit() {
    std::filesystem::create_directories(folder_.file("all/run"));
    std::filesystem::create_directories(folder_.file("all/from"));
    for (const std::int64_t step : {10, 20, 30}) {
      EXPECT_TRUE(checkpoint::format::write_checkpoint(from(step), SampleContent(step).content, {}));
    }
  }

  [[nodiscard]] std::string from(std::int64_t step) const { return folder_.file("all/from/" + checkpoint_name(step)); }
  [[nodiscard]] std::string out(const std::string& name) const { return folder_.file("all/run/" + name); }

  /// The calls of one command that change what is stored, each once where it follows itself.
  static std::vector<std::string> calls_of_command(const std::vector<std::string>& arguments) {
    std::ostringstream told;
    std::ostringstream err;
    start_trace();
    const int code = run(arguments, told, err);
    const auto trace = stop_trace();
    EXPECT_EQ(code, 0) << err.str();
    return without_reads(calls_of(trace));
  }

  TemporaryFolder folder_;
};

TEST_F(ToolsCommit, ExportSyncsBeforeTheRename) {
  for (const std::string name : {"model.safetensors", "model.pt"}) {
    EXPECT_THAT(calls_of_command({"export", from(10), out(name)}),
                ElementsAre("unlink run/" + name + ".tmp", "write run/" + name + ".tmp", "fsync run/" + name + ".tmp",
                            "rename run/" + name + ".tmp run/" + name, "fsync all/run"));
  }
}

/// Of a checkpoint that is written by one thread but for the data's fsync, which runs beside HDF5's last writes.
void expect_checkpoint_committed(const std::vector<std::string>& calls, const std::string& name) {
  const auto last = [&](const std::string& call) {
    return std::find(calls.rbegin(), calls.rend(), call + " run/" + name + ".tmp").base() - calls.begin();
  };
  ASSERT_GE(calls.size(), 4U);
  EXPECT_GT(std::count(calls.begin(), calls.end(), "fsync run/" + name + ".tmp"),
            1);  // of the data, and of the commit header
  EXPECT_GT(last("fsync"), last("write"));
  EXPECT_THAT(std::vector<std::string>(calls.end() - 3, calls.end()),
              ElementsAre("fsync run/" + name + ".tmp", "rename run/" + name + ".tmp run/" + name, "fsync all/run"));
}

TEST_F(ToolsCommit, ImportAndMergeSyncBeforeTheRename) {
  ASSERT_FALSE(calls_of_command({"export", from(10), out("model.pt")}).empty());
  expect_checkpoint_committed(calls_of_command({"import", out("model.pt"), out("imported.h5")}), "imported.h5");
  expect_checkpoint_committed(calls_of_command({"merge", out("merged.h5"), from(10), from(20)}), "merged.h5");
}

TEST_F(ToolsCommit, PruneSyncsTheFolderOnceAtTheEnd) {
  EXPECT_THAT(
      calls_of_command({"prune", "--progress=none", "--keep-last=1", "--keep-best=0", folder_.file("all/from")}),
      ElementsAre("unlink from/" + checkpoint_name(10), "unlink from/" + checkpoint_name(20), "fsync all/from"));
}

}  // namespace
}  // namespace rollcall::checkpoint_tool
