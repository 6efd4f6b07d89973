#include "trainer/train/failure_report.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/time_limit.h"
#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::train {
namespace {

constexpr const char* kKey = "rollcall/failures";
constexpr const char* kCodeKey = "rollcall/failure_code";
constexpr const char* kReadKey = "rollcall/failures_read";  ///< ranks that need the store no more
constexpr std::chrono::seconds kPatience{5};  // with a store that answers within milliseconds, unless rank 0 is stopped
constexpr std::chrono::seconds kLongestEnd{2};

std::vector<std::uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

FailureReport::FailureReport(std::uint32_t rank, std::uint32_t local_rank, std::uint32_t world_size, std::string host)
    : rank_(rank), local_rank_(local_rank), world_size_(world_size), host_(std::move(host)) {}

int FailureReport::common(const Error& error) const {
  if (rank_ == 0) {
    print(error);
  }
  // The first rank to leave makes Slurm end the others: give those that start later the time to see the same failure.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return to_int(error.exit_code());
}

int FailureReport::of_this_node(const Error& error) const {
  if (rank_ != 0 && local_rank_ == 0) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (rank_ == 0 || local_rank_ == 0) {
    print(error);
  }
  return to_int(error.exit_code());
}

int FailureReport::agreed(const Error& error) const {
  print(error);
  return to_int(error.exit_code());
}

int FailureReport::own(const Error& error) {
  is_cause_ = true;
  if (error.kind == ErrorKind::DeviceLost) {
    constexpr std::chrono::seconds kLongestWithDevice{15};  // which may hold what it was given for ever
    end_process_unless_ended(to_int(error.exit_code()), kLongestWithDevice);
  }
  leave_code(to_int(error.exit_code()));
  const Claim claimed = claim();
  // Without a store nobody can be asked; one rank a node is enough.
  if (claimed == Claim::First || (claimed == Claim::NoStore && local_rank_ == 0)) {
    print(error);
  }
  // One that misses another rank has that one's failure to thank for it.
  const bool follows = claimed == Claim::Late && error.exit_code() == ExitCode::Unavailable;
  const int code = follows ? code_of_the_cause().value_or(to_int(error.exit_code())) : to_int(error.exit_code());
  needs_store_no_more();
  return code;
}

int FailureReport::lost_peer(const Error& error) {
  const Claim claimed = claim();
  // Without the store its holder, rank 0, is what was lost: the next rank speaks.
  if (claimed == Claim::First || (claimed == Claim::NoStore && rank_ == 1)) {
    print(error);
  }
  const int own_code = to_int(error.exit_code());
  const int code = claimed == Claim::Late ? code_of_the_cause().value_or(own_code) : own_code;
  needs_store_no_more();
  end_process_unless_ended(code, kLongestEnd);
  return code;
}

int FailureReport::may_survive(const Error& error) {
  constexpr std::chrono::seconds kLongestSave{15};
  end_process_unless_ended(to_int(error.exit_code()), kLongestSave);
  return to_int(error.exit_code());
}

void FailureReport::lets_go(int code) {
  *ended_ = true;
  ended_ = std::make_shared<std::atomic<bool>>(false);
  end_process_unless_ended(code, kLongestEnd);
}

void FailureReport::survives() {
  *ended_ = true;
  ended_ = std::make_shared<std::atomic<bool>>(false);
  store_.reset();  // nobody of the next world is to find rank 0's old one
}

void FailureReport::end_process_unless_ended(int code, std::chrono::seconds patience) const {
  std::thread([ended = ended_, code, patience] {
    std::this_thread::sleep_for(patience);
    if (!*ended) {
      std::fflush(nullptr);
      std::_Exit(code);
    }
  }).detach();
}

void FailureReport::leave_code(int code) const {
  if (store_) {  // where rank 0 is gone, nobody will ask
    (void)run_within(kPatience, [store = store_, code] {
      store->compareSet(kCodeKey, {}, bytes(std::to_string(code)));
      return true;
    });
  }
}

void FailureReport::needs_store_no_more() const {
  if (store_) {
    (void)run_within(kPatience, [store = store_] { return store->add(kReadKey, 1); });
  }
}

std::optional<int> FailureReport::code_of_the_cause() const {
  // Where rank 0 is gone meanwhile, this rank's own code will do.
  return run_within(kPatience,
                    [store = store_]() -> std::optional<int> {
                      if (!store->check({kCodeKey})) {
                        return std::nullopt;
                      }
                      const std::vector<std::uint8_t> text = store->get(kCodeKey);
                      return parse_integer<int>(std::string(text.begin(), text.end()));
                    })
      .value_or(std::nullopt);
}

FailureReport::Claim FailureReport::claim() const {
  if (!store_) {
    return Claim::NoStore;
  }
  const std::optional<std::int64_t> number = run_within(kPatience, [store = store_] { return store->add(kKey, 1); });
  if (!number) {
    return Claim::NoStore;
  }
  return *number == 1 ? Claim::First : Claim::Late;
}

void FailureReport::linger() const {
  *ended_ = true;
  if (rank_ != 0 || !store_) {
    return;
  }
  const auto deadline = std::chrono::steady_clock::now() + longest_linger();
  try {
    while (store_->add(kReadKey, 0) < world_size_ && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (const std::exception&) {
    return;  // the store is gone already: nobody can be asking
  }
}

void FailureReport::print(const Error& error) const {
  std::fprintf(stderr, "%s (rank %u on %s)\n", error.message().c_str(), rank_, host_.c_str());
}

}  // namespace rollcall::train
