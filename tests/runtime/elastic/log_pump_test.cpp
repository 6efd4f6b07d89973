#include "runtime/elastic/log_pump.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace rollcall::elastic {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

/// A worker whose lines go to a file and to a terminal, here a pipe that the test reads or leaves unread.
class TeedWorker : public testing::Test {
 protected:
  TeedWorker() {
    std::string name = testing::TempDir() + "rollcall-XXXXXX";
    folder_ = mkdtemp(name.data());
    EXPECT_EQ(pipe2(terminal_.data(), O_CLOEXEC | O_DIRECT), 0);  // a read gives what one write(2) wrote
    Result<int> added = pump_->add({"[0]:", file(), terminal_[1], "", {}});
    EXPECT_TRUE(added);
    worker_ = *added;
    pump_->start();
  }
  ~TeedWorker() override {
    for (const int descriptor : {worker_, terminal_[0], terminal_[1]}) {
      ::close(descriptor);
    }
    fs::remove_all(folder_);
  }

  [[nodiscard]] std::string file() const { return folder_ / "stdout.log"; }

  void print(const std::string& text) const {
    EXPECT_EQ(::write(worker_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  void wait_for_file_of(std::size_t size) const {
    while (fs::file_size(file()) < size) {
      std::this_thread::yield();
    }
  }

  /// The pieces that were written to the terminal, one per write(2).
  [[nodiscard]] std::vector<std::string> pieces() const {
    std::vector<std::string> pieces;
    fcntl(terminal_[0], F_SETFL, O_NONBLOCK);
    std::array<char, 8192> piece{};
    for (ssize_t count = 0; (count = ::read(terminal_[0], piece.data(), piece.size())) > 0;) {
      pieces.emplace_back(piece.data(), static_cast<std::size_t>(count));
    }
    return pieces;
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::string& piece : pieces()) {
      text += piece;
    }
    return text;
  }

  fs::path folder_;
  std::array<int, 2> terminal_{};
  std::vector<std::string> warnings_;
  std::unique_ptr<LogPump> pump_ = std::make_unique<LogPump>(
      [this](const std::string& line) { warnings_.push_back(line); }, std::chrono::milliseconds(20));
  int worker_ = -1;
};

std::string many_lines(std::size_t number) {
  std::string text;
  for (std::size_t i = 0; i < number; ++i) {
    text += "x\n";
  }
  return text;
}

TEST_F(TeedWorker, WritesShortLinesInBatches) {
  print(many_lines(2000));
  pump_.reset();
  std::string shown;
  const std::vector<std::string> pieces = this->pieces();
  for (const std::string& piece : pieces) {
    EXPECT_THAT(piece, EndsWith("\n")) << "lines of others may come between";
    shown += piece;
  }
  EXPECT_EQ(shown.size(), 2000 * std::string("[0]:x\n").size());
  EXPECT_LE(pieces.size(), 4U);
}

TEST_F(TeedWorker, ContinuesWhenTheTerminalIsNotRead) {
  constexpr std::size_t kLines = 100'000;
  for (std::size_t i = 0; i < kLines / 1000; ++i) {
    print(many_lines(1000));
  }
  pump_.reset();
  EXPECT_EQ(fs::file_size(file()), 2 * kLines);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("--tee: standard output: accepted nothing for 0.02 s")));
}

TEST_F(TeedWorker, IsShownAgainWhenTheTerminalIsReadAgain) {
  constexpr std::size_t kLines = 100'000;
  for (std::size_t i = 0; i < kLines / 1000; ++i) {
    print(many_lines(1000));
  }
  wait_for_file_of(2 * kLines);  // lines are omitted by now; the pipe has room for the last 8,192 and what follows
  std::string shown = text();    // the note may come while this reads, or with the next line
  print("again\n");
  pump_.reset();
  shown += text();
  EXPECT_THAT(shown, HasSubstr(" omitted here; see the log files\n"));
  EXPECT_THAT(shown, EndsWith("[0]:again\n"));
}

}  // namespace
}  // namespace rollcall::elastic
