#include <gmock/gmock.h>

#include <array>

#include "tests/trainer/checkpoint/interop/exchange_files.h"
#include "trainer/checkpoint/interop/state_dict.h"
#include "trainer/checkpoint/interop/zip_archive.h"

namespace rollcall::checkpoint::interop {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

using Members = std::vector<std::pair<std::string, std::string>>;

/// A zip archive of these members.
class Archive {
 public:
  explicit Archive(const Members& members) {
    auto out = OutputFile::create(path(), true);
    ZipWriter zip(*out);
    for (const auto& [name, text] : members) {
      EXPECT_TRUE(zip.add(name, std::as_bytes(std::span(text))));
    }
    EXPECT_TRUE(zip.finish() && out->commit());
  }
  [[nodiscard]] std::string path() const { return folder_.file("x.pth"); }
  [[nodiscard]] Result<StateDict> read(const std::string& key = "") const {
    return read_torch_file(*InputFile::open(path()), key);
  }

 private:
  TemporaryFolder folder_;
};

/// A pickled tensor; `window` is offset, shape and strides as instructions.
std::string tensor(const std::string& window, char elements = 6) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"s + "0X\3\0\0\0cpuK"s +
         elements + "tQ" + window + "\x89)tR";
}

std::string dict_of(const std::string& item) { return "\x80\2}X\1\0\0\0w"s + item + "s."; }

std::string refusal_of_file(const std::string& pickle, const std::string& data = "abcdef") {
  const auto state = Archive(Members{{"a/data.pkl", pickle}, {"a/data/0", data}}).read();
  return state ? "" : state.error().reason;
}

const std::string kWhole = "K\0K\2K\3\x86K\3K\1\x86"s;

TEST(TorchFile, ReadsViewsOfAStorage) {
  const auto bytes = [](const std::string& window) {
    const Archive archive(Members{{"a/data.pkl", dict_of(tensor(window))}, {"a/data/0", "abcdef"}});
    const auto state = archive.read();
    EXPECT_TRUE(state) << (state ? "" : state.error().message());
    const auto& view = state->tensors.front().bytes;
    return std::string(reinterpret_cast<const char*>(view.data()), view.size());
  };
  EXPECT_EQ(bytes(kWhole), "abcdef");
  EXPECT_EQ(bytes("K\0K\3K\2\x86K\1K\3\x86"s), "adbecf");  // transposed
  EXPECT_EQ(bytes("K\2K\3\x85K\1\x85"s), "cde");
  EXPECT_EQ(bytes("K\1K\3\x85K\2\x85"s), "bdf");
  EXPECT_EQ(bytes("K\5))"s), "f");
  EXPECT_EQ(bytes("K\0K\1K\2\x86J\xff\xff\xff\x7fK\1\x86"s), "ab");  // the stride of a single row means nothing
  EXPECT_EQ(bytes("K\6K\0\x85K\1\x85"s), "");
}

TEST(TorchFile, RejectsViewsBeyondTheirStorage) {
  EXPECT_EQ(refusal_of_file(dict_of(tensor(kWhole))), "");
  for (const std::string& window :
       {"K\1K\2K\3\x86K\3K\1\x86"s, "K\0K\2K\3\x86K\4K\1\x86"s, "K\6))"s, "K\0K\7\x85K\1\x85"s, "K\0K\7\x85K\0\x85"s,
        "J\xff\xff\xff\xff))"s, "K\2K\2\x85J\xff\xff\xff\xff\x85"s, "K\0J\xff\xff\xff\xff\x85K\1\x85"s,
        "K\0\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\2\x86\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\1\x86"s}) {
    EXPECT_THAT(refusal_of_file(dict_of(tensor(window))), HasSubstr("exceeds its storage"))
        << testing::PrintToString(window);
  }
  EXPECT_THAT(refusal_of_file(dict_of(tensor(kWhole, 7))), HasSubstr("missing"));  // more elements than the member has
  EXPECT_THAT(refusal_of_file(dict_of(tensor(kWhole)), "abc"), HasSubstr("missing"));
}

TEST(TorchFile, RejectsTooManyTensorsOnOneStorage) {
  const std::string big(1 << 16, 'x');
  const auto refusal = [&](const std::string& window, int names) {
    std::string many = "\x80\2}("s;
    for (int i = 100; i < 100 + names; ++i) {
      many += "X\3\0\0\0"s + std::to_string(i) +
              "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"s +
              "0X\3\0\0\0cpuJ\0\0\1\0tQ"s + window + "\x89)tR"s;
    }
    return refusal_of_file(many + "u.", big);
  };
  const std::string transposed = "K\0J\0\x80\0\0K\2\x86K\1J\0\x80\0\0\x86"s;
  const std::string whole = "K\0J\0\0\1\0\x85K\1\x85"s;
  EXPECT_THAT(refusal(transposed, 100), HasSubstr("too many tensors that share one storage"));
  EXPECT_THAT(refusal(whole, 100), HasSubstr("too many tensors that share one storage"));
  EXPECT_EQ(refusal(whole, 4), "");  // tied weights
}

TEST(TorchFile, FindsTheStateDictInATrainingCheckpoint) {
  const std::string inner = "}X\1\0\0\0w"s + tensor(kWhole) + "s";
  const std::string pickle =
      "\x80\2}(X\5\0\0\0epochK\3X\5\0\0\0model"s + inner + "X\3\0\0\0ema}X\1\0\0\0v"s + tensor(kWhole) + "su.";
  const Archive archive(
      Members{{"archive/data.pkl", pickle}, {"archive/data/0", "abcdef"}, {"archive/byteorder", "little"}});
  EXPECT_EQ(archive.read()->tensors.front().key, "w");
  EXPECT_EQ(archive.read("ema")->tensors.front().key, "v");
  EXPECT_THAT(archive.read("none").error().reason, HasSubstr("it holds epoch, model, ema"));
  EXPECT_FALSE(archive.read("epoch"));
  EXPECT_THAT(refusal_of_file("\x80\2}X\1\0\0\0aK\1s."s), HasSubstr("it holds a"));
  EXPECT_THAT(refusal_of_file("\x80\2}(X\1\0\0\0a"s + inner + "X\1\0\0\0b"s + inner + "u."s),
              HasSubstr("several state dicts: a, b"));
  EXPECT_THAT(refusal_of_file("\x80\2}X\5\0\0\0modelcx\nNet\n)\x81s."s),
              HasSubstr("its model is an object of Python's x.Net"));
  EXPECT_THAT(refusal_of_file("\x80\2cx\nNet\n)\x81."s), HasSubstr("is an object of Python's x.Net"));
  EXPECT_THAT(refusal_of_file("\x80\2K\1."s), HasSubstr("does not hold a dict"));
}

/// With very many dicts, or one dict referenced very often, each is visited at most once.
TEST(TorchFile, VisitsEachDictAtMostOnce) {
  const auto with_dicts = [](const std::string& each) {
    std::string pickle = "\x80\2X\1\0\0\0aq\0"s + "0}q\1("s;
    for (int i = 0; i < 100'000; ++i) {
      pickle += "h\0"s + each;
    }
    return pickle + "u.";
  };
  EXPECT_THAT(refusal_of_file(with_dicts("}")), HasSubstr("not a state dict"));
  EXPECT_THAT(refusal_of_file(with_dicts("h\1"s)), HasSubstr("not a state dict"));
  EXPECT_THAT(refusal_of_file(with_dicts("cx\ny\n"s)), HasSubstr("x.y"));
  EXPECT_THAT(refusal_of_file("\x80\2" + std::string(100'000, '}') + "."), HasSubstr("one value"));
}

TEST(TorchFile, RejectsOtherZipArchives) {
  EXPECT_THAT(Archive(Members{{"readme", "text"}}).read().error().reason, HasSubstr("data.pkl"));
  EXPECT_THAT(Archive(Members{}).read().error().reason, HasSubstr("data.pkl"));
  EXPECT_THAT(Archive(Members{{"a/data.pkl", "\x80\2}."s}, {"a/byteorder", "big"}}).read().error().reason,
              HasSubstr("big-endian"));
  EXPECT_THAT(Archive(Members{{"a/data.pkl", "x"}, {"a/data.pkl", "x"}}).read().error().reason, HasSubstr("twice"));
}

TEST(TorchFile, AlignsMembersTo64BytesAndVerifiesTheirChecksums) {
  const Archive archive(Members{{"a", "1"}, {"bb", "22"}, {"ccc", ""}});
  auto zip = ZipArchive::open(*InputFile::open(archive.path()));
  ASSERT_TRUE(zip) << zip.error().message();
  EXPECT_EQ(zip->entries().size(), 3U);
  EXPECT_EQ(zip->find("b"), nullptr);
  std::vector<char> bytes = format::file_bytes(archive.path());
  EXPECT_EQ(bytes[64], '1');
  EXPECT_TRUE(zip->read(*zip->find("bb")));
  const auto second = std::ranges::find(bytes, '2') - bytes.begin();
  EXPECT_EQ(second % 64, 0);
  bytes[static_cast<std::size_t>(second)] = '3';
  format::write_file(archive.path(), bytes);
  EXPECT_THAT(zip->read(*zip->find("bb")).error().reason, HasSubstr("checksum of member bb"));
}

}  // namespace
}  // namespace rollcall::checkpoint::interop
