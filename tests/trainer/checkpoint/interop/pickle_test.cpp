#include <gmock/gmock.h>

#include <random>

#include "trainer/checkpoint/interop/pickle.h"

namespace rollcall::checkpoint::interop {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

Result<PickleTree> read(const std::string& bytes) { return read_pickle(std::as_bytes(std::span(bytes)), "x.pth"); }

std::string reason(const std::string& bytes) {
  const auto tree = read(bytes);
  return tree ? "" : tree.error().reason;
}

/// ("storage", torch.FloatStorage, "0", "cpu", 6) as a persistent id: a storage of 6 floats.
const std::string kStorage = "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"s + "0X\3\0\0\0cpuK\6tQ"s;
/// A tensor of that storage: offset 0, shape [2, 3], strides [3, 1], no gradient, no hooks.
const std::string kTensor = "ctorch._utils\n_rebuild_tensor_v2\n("s + kStorage + "K\0K\2K\3\x86K\3K\1\x86\x89)tR"s;

TEST(Pickle, ReadsAStateDict) {
  const auto tree = read("\x80\2}q\0(X\1\0\0\0w"s + kTensor + "X\5\0\0\0epochK\7u."s);
  ASSERT_TRUE(tree) << tree.error().message();
  const auto& dict = *tree->as<PickleDict>(tree->root);
  ASSERT_EQ(dict.items.size(), 2U);
  const auto* const tensor = tree->as<PickleTensor>(*tree->find(dict, "w"));
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(tensor->shape, testing::ElementsAre(2, 3));
  EXPECT_THAT(tensor->strides, testing::ElementsAre(3, 1));
  const auto* const storage = tree->as<PickleStorage>(tensor->storage);
  EXPECT_EQ(storage->key, "0");
  EXPECT_EQ(storage->elements, 6);
  EXPECT_EQ(storage->dtype, format::DType::Float32);
  EXPECT_EQ(*tree->as<std::int64_t>(*tree->find(dict, "epoch")), 7);
  EXPECT_EQ(tree->find(dict, "absent"), nullptr);
}

TEST(Pickle, ReadsNumbersStringsAndContainers) {
  const auto tree = read(
      "\x80\2(K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\1\x80\x8a\0\x8a\5\0\0\0\0\1NG\x3f\xf8\0\0\0\0\0\0\x88\x89]q\1(K\1K\2eh\1t."s);
  ASSERT_TRUE(tree) << tree.error().message();
  const auto& items = tree->as<PickleSequence>(tree->root)->items;
  ASSERT_EQ(items.size(), 12U);
  const std::vector<std::int64_t> integers{255, 65535, -1, -128, 0, std::int64_t{1} << 32};
  for (std::size_t i = 0; i < integers.size(); ++i) {
    EXPECT_EQ(*tree->as<std::int64_t>(items[i]), integers[i]) << i;
  }
  EXPECT_TRUE(tree->as<std::monostate>(items[6]));
  EXPECT_EQ(*tree->as<double>(items[7]), 1.5);
  EXPECT_TRUE(*tree->as<bool>(items[8]));
  EXPECT_EQ(tree->as<PickleSequence>(items[10])->items.size(), 2U);
  EXPECT_EQ(items[10], items[11]);
}

TEST(Pickle, UsesTheLastOfEqualKeys) {
  const auto tree = read("\x80\2}(X\1\0\0\0aK\1X\1\0\0\0aK\2u."s);
  ASSERT_TRUE(tree);
  EXPECT_EQ(*tree->as<std::int64_t>(*tree->find(*tree->as<PickleDict>(tree->root), "a")), 2);
}

/// The class or function that a pickle without a known value names.
std::string owner(const std::string& bytes) {
  const auto tree = read("\x80\2" + bytes + ".");
  EXPECT_TRUE(tree) << (tree ? "" : tree.error().message()) << testing::PrintToString(bytes);
  const auto* const unknown = tree ? tree->as<PickleUnknown>(tree->root) : nullptr;
  return unknown == nullptr ? "" : tree->names[unknown->name];
}

TEST(Pickle, NamesObjectsThatCouldRunCodeAndCallsNothing) {
  EXPECT_EQ(owner("cos\nsystem\nX\2\0\0\0id\x85R"s), "os.system");
  EXPECT_EQ(owner("cbuiltins\neval\nX\1\0\0\0001\x85R"s), "builtins.eval");
  EXPECT_EQ(owner("ctorch\nload\n"s), "torch.load");
  EXPECT_EQ(owner("ctorch._utils\n_rebuild_tensor_v2.__globals__\n"s), "torch._utils._rebuild_tensor_v2.__globals__");
  EXPECT_EQ(owner("(ios\nsystem\n"s), "os.system");                                        // INST
  EXPECT_EQ(owner("(cos\nsystem\nX\2\0\0\0ido"s), "os.system");                            // OBJ
  EXPECT_EQ(owner("X\2\0\0\0osX\6\0\0\0system\x93"s), "os.system");                        // STACK_GLOBAL
  EXPECT_EQ(owner("cargparse\nNamespace\n)\x81}X\1\0\0\0aK\1sb"s), "argparse.Namespace");  // NEWOBJ, BUILD
  EXPECT_EQ(owner("ca\nB\n)}\x92"s), "a.B");                                               // NEWOBJ_EX
  EXPECT_EQ(owner("ca\nB\n)R(K\1K\2eK\1a(K\1K\2uK\1K\2s"s), "a.B");                        // items of any kind
  EXPECT_EQ(owner("ca\nB\n)RK\1\x85R"s), "a.B");                                           // and calls of it
  EXPECT_THAT(reason("\x80\2\x82\1."s), HasSubstr("0x82"));                                // EXT1: a name by number
  EXPECT_THAT(reason("\x80\6."s), HasSubstr("protocol 6"));
}

TEST(Pickle, SkipsUnusedValues) {
  EXPECT_EQ(owner("\x8a\x09\0\0\0\0\0\0\0\0\1"s), "builtins.int");
  EXPECT_EQ(owner("\x8b\x09\0\0\0\0\0\0\0\0\0\0\0\1"s), "builtins.int");
  for (const std::string& bytes : {"C\2ab"s, "B\2\0\0\0ab"s, "\x8e\2\0\0\0\0\0\0\0ab"s, "\x96\2\0\0\0\0\0\0\0ab"s}) {
    EXPECT_EQ(owner(bytes), "builtins.bytes") << testing::PrintToString(bytes);
  }
  EXPECT_EQ(owner("\x8f(K\1K\2\x90"s), "builtins.set");
  EXPECT_EQ(owner("(K\1\x91"s), "builtins.frozenset");
  EXPECT_TRUE(
      read("\x80\4\x95\1\0\0\0\0\0\0\0}\x94\x8c\1w\x94\x8d\1\0\0\0\0\0\0\0vsh\1"
           "0."s));
  EXPECT_TRUE(
      read("\x80\2K\1"
           "2"
           "0(K\2K\3"
           "1."s));  // DUP, POP, POP_MARK
}

TEST(Pickle, AcceptsKnownNamesOnlyWithTheArgumentsOfTorchSave) {
  EXPECT_EQ(owner("ctorch\nFloatStorage\n)R"s), "torch.FloatStorage");
  EXPECT_EQ(owner("ccollections\nOrderedDict\n]\x85R"s), "collections.OrderedDict");
  EXPECT_EQ(owner("ctorch._tensor\n_rebuild_from_type_v2\n)R"s), "torch._tensor._rebuild_from_type_v2");
  EXPECT_NE(reason("\x80\2ctorch._utils\n_rebuild_tensor_v2\n)R."s), "");
  EXPECT_NE(reason("\x80\2ctorch._utils\n_rebuild_parameter\nK\1\x85R."s), "");
  EXPECT_NE(reason("\x80\2K\1K\1\x85R."s), "");
  EXPECT_NE(reason("\x80\2ccollections\nOrderedDict\nN}b."s), "");
  EXPECT_NE(reason("\x80\2K\1}b."s), "");
  EXPECT_NE(reason("\x80\2X\1\0\0\0aQ."s), "");
  EXPECT_EQ(reason("\x80\2ccollections\nOrderedDict\n)R}b."s), "");
}

TEST(Pickle, ReadsTensorSubclassesWithAttributes) {
  const std::string arguments = "("s + kStorage + "K\0K\2K\3\x86K\3K\1\x86\x89)t"s;
  const std::string rebuild = "ctorch._utils\n_rebuild_tensor_v2\n"s;
  const auto from_type = [&](const std::string& function, const std::string& type) {
    return "ctorch._tensor\n_rebuild_from_type_v2\n("s + function + type + arguments + "}tR"s;
  };
  const auto tree = read("\x80\2"s + from_type(rebuild, "ctorch\nTensor\n"s) + "."s);
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_NE(tree->as<PickleTensor>(tree->root), nullptr);
  EXPECT_EQ(owner(from_type("ca\nf\n"s, "cx\nDTensor\n"s)), "x.DTensor");
  const std::string negated = "("s + kStorage + "K\0K\2K\3\x86K\3K\1\x86\x89)}X\3\0\0\0neg\x88st"s;
  EXPECT_EQ(owner(rebuild + negated + "R"s), "torch.Tensor with metadata");
}

TEST(Pickle, RejectsTooManyClassNamesAndTruncatesLongOnes) {
  std::string bytes = "\x80\2("s;
  for (int i = 0; i < 20'000; ++i) {
    bytes += "cm\n" + std::to_string(i) + "\n";
  }
  EXPECT_THAT(reason(bytes + "t."), HasSubstr("too many classes"));
  const std::string longest(1 << 20, 'x');
  EXPECT_LE(owner("c"s + longest + "\n"s + longest + "\n"s).size(), 200U);
}

/// Each reference to a value copies a shape or the key of a storage.
TEST(Pickle, RejectsValuesReferencedTooOften) {
  const auto repeated = [](const std::string& begin, const std::string& each) {
    std::string bytes = "\x80\2"s + begin;
    for (int i = 0; i < 10'000; ++i) {
      bytes += each + "0";
    }
    return reason(bytes + "N.");
  };
  std::string ones = "(";
  for (int i = 0; i < 64; ++i) {
    ones += "K\1";
  }
  const std::string tensor = "ctorch._utils\n_rebuild_tensor_v2\nq\0000("s + kStorage + "K\0"s;
  EXPECT_THAT(repeated(tensor + ones + "tq\2h\2\x89)tq\1"s + "0", "h\0h\1R"s), HasSubstr("too often"));
  EXPECT_EQ(repeated(tensor + "))\x89)tq\1"s + "0", "h\0h\1R"s), "");
  const auto storage = [](const std::string& key) {
    return "(X\7\0\0\0storagectorch\nFloatStorage\nX"s + static_cast<char>(key.size()) + "\0\0\0"s + key +
           "X\3\0\0\0cpuK\6tq\0"s + "0";
  };
  EXPECT_THAT(repeated(storage(std::string(255, 'k')), "h\0Q"s), HasSubstr("too often"));
  EXPECT_EQ(repeated(storage("k"), "h\0Q"s), "");
}

TEST(Pickle, RejectsEveryTruncatedPickle) {
  const std::string whole = "\x80\2}q\0(X\1\0\0\0w"s + kTensor + "X\5\0\0\0epochK\7u."s;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read(whole.substr(0, length))) << length;
  }
}

TEST(Pickle, RejectsInvalidStacksMarksAndMemos) {
  for (const std::string& bytes : {"."s,
                                   "K\1K\2."s,
                                   "("s,
                                   "(K\1."s,
                                   "t."s,
                                   "a."s,
                                   "e."s,
                                   "s."s,
                                   "u."s,
                                   "R."s,
                                   "b."s,
                                   "Q."s,
                                   "q\0."s,
                                   "h\0."s,
                                   "j\0\0\0\1."s,
                                   "K\1K\1a."s,
                                   "}(K\1u."s,
                                   "(}K\1K\1s."s,
                                   "(\x87."s,
                                   "\x8a\x09\0\0\0\0\0\0\0."s,
                                   "X\xff\xff\xff\xff."s,
                                   "0."s,
                                   "1."s,
                                   "2."s,
                                   "(o."s,
                                   "o."s,
                                   "ia\nb\n."s,
                                   "\x81."s,
                                   "\x92."s,
                                   "\x91."s,
                                   "\x8f\x90."s,
                                   "}(K\1\x90."s,
                                   "K\1K\1\x93."s,
                                   "\x94."s,
                                   "\x95\0."s,
                                   "C\2a."s,
                                   "\x8e\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                   "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                   "cos"s}) {
    EXPECT_FALSE(read("\x80\2" + bytes)) << testing::PrintToString(bytes);
  }
}

TEST(Pickle, ReadsASelfReferencingList) {
  const auto tree = read("\x80\2]q\0h\0a."s);
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->as<PickleSequence>(tree->root)->items.front(), tree->root);
}

TEST(Pickle, RejectsManyReferencesWithoutCopyingThem) {
  std::string bytes = "\x80\2("s;
  for (int i = 0; i < 200'000; ++i) {
    bytes += "K\1";
  }
  bytes += "tq\0" + kStorage + "q\1]("s;
  for (int i = 0; i < 100'000; ++i) {
    bytes += "h\1K\0h\0h\0\x86"s;
  }
  bytes += "e."s;
  EXPECT_FALSE(read(bytes));  // not one value at the end; and it is over soon
  EXPECT_NE(
      reason("\x80\2ctorch._utils\n_rebuild_tensor_v2\n("s + kStorage + "K\0("s + bytes.substr(3, 400) + "tq\0h\0tR."s),
      "");
}

TEST(Pickle, SurvivesRandomBytes) {
  std::mt19937 random(1);
  const std::string sound = "\x80\2}q\0(X\1\0\0\0w"s + kTensor + "X\5\0\0\0epochK\7u."s;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = sound;
    for (int change = 0; change < 3; ++change) {
      bytes[2 + random() % (bytes.size() - 2)] = static_cast<char>(random());
    }
    static_cast<void>(read(bytes));
    for (char& byte : bytes) {
      byte = static_cast<char>(random());
    }
    static_cast<void>(read("\x80\2" + bytes));
  }
}

}  // namespace
}  // namespace rollcall::checkpoint::interop
