#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/socket_group.h"
#include "tests/unit/checkpoint_format/sample_content.h"
#include "tests/unit/commit_order/traced_calls.h"
#include "trainer/checkpoint/background/commit.h"

namespace rollcall::checkpoint {
namespace {

using format::checkpoint_name;
using format::ReadBack;
using format::SampleContent;
using format::Stage;
using format::TemporaryFolder;
using testing::ElementsAre;
using testing::UnorderedElementsAre;
using testing_support::between;
using testing_support::calls_by_thread;
using testing_support::calls_of;
using testing_support::mark_trace;
using testing_support::TracedCall;
using testing_support::without_reads;

std::string name_of(Stage stage) {
  switch (stage) {
    case Stage::SkeletonCreated:
      return "created";
    case Stage::BlockWritten:
      return "block";
    case Stage::Settled:
      return "settled";
    case Stage::Sealed:
      return "sealed";
    case Stage::Verified:
      return "verified";
    case Stage::Renamed:
      return "renamed";
  }
  return "";
}

format::WriterOptions traced_options(ReadBack read_back) {
  return {.read_back = read_back, .threads = 1, .after = [](Stage stage) { mark_trace(name_of(stage)); }};
}

TEST(Dump, X) {
  for (const auto rb : {ReadBack::Memory, ReadBack::Device}) {
    const TemporaryFolder folder;
    const SampleContent sample(2);
    testing_support::start_trace();
    const auto written = format::write_checkpoint(folder.file(checkpoint_name(2)), sample.content, traced_options(rb));
    const auto trace = testing_support::stop_trace();
    pid_t first = trace.front().thread;
    for (const auto& call : trace)
      printf("%d %d %s\n", (int)call.rank, int(call.thread - first), call.text.c_str());
    puts("-----");
  }
}

}  // namespace
}  // namespace rollcall::checkpoint
