#include <gmock/gmock.h>

#include <array>

#include "tests/trainer/checkpoint/interop/exchange_files.h"
#include "trainer/checkpoint/interop/state_dict.h"

namespace rollcall::checkpoint::interop {
namespace {

using testing::HasSubstr;
using Write = Result<void> (*)(OutputFile&, std::span<const StateTensor>);

class ExchangeFile : public testing::TestWithParam<Write> {
 protected:
  std::string write(const std::vector<StateTensor>& tensors) {
    auto out = OutputFile::create(folder_.file("state"), true);
    EXPECT_TRUE(out && GetParam()(*out, tensors) && out->commit());
    return folder_.file("state");
  }
  TemporaryFolder folder_;
  SampleState sample_;
};

TEST_P(ExchangeFile, RoundTripsEveryTypeAndShape) {
  const auto state = read_state_dict(write(sample_.tensors));
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_TRUE(same_tensors(state->tensors, sample_.tensors));
}

TEST_P(ExchangeFile, RemovesTheCommonPrefixOfWrappers) {
  std::vector<StateTensor> wrapped = sample_.tensors;
  for (StateTensor& tensor : wrapped) {
    tensor.key = "module._orig_mod." + tensor.key;
  }
  EXPECT_TRUE(same_tensors(read_state_dict(write(wrapped))->tensors, sample_.tensors));
}

/// Removing a prefix copies all names.
TEST_P(ExchangeFile, RemovesALimitedNumberOfNestedPrefixes) {
  std::string wrappers;
  for (int i = 0; i < 10; ++i) {
    wrappers += "model.";
  }
  const auto state =
      read_state_dict(write({{wrappers + "w", DType::Float32, {}, sample_.tensors.back().bytes.first(4)}}));
  EXPECT_EQ(state->prefix, wrappers.substr(2 * 6));
  EXPECT_EQ(state->tensors.front().key, "model.model.w");
}

TEST_P(ExchangeFile, RemovesTheMajorityPrefixAndListsOtherTensorsSeparately) {
  std::vector<StateTensor> wrapped = sample_.tensors;
  for (StateTensor& tensor : wrapped) {
    tensor.key = "module.model." + tensor.key;
  }
  wrapped[0].key = "n_averaged";
  wrapped[1].key = "module.criterion";
  const auto state = read_state_dict(write(wrapped));
  EXPECT_TRUE(same_tensors(state->tensors, {sample_.tensors.begin() + 2, sample_.tensors.end()}));
  EXPECT_TRUE(same_tensors(state->others, {wrapped[0], wrapped[1]}));
  EXPECT_EQ(state->prefix, "module.model.");
  for (std::size_t i = 0; i < wrapped.size() / 2; ++i) {
    wrapped[i].key = "half." + sample_.tensors[i].key;
  }
  EXPECT_TRUE(same_tensors(read_state_dict(write(wrapped))->tensors, wrapped));
}

TEST_P(ExchangeFile, RejectsEveryTruncation) {
  const std::string path = write(sample_.tensors);
  const std::vector<char> whole = format::file_bytes(path);
  for (std::size_t length = 0; length < whole.size(); length += length < 200 ? 1 : 37) {
    format::write_file(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    const auto state = read_state_dict(path);
    ASSERT_FALSE(state) << length;
    EXPECT_EQ(state.error().kind, ErrorKind::BadData);
  }
}

TEST_P(ExchangeFile, DamageIsRejectedOrGivesAConsistentStateDict) {
  const std::string path = write(sample_.tensors);
  const std::vector<char> whole = format::file_bytes(path);
  for (std::size_t at = 0; at < whole.size(); at += 11) {
    std::vector<char> bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    format::write_file(path, bytes);
    if (const auto state = read_state_dict(path)) {
      for (const StateTensor& tensor : state->tensors) {
        EXPECT_EQ(byte_count(tensor.dtype, tensor.shape), tensor.bytes.size());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ExchangeFile, testing::Values(&write_torch_file, &write_safetensors),
                         [](const auto& format) { return format.index == 0 ? "torch" : "safetensors"; });

TEST(ExchangeFiles, RejectsOtherFilesWithTheReason) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  const auto reason = [&](std::string_view text) {
    write_text(path, text);
    return read_state_dict(path).error().message();
  };
  EXPECT_THAT(reason(""), HasSubstr("too short"));
  EXPECT_THAT(reason("hello, world: I am a text"), HasSubstr("neither"));
  EXPECT_THAT(reason("\x80\x02}q.........."), HasSubstr("before PyTorch 1.6"));
  EXPECT_THAT(read_state_dict(folder.file("absent")).error().message(), HasSubstr("No such file"));
  EXPECT_EQ(read_state_dict(folder.path()).error().kind, ErrorKind::NoInput);
}

TEST(ExchangeFiles, OutputIsRenamedOnlyWhenComplete) {
  const TemporaryFolder folder;
  {
    auto out = OutputFile::create(folder.file("out"), false);
    ASSERT_TRUE(out && out->append("half"));
    EXPECT_EQ(folder.names().size(), 1U);
    EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
  }
  EXPECT_TRUE(folder.names().empty());
  write_text(folder.file("out"), "old");
  EXPECT_THAT(OutputFile::create(folder.file("out"), false).error().message(), HasSubstr("--overwrite"));
  auto out = OutputFile::create(folder.file("out"), true);
  ASSERT_TRUE(out && out->append("new") && out->commit());
  EXPECT_EQ(format::file_bytes(folder.file("out")), (std::vector<char>{'n', 'e', 'w'}));
  EXPECT_EQ(OutputFile::create(folder.file("absent/out"), true).error().kind, ErrorKind::CannotCreate);
  EXPECT_EQ(OutputFile::create(folder.path(), true).error().kind, ErrorKind::CannotCreate);
}

TEST(StateDictBytes, CountsWithoutOverflow) {
  EXPECT_EQ(byte_count(DType::Float32, std::array<std::int64_t, 2>{3, 5}), 60U);
  EXPECT_EQ(byte_count(DType::Float64, {}), 8U);
  EXPECT_EQ(byte_count(DType::Int8, std::array<std::int64_t, 2>{0, 5}), 0U);
  EXPECT_EQ(byte_count(DType::Int8, std::array<std::int64_t, 2>{-1, 5}), std::nullopt);
  EXPECT_EQ(byte_count(DType::Int8, std::array<std::int64_t, 3>{1LL << 40, 1LL << 20, 16}), std::nullopt);
}

}  // namespace
}  // namespace rollcall::checkpoint::interop
