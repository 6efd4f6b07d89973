// The order of the system calls that make a checkpoint durable. A crash between any two of them must leave either the
// former checkpoints or the new one as well; what a test cannot do, pull the plug, follows from the order.

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/socket_group.h"
#include "tests/trainer/checkpoint/commit_order/traced_calls.h"
#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/background/commit.h"

namespace rollcall::checkpoint {
namespace {

using format::checkpoint_name;
using format::ReadBack;
using format::SampleContent;
using format::TemporaryFolder;
using format::WritePoint;
using testing::ElementsAre;
using testing::UnorderedElementsAre;
using testing_support::between;
using testing_support::calls_by_thread;
using testing_support::calls_of;
using testing_support::mark_trace;
using testing_support::TracedCall;
using testing_support::without_reads;

std::string name_of(WritePoint point) {
  switch (point) {
    case WritePoint::StructuresCreated:
      return "created";
    case WritePoint::BlockWritten:
      return "block";
    case WritePoint::DataVerified:
      return "data verified";
    case WritePoint::HeaderWritten:
      return "sealed";
    case WritePoint::Verified:
      return "verified";
    case WritePoint::Renamed:
      return "renamed";
  }
  return "";
}

format::WriterOptions traced_options(ReadBack read_back) {
  return {.read_back = read_back, .threads = 1, .after = [](WritePoint point) { mark_trace(name_of(point)); }};
}

/// A folder "all/run" for checkpoints, as a trace names it, and a stage "all/stage".
class CheckpointCommit : public testing::TestWithParam<ReadBack> {
 protected:
  CheckpointCommit() {
    std::filesystem::create_directories(run());
    std::filesystem::create_directories(stage());
  }

  [[nodiscard]] std::string run() const { return folder_.file("all/run"); }
  [[nodiscard]] std::string stage() const { return folder_.file("all/stage"); }

  TemporaryFolder folder_;
};

const std::string kTemporary = " run/step-00000002.h5.tmp";
const std::vector<std::string> kWrites{"write" + kTemporary};
const std::vector<std::string> kReads{"read" + kTemporary};
const std::vector<std::string> kSyncs{"fsync" + kTemporary};
const std::vector<std::string> kWritesAndReads{"write" + kTemporary, "read" + kTemporary};
const std::vector<std::string> kSyncsAndReads{"fsync" + kTemporary, "read" + kTemporary};

/// Data is brought to the device and read back while this rank, if it leads, finishes HDF5's structures. Past the page
/// cache it is read only once it is on the device.
void expect_verified_data(const std::vector<TracedCall>& calls, ReadBack read_back, bool leads) {
  std::vector<std::vector<std::string>> expected;
  if (read_back == ReadBack::Device) {
    expected = {kSyncsAndReads};
  } else {
    expected = {kSyncs, kReads};
  }
  if (leads) {
    expected.push_back(kWritesAndReads);
  }
  EXPECT_THAT(calls_by_thread(calls), testing::UnorderedElementsAreArray(expected));
}

/// What rank 0 does once its data is there.
void expect_sealed_and_named(const std::vector<TracedCall>& trace) {
  EXPECT_THAT(calls_of(between(trace, "data verified", "sealed")),
              ElementsAre("read" + kTemporary, "write" + kTemporary, "fsync" + kTemporary));
  EXPECT_THAT(calls_of(between(trace, "sealed", "verified")), ElementsAre("read" + kTemporary));
  EXPECT_THAT(calls_of(between(trace, "verified", "renamed")),
              ElementsAre("rename" + kTemporary + " run/step-00000002.h5", "fsync all/run"));
}

TEST_P(CheckpointCommit, SyncsAndVerifiesBeforeTheRename) {
  const SampleContent sample(2);
  testing_support::start_trace();
  const auto written =
      format::write_checkpoint(run() + "/" + checkpoint_name(2), sample.content, traced_options(GetParam()));
  const std::vector<TracedCall> trace = testing_support::stop_trace();
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_THAT(calls_of(between(trace, "", "created")),
              ElementsAre("unlink" + kTemporary, "write" + kTemporary, "allocate" + kTemporary));
  EXPECT_THAT(calls_of(between(trace, "created", "block")), kWrites);
  expect_verified_data(between(trace, "block", "data verified"), GetParam(), true);
  expect_sealed_and_named(trace);
  EXPECT_EQ(trace.back().text, "== renamed");
}

/// Rows of one tensor for each of `ranks` ranks.
format::Content rows_of(const std::vector<std::int32_t>& values, std::uint32_t rank, std::uint32_t ranks) {
  const auto bytes = std::as_bytes(std::span(values));
  const std::size_t share = bytes.size() / ranks;
  format::Content content;
  content.tensors = {{"/model/w",
                      "w",
                      format::DType::Int32,
                      {static_cast<std::int64_t>(values.size())},
                      bytes.subspan(rank * share, share),
                      rank * share}};
  return content;
}

TEST_P(CheckpointCommit, IsSealedAfterAllRanksSyncedTheirRows) {
  constexpr std::uint32_t kRanks = 3;
  const std::vector<std::int32_t> values(kRanks * 100'000, 7);
  testing_support::start_trace();
  const bool well = testing_support::all_ended_well(testing_support::fork_ranks(kRanks, [&](format::RankGroup& group) {
    testing_support::trace_as(group.rank());
    return format::write_checkpoint(run() + "/" + checkpoint_name(2), rows_of(values, group.rank(), kRanks),
                                    traced_options(GetParam()), group)
               ? 0
               : 1;
  }));
  const std::vector<TracedCall> trace = testing_support::stop_trace();
  ASSERT_TRUE(well);
  expect_verified_data(between(trace, "block", "data verified", 0), GetParam(), true);
  expect_sealed_and_named(trace);
  const auto place = [&](std::uint32_t rank, const std::string& text) {
    return std::find_if(trace.begin(), trace.end(),
                        [&](const TracedCall& call) { return call.rank == rank && call.text == text; });
  };
  const auto sealing = place(0, "== data verified") + 1;
  for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_THAT(calls_of(between(trace, "", "block", rank), rank), kWrites);
    expect_verified_data(between(trace, "block", "data verified", rank), GetParam(), false);
    const auto after = std::find_if(
        sealing, trace.end(), [](const TracedCall& call) { return call.rank == 0 && call.text.starts_with("write "); });
    EXPECT_LT(place(rank, "== data verified"), after) << "the seal says that all is on the device";
    EXPECT_EQ(trace.end(),
              std::find_if(after, trace.end(), [rank](const TracedCall& call) { return call.rank == rank; }));
  }
}

INSTANTIATE_TEST_SUITE_P(ReadBack, CheckpointCommit, testing::Values(ReadBack::Memory, ReadBack::Device),
                         [](const auto& tested) { return tested.param == ReadBack::Memory ? "Memory" : "Device"; });

/// The calls, without reads, of a save of step 2 in a folder with other checkpoints.
std::vector<std::string> calls_of_save(const background::Destination& destination) {
  const SampleContent sample(2);
  format::SingleRank alone;
  testing_support::start_trace();
  const auto written = background::commit(destination, sample.content, {.threads = 1}, alone);
  const std::vector<TracedCall> trace = testing_support::stop_trace();
  EXPECT_TRUE(written) << written.error().message();
  return without_reads(calls_of(trace));
}

/// The calls from `first` on.
std::vector<std::string> from_call(const std::vector<std::string>& calls, const std::string& first) {
  return {std::find(calls.begin(), calls.end(), first), calls.end()};
}

class CheckpointCommitWithOthers : public CheckpointCommit {
 protected:
  CheckpointCommitWithOthers() {
    EXPECT_TRUE(format::write_checkpoint(run() + "/" + checkpoint_name(1), SampleContent(1).content, {}));
  }
};

TEST_F(CheckpointCommitWithOthers, RemovesOlderCheckpointsAfterTheNewNameIsDurable) {
  const std::vector<std::string> calls =
      calls_of_save({.folder = run(), .step = 2, .best_step = 2, .retention = {.keep_last = 1}});
  EXPECT_THAT(from_call(calls, "rename" + kTemporary + " run/step-00000002.h5"),
              ElementsAre("rename" + kTemporary + " run/step-00000002.h5", "fsync all/run", "unlink" + kTemporary,
                          "symlink step-00000002.h5" + kTemporary, "rename" + kTemporary + " run/best.h5",
                          "unlink run/step-00000001.h5", "fsync all/run"));
}

TEST_F(CheckpointCommitWithOthers, RemovesTheStagedFileAfterTheNameOfItsCopyIsDurable) {
  const std::vector<std::string> calls =
      calls_of_save({.folder = run(), .step = 2, .retention = {.keep_last = 1}, .staging_dir = stage()});
  EXPECT_THAT(
      from_call(calls, "rename stage/step-00000002.h5.tmp stage/step-00000002.h5"),
      ElementsAre("rename stage/step-00000002.h5.tmp stage/step-00000002.h5", "fsync all/stage", "unlink" + kTemporary,
                  "write" + kTemporary, "fsync" + kTemporary, "rename" + kTemporary + " run/step-00000002.h5",
                  "fsync all/run", "unlink stage/step-00000002.h5", "unlink" + kTemporary,
                  "unlink run/step-00000001.h5", "fsync all/run"));
}

TEST_F(CheckpointCommitWithOthers, KeepsTheStagedFileIfItsCopyDiffers) {
  const std::vector<std::int32_t> values(100'000, 7);
  ASSERT_TRUE(format::write_checkpoint(stage() + "/" + checkpoint_name(2), rows_of(values, 0, 1), {}));
  testing_support::inject(testing_support::Call::Write, 1, testing_support::Fault::Flipped);
  const Result<void> published = background::publish(stage(), run(), 2);
  EXPECT_EQ(testing_support::stop(), 1U) << "one write, whose middle is the tensor's";
  ASSERT_FALSE(published);
  EXPECT_THAT(published.error().message(), testing::HasSubstr("reading back what was written failed"));
  EXPECT_TRUE(format::verify_file(stage() + "/" + checkpoint_name(2), format::VerifyLevel::Full));
  EXPECT_FALSE(std::filesystem::exists(run() + "/" + checkpoint_name(2)));
}

}  // namespace
}  // namespace rollcall::checkpoint
