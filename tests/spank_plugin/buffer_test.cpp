#include "spank_plugin/buffer.h"

#include <gtest/gtest.h>

#include <string>

namespace rollcall::spank {
namespace {

std::string shown(std::string text) {
  make_printable(text.data());
  return text;
}

TEST(MakePrintable, ReplacesWhatSteersATerminal) {
  EXPECT_EQ(shown("a\x1b[31m\x7f\n"), "a?[31m??");
  EXPECT_EQ(shown("\xc2\x9b"
                  "31m\xc2\x80\xc2\x9f"),
            "??31m????")
      << "control characters of UTF-8";
  EXPECT_EQ(shown("\x9b"
                  "31m a\x80\x9f"),
            "?31m a??")
      << "and of ISO 8859";
  EXPECT_EQ(shown("\xe2\x9b"
                  "31m"),
            "\xe2?31m")
      << "in what is cut off";
  EXPECT_EQ(shown("\xe0\x80\x9b \xf8\x9b"), "\xe0?? \xf8?") << "in what is no character";
}

TEST(MakePrintable, KeepsCharacters) {
  const std::string text = "node \xc2\xa0\xc3\x9f\xe2\x80\xa6\xe4\xbd\x9b\xf0\x9f\x9b\x91~";
  EXPECT_EQ(shown(text), text);
}

}  // namespace
}  // namespace rollcall::spank
