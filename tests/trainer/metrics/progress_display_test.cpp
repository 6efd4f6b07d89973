#include "trainer/metrics/progress_display.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <string>

namespace rollcall::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

ProgressState state_at(std::int64_t step) {
  ProgressState state;
  state.epoch = 1;
  state.epochs = 120;
  state.step = step;
  state.steps_per_epoch = 85;
  state.loss = 2.30259;
  state.top1 = 0.125;
  state.learning_rate = 0.0012;
  state.images_per_second = 512.4;
  state.remaining_seconds = 3720;
  return state;
}

std::string everything_in(int descriptor) {
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = ::read(descriptor, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// Two connected descriptors; `columns` > 0: a pseudo-terminal of that width, else a pipe.
class Output {
 public:
  explicit Output(unsigned short columns) {
    if (columns > 0) {
      const winsize size{24, columns, 0, 0};
      EXPECT_EQ(::openpty(&reader_, &writer_, nullptr, nullptr, &size), 0);
    } else {
      std::array<int, 2> ends{};
      EXPECT_EQ(::pipe(ends.data()), 0);
      reader_ = ends[0];
      writer_ = ends[1];
    }
  }
  ~Output() {
    ::close(reader_);
    ::close(writer_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  [[nodiscard]] int writer() const { return writer_; }
  [[nodiscard]] std::string text() const { return everything_in(reader_); }

 private:
  int reader_ = -1;
  int writer_ = -1;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(ProgressDisplay, ShowsEverythingInOneLine) {
  EXPECT_EQ(progress_text(state_at(30)),
            "epoch 2/120  step 30/85  loss 2.3026 (step)  top-1 12.50 % (epoch)  lr 0.0012  512 img/s  ETA 1 h 02 min");
}

TEST(ProgressDisplay, CountsRemainingStepsOfAllEpochs) {
  EXPECT_EQ(steps_left(state_at(0)), 119 * 85);
  EXPECT_EQ(steps_left(state_at(30)), 118 * 85 + 55);
  EXPECT_EQ(steps_left(state_at(85)), 118 * 85);
  ProgressState last = state_at(84);
  last.epoch = 119;
  EXPECT_EQ(steps_left(last), 1);
  last.steps_to_limit = 7;
  EXPECT_EQ(steps_left(last), 1);
  ProgressState limited = state_at(30);
  limited.steps_to_limit = 7;
  EXPECT_EQ(steps_left(limited), 7);
}

TEST(ProgressDisplay, ShowsDataWaitFromOnePercent) {
  ProgressState state = state_at(30);
  state.data_wait = 0.009;
  EXPECT_THAT(progress_text(state), Not(HasSubstr("data wait")));
  state.data_wait = 0.034;
  EXPECT_THAT(progress_text(state), HasSubstr("512 img/s  data wait 3 %  ETA"));
}

TEST(ProgressDisplay, ShowsGpuReadingsIfKnown) {
  constexpr double kGibibyte = 1 << 30;
  ProgressState state = state_at(30);
  state.gpus = {.load = 0.973, .memory = 71.25 * kGibibyte, .memory_total = 79.6 * kGibibyte, .watts = 683.7};
  EXPECT_THAT(progress_text(state), HasSubstr("512 img/s  GPU 97 %  71.2/79.6 GiB  684 W  ETA"));
  state.gpus = {.watts = 70};
  EXPECT_THAT(progress_text(state), HasSubstr("512 img/s  GPU 70 W  ETA"));
}

TEST(ProgressDisplay, OmitsUnknownValues) {
  ProgressState state = state_at(1);
  state.images_per_second.reset();
  state.remaining_seconds.reset();
  EXPECT_THAT(progress_text(state), Not(HasSubstr("img/s")));
  EXPECT_THAT(progress_text(state), Not(HasSubstr("ETA")));
}

TEST(ProgressDisplay, PrintsALineEveryNStepsWithoutATerminal) {
  const Output output(0);
  ProgressDisplay display(output.writer(), ProgressStyle::Auto, 10);
  EXPECT_EQ(display.style(), ProgressStyle::Lines);
  for (std::int64_t step = 1; step <= 85; ++step) {
    display.step_done(state_at(step), static_cast<double>(step));
  }
  const std::string text = output.text();
  EXPECT_EQ(count(text, "\n"), 9U);
  EXPECT_THAT(text, HasSubstr("step 10/85"));
  EXPECT_THAT(text, HasSubstr("step 85/85"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(ProgressDisplay, LinesEndWithTheTimeAndTheLastStepIsShown) {
  const Output output(0);
  ProgressDisplay display(output.writer(), ProgressStyle::Lines, 50, [] { return std::string("12:00"); });
  ProgressState state = state_at(7);
  state.steps_to_limit = 1;
  display.step_done(state, 0);
  EXPECT_EQ(output.text(), "");
  state.steps_to_limit = 0;
  display.step_done(state, 1);
  display.message("finished");
  const std::string text = output.text();
  EXPECT_THAT(text, HasSubstr("ETA 1 h 02 min  [12:00]\nfinished  [12:00]\n"));
  EXPECT_THAT(text, testing::StartsWith("epoch 2/120  step 7/85"));
}

TEST(ProgressDisplay, RedrawsTheBarAtMostTenTimesASecond) {
  const Output output(160);
  ProgressDisplay display(output.writer(), ProgressStyle::Auto, 10);
  EXPECT_EQ(display.style(), ProgressStyle::Bar);
  for (std::int64_t step = 1; step <= 80; ++step) {
    display.step_done(state_at(step), static_cast<double>(step) / 64);  // 64 steps a second, for 1.25 s
  }
  const std::string text = output.text();
  EXPECT_LE(count(text, "\r"), 13U);
  EXPECT_GE(count(text, "\r"), 10U);
  EXPECT_EQ(count(text, "\n"), 0U);
  EXPECT_THAT(text, HasSubstr("[###"));
}

TEST(ProgressDisplay, BarNeverWrapsOnANarrowTerminal) {
  for (const unsigned short columns : std::array<unsigned short, 5>{20, 60, 90, 100, 200}) {
    const Output output(columns);
    ProgressDisplay display(output.writer(), ProgressStyle::Bar, 1);
    display.step_done(state_at(85), 0);
    const std::string line = output.text();
    const std::string start = "\r\x1b[K";
    ASSERT_EQ(line.rfind(start, 0), 0U);
    EXPECT_LT(line.size() - start.size(), columns);
  }
}

TEST(ProgressDisplay, MessagesReplaceTheBarAndFinishEndsItsLine) {
  const Output output(160);
  {
    ProgressDisplay display(output.writer(), ProgressStyle::Bar, 1);
    display.step_done(state_at(1), 0);
    display.message("checkpoint saved");
    display.step_done(state_at(2), 0.01);  // drawn again at once, below the message
  }
  const std::string text = output.text();
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kcheckpoint saved\r\n"));  // the terminal adds the \r
  EXPECT_THAT(text, HasSubstr("step 2/85"));
  EXPECT_EQ(text.substr(text.size() - 2), "\r\n");
}

TEST(ProgressDisplay, StyleNonePrintsNothing) {
  const Output output(0);
  ProgressDisplay display(output.writer(), ProgressStyle::None, 1);
  display.step_done(state_at(85), 0);
  display.message("checkpoint saved");
  EXPECT_EQ(output.text(), "");
}

}  // namespace
}  // namespace rollcall::metrics
