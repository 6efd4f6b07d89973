#include <gmock/gmock.h>

#include "tests/trainer/checkpoint/interop/exchange_files.h"
#include "trainer/checkpoint/interop/files.h"
#include "trainer/checkpoint/interop/state_dict.h"

namespace rollcall::checkpoint::interop {
namespace {

using testing::HasSubstr;

std::string reason(const std::string& header, const std::string& data) {
  const TemporaryFolder folder;
  std::string text;
  append_number<std::uint64_t>(text, header.size());
  write_text(folder.file("x"), text + header + data);
  const auto state = read_state_dict(folder.file("x"));
  return state ? "" : state.error().reason;
}

constexpr const char* kSound = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

TEST(Safetensors, ReadsValidFiles) {
  EXPECT_EQ(reason(kSound, "1234"), "");
  EXPECT_EQ(reason("{}", ""), "");
  EXPECT_EQ(
      reason(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,4]}}  )", "1234"),
      "");
}

TEST(Safetensors, RejectsFilesLargerThanMemory) {
  const TemporaryFolder folder;
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 42U;
  const std::string header = R"({"a":{"dtype":"U8","shape":[)" + std::to_string(kBytes) + R"(],"data_offsets":[0,)" +
                             std::to_string(kBytes) + "]}}";
  std::string text;
  append_number<std::uint64_t>(text, header.size());
  write_text(folder.file("x"), text + header);
  std::filesystem::resize_file(folder.file("x"), text.size() + header.size() + kBytes);  // a hole
  const auto state = read_state_dict(folder.file("x"));
  ASSERT_FALSE(state);
  EXPECT_THAT(state.error().message(), HasSubstr(folder.file("x") + ": is larger than the memory of this process"));
}

TEST(Safetensors, HeaderLengthsThatResembleAPickleAreAccepted) {
  EXPECT_EQ(reason("{" + std::string(0x80 - 2, ' ') + "}", ""), "");
  EXPECT_EQ(reason("{" + std::string(0x280 - 2, ' ') + "}", ""), "");
}

TEST(Safetensors, RejectsGapsOverlapsAndTrailingBytes) {
  EXPECT_THAT(reason(kSound, "123"), HasSubstr("3 bytes"));
  EXPECT_THAT(reason(kSound, "12345"), HasSubstr("5 bytes"));
  const auto two = [](const char* second) {
    return reason(
        R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":)" +
            std::string(second) + "}}",
        "1234");
  };
  EXPECT_EQ(two("[2,4]"), "");
  EXPECT_THAT(two("[1,3]"), HasSubstr("overlap"));
  EXPECT_THAT(two("[3,5]"), HasSubstr("gaps"));
  EXPECT_THAT(two("[0,2]"), HasSubstr("overlap"));
  EXPECT_THAT(two("[4,2]"), HasSubstr("the size of tensor b does not match its shape"));
}

TEST(Safetensors, RejectsInvalidHeaders) {
  EXPECT_THAT(reason(R"({"a":1})", ""), HasSubstr("the header entry of tensor a is invalid"));
  EXPECT_THAT(reason(R"({"a":{"dtype":"F32","shape":[1]}})", ""), HasSubstr("the header entry of tensor a is invalid"));
  EXPECT_THAT(reason(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", ""),
              HasSubstr("the header entry of tensor a is invalid"));
  EXPECT_THAT(reason(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", ""),
              HasSubstr("the header entry of tensor a is invalid"));
  EXPECT_THAT(reason(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", "1234"), HasSubstr("F8_E4M3"));
  EXPECT_THAT(reason(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"), HasSubstr("shape"));
  EXPECT_THAT(reason(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
              HasSubstr("shape"));
  EXPECT_THAT(reason("{\"a\":", ""), HasSubstr("JSON"));
  EXPECT_THAT(reason("{" + std::string(100'000, '['), ""), HasSubstr("JSON"));
}

TEST(Safetensors, RejectsAHeaderLongerThanTheFile) {
  const TemporaryFolder folder;
  write_text(folder.file("x"), std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  EXPECT_THAT(read_state_dict(folder.file("x")).error().reason, HasSubstr("header"));
}

}  // namespace
}  // namespace rollcall::checkpoint::interop
