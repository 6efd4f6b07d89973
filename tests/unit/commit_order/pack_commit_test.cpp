// A packed file is on the device, read back, before it has its name.

#include <gmock/gmock.h>

#include "tests/unit/commit_order/traced_calls.h"
#include "tests/unit/pack/image_tree.h"

namespace rollcall::pack {
namespace {

using testing::ElementsAre;
using testing_support::calls_of;

TEST(PackCommit, PicturesAreOnTheDeviceBeforeTheyAreReadBackAndAllIsBeforeTheFileHasItsName) {
  const test::TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  std::filesystem::create_directories(folder.file("all/run"));
  testing_support::start_trace();
  const test::Ended ended = test::pack({"--num-workers=1", folder.file("tree"), folder.file("all/run/a.h5")});
  std::vector<std::string> calls = calls_of(testing_support::stop_trace());
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  for (const auto& c : calls)
    puts(c.c_str());
}

}  // namespace
}  // namespace rollcall::pack
