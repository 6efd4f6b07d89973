// checkpoint_kills [--kills=N] [--ranks=N] [--seed=N] [--folder=DIR]: kills -9 a random rank, or all, at a random
// microsecond of a run that saves a checkpoint every step, and resumes from what is on disk; N times. After each kill
// the newest checkpoint must load and verify, and every checkpoint that was reported as committed must be there with
// its own content. Prints what was in progress at the kills.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/read_checkpoint.h"
#include "tests/support/socket_group.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/writer.h"

namespace {

using namespace rollcall;
using namespace rollcall::checkpoint::format;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostRanks = 8;
constexpr int kKeep = 3;

/// What a rank is doing, for the statistics; in memory shared with the driver.
enum Activity : int { Between, Creating, Writing, Sealing, Verifying, Naming, Tidying, kActivities };
constexpr std::array<const char*, kActivities> kNames{
    "between saves", "creating the structures",   "writing, fsync, reading back", "seal", "reading the seal back",
    "renaming",      "removing older checkpoints"};

struct Shared {
  std::array<std::atomic<int>, kMostRanks> activity;
};

/// The numbers of a small model after a step: a function of (step, tensor, element).
struct Model {
  static constexpr std::array<std::size_t, 4> kElements{150'000, 7, 1, 61'337};

  explicit Model(std::int64_t step) {
    for (std::size_t t = 0; t < kElements.size(); ++t) {
      auto& values = tensors.emplace_back(kElements[t]);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<std::int32_t>(static_cast<std::size_t>(step) * 1'000'003 + t * 1009 + i);
      }
    }
  }

  [[nodiscard]] Content part(std::size_t rank, std::size_t ranks, std::int64_t step) const {
    Content content;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto all = std::as_bytes(std::span(tensors[t]));
      const std::size_t begin = tensors[t].size() * rank / ranks * sizeof(std::int32_t);
      const std::size_t end = tensors[t].size() * (rank + 1) / ranks * sizeof(std::int32_t);
      content.tensors.push_back({fmt::format("/model/t{}", t),
                                 fmt::format("t{}", t),
                                 DType::Int32,
                                 {static_cast<std::int64_t>(tensors[t].size())},
                                 all.subspan(begin, end - begin),
                                 begin});
    }
    content.values["/progress/global_step"] = step;
    return content;
  }

  std::vector<std::vector<std::int32_t>> tensors;
};

/// Trains and saves until it is killed or a peer is lost. Rank 0 tells each step that was committed.
int run_rank(RankGroup& group, const std::string& folder, std::int64_t step, Shared& shared, int report) {
  auto& activity = shared.activity[group.rank()];
  WriterOptions options;
  options.after = [&activity](WritePoint point) {
    constexpr std::array kNext{Writing, Writing, Sealing, Verifying, Naming, Tidying};
    activity = kNext[static_cast<std::size_t>(point)];
  };
  while (true) {
    ++step;
    activity = Between;
    const Model model(step);
    activity = group.rank() == 0 ? Creating : Writing;
    options.read_back = step % 2 == 0 ? ReadBack::Memory : ReadBack::Device;
    const Result<void> written = write_checkpoint(folder + "/" + checkpoint_name(step),
                                                  model.part(group.rank(), group.size(), step), options, group);
    if (!written) {
      const bool lost_peer = written.error().exit_code() == ExitCode::Unavailable;
      if (!lost_peer) {
        fmt::print(stderr, "{}\n", written.error().message());
      }
      return lost_peer ? 0 : 1;
    }
    if (group.rank() == 0) {
      if (::write(report, &step, sizeof step) != sizeof step) {
        return 1;
      }
      tidy_folder(folder, step, -1, {.keep_last = kKeep});
    }
  }
}

bool holds_step(const std::string& path, std::int64_t step) {
  const auto loaded = read_checkpoint(path);
  const Model expected(step);
  if (!loaded || loaded->content.tensors.size() != expected.tensors.size() ||
      std::get<std::int64_t>(loaded->content.values.at("/progress/global_step")) != step) {
    return false;
  }
  for (std::size_t t = 0; t < expected.tensors.size(); ++t) {
    const auto wanted = std::as_bytes(std::span(expected.tensors[t]));
    const auto found = loaded->content.tensors[t].bytes;
    if (!std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())) {
      return false;
    }
  }
  return true;
}

/// What is wrong with the folder, or an empty text; `newest` becomes the newest step there.
std::string inspect(const std::string& folder, std::int64_t reported, std::int64_t& newest) {
  const std::vector<ListedCheckpoint> listed = *list_checkpoints(folder);
  newest = listed.empty() ? 0 : listed.front().step;
  if (newest < reported) {
    return fmt::format("step {} was reported committed, and the newest is {}", reported, newest);
  }
  for (const ListedCheckpoint& checkpoint : listed) {
    if (const auto verified = verify_file(checkpoint.path, VerifyLevel::Full); !verified) {
      return verified.error().message();
    }
    if (!holds_step(checkpoint.path, checkpoint.step)) {
      return checkpoint.path + " holds something else";
    }
  }
  const auto expected = static_cast<std::size_t>(std::min<std::int64_t>(newest, kKeep));
  return listed.size() < expected ? fmt::format("{} checkpoints are left of {}", listed.size(), expected) : "";
}

struct Options {
  int kills = 50;
  std::uint32_t ranks = 3;
  std::uint64_t seed = 1;
  std::string folder;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = std::string(argument.substr(std::min(argument.find('=') + 1, argument.size())));
    if (argument.starts_with("--kills=")) {
      options.kills = std::atoi(value.c_str());
    } else if (argument.starts_with("--ranks=")) {
      options.ranks = static_cast<std::uint32_t>(std::atoi(value.c_str()));
    } else if (argument.starts_with("--seed=")) {
      options.seed = static_cast<std::uint64_t>(std::atoll(value.c_str()));
    } else if (argument.starts_with("--folder=")) {
      options.folder = value;
    } else {
      return std::nullopt;
    }
  }
  return options.kills > 0 && options.ranks >= 1 && options.ranks <= kMostRanks ? std::optional(options) : std::nullopt;
}

class Campaign {
 public:
  explicit Campaign(const Options& options) : options_(options), random_(options.seed) {
    std::string pattern =
        (options.folder.empty() ? std::filesystem::temp_directory_path().string() : options.folder) + "/kills-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared();
  }
  ~Campaign() { std::filesystem::remove_all(folder_); }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  int run() {
    for (int kill = 0; kill < options_.kills; ++kill) {
      if (const std::string problem = one_kill(); !problem.empty()) {
        fmt::print("after kill {}: {}\n", kill + 1, problem);
        return 1;
      }
    }
    fmt::print(
        "{} kills of {} ranks (seed {}): none of {} committed checkpoints was lost, {} unreported ones survived\n",
        options_.kills, options_.ranks, options_.seed, committed_, unreported_);
    for (const auto& [what, count] : fell_in_) {
      fmt::print("  {:4} {:6.1f} %  {}\n", count, 100.0 * count / options_.kills, what);
    }
    fmt::print("  {} of all ranks at once, {} of one; {} before the run's first save was done\n", of_all_,
               options_.kills - of_all_, before_first_);
    return 0;
  }

 private:
  std::string one_kill() {
    std::array<int, 2> report{};
    if (::pipe2(report.data(), O_CLOEXEC) != 0) {
      return "no pipe";
    }
    const std::int64_t begun_at = newest_;
    const auto begun = Clock::now();
    const auto ranks = testing_support::fork_ranks(options_.ranks, [&](RankGroup& group) {
      ::close(report[0]);
      return run_rank(group, folder_, begun_at, *shared_, report[1]);
    });
    ::close(report[1]);
    wait_a_random_time();
    kill_some(ranks);
    if (!reap(ranks)) {
      return "a rank that was not killed ended otherwise than by losing its peer";
    }
    std::int64_t reported = begun_at;
    std::int64_t steps = 0;
    for (std::int64_t step = 0; ::read(report[0], &step, sizeof step) == sizeof step; ++steps) {
      reported = step;
    }
    ::close(report[0]);
    learn_duration(Clock::now() - begun, steps);
    committed_ += steps;
    before_first_ += steps == 0 ? 1 : 0;
    std::string problem = inspect(folder_, reported, newest_);
    unreported_ += newest_ - reported;
    return problem;
  }

  /// Up to three steps of the length that steps have had so far.
  void wait_a_random_time() {
    const auto longest = static_cast<long>(3e9 * step_seconds_);
    const long nanoseconds = std::uniform_int_distribution<long>(0, longest)(random_);
    timespec rest{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    while (::nanosleep(&rest, &rest) != 0) {
    }
  }

  void learn_duration(Clock::duration taken, std::int64_t steps) {
    if (steps > 0) {
      step_seconds_ =
          0.8 * step_seconds_ + 0.2 * std::chrono::duration<double>(taken).count() / static_cast<double>(steps);
    }
  }

  void kill_some(const std::vector<pid_t>& ranks) {
    const bool all = random_() % 4 == 0;
    const std::size_t victim = random_() % ranks.size();
    const int activity = shared_->activity[all ? 0 : victim];
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (all || rank == victim) {
        ::kill(ranks[rank], SIGKILL);
      }
    }
    of_all_ += all ? 1 : 0;
    ++fell_in_[fmt::format("{}: {}", all || victim == 0 ? "rank 0" : "another rank",
                           kNames[static_cast<std::size_t>(activity)])];
  }

  static bool reap(const std::vector<pid_t>& ranks) {
    bool well = true;
    for (const pid_t rank : ranks) {
      int status = 0;
      ::waitpid(rank, &status, 0);
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      well = well && (killed || status == 0);
    }
    return well;
  }

  Options options_;
  std::mt19937_64 random_;
  std::string folder_;
  Shared* shared_ = nullptr;
  std::int64_t newest_ = 0;
  std::int64_t committed_ = 0;
  std::int64_t unreported_ = 0;
  int of_all_ = 0;
  int before_first_ = 0;
  double step_seconds_ = 0.05;
  std::map<std::string, int> fell_in_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "usage: checkpoint_kills [--kills=N] [--ranks=1..{}] [--seed=N] [--folder=DIR]\n", kMostRanks);
    return 64;
  }
  return Campaign(*options).run();
}
