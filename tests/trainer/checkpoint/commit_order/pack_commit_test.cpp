// A packed file is synced and read back before it is renamed.

#include <gmock/gmock.h>

#include "tests/trainer/checkpoint/commit_order/traced_calls.h"
#include "tests/trainer/tools/pack/image_tree.h"

namespace rollcall::pack {
namespace {

using testing::ElementsAre;
using testing_support::calls_of;

TEST(PackCommit, SyncsBeforeReadingBackAndBeforeTheRename) {
  const test::TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  std::filesystem::create_directories(folder.file("all/run"));
  testing_support::start_trace();
  const test::Ended ended = test::pack({"--num-workers=1", folder.file("tree"), folder.file("all/run/a.h5")});
  std::vector<std::string> calls = calls_of(testing_support::stop_trace());
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  std::erase_if(calls, [](const std::string& call) {  // what an interrupted run goes on from, and a file beside
    return call == "write run/a.h5.partial.journal" || call.ends_with(".tables");
  });
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  EXPECT_THAT(calls,
              ElementsAre("write run/a.h5.partial", "fsync run/a.h5.partial", "read run/a.h5.partial",
                          "write run/a.h5.partial", "fsync run/a.h5.partial", "read run/a.h5.partial",
                          "rename run/a.h5.partial run/a.h5", "fsync all/run", "unlink run/a.h5.partial.journal"));
}

}  // namespace
}  // namespace rollcall::pack
