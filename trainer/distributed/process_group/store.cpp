#include "trainer/distributed/process_group/store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/store/client.h"
#include "runtime/store/server.h"

namespace rollcall::process_group {
namespace {

using store::Answer;
using store::Operation;
using Bytes = std::vector<std::uint8_t>;
using Keys = std::vector<std::string>;
using Milliseconds = std::chrono::milliseconds;

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes bytes(const store::Value& value) { return {value->begin(), value->end()}; }

/// Returns when `timeout` ends. A timeout beyond the clock's range never ends; one of 0 ends at once, as
/// c10d::TCPStore's.
std::chrono::steady_clock::time_point end_of(Milliseconds timeout) {
  const auto now = std::chrono::steady_clock::now();
  return now + std::clamp(timeout, Milliseconds(0), std::chrono::floor<Milliseconds>(now.max() - now));
}

class WorldStore final : public c10d::Store {
 public:
  /// `served` is the server in this process, if it has it; this object's destructor closes it.
  WorldStore(std::shared_ptr<store::Access> access, Milliseconds timeout, Interrupted interrupted,
             std::shared_ptr<store::Server> served = nullptr)
      : c10d::Store(timeout),
        access_(std::move(access)),
        interrupted_(std::move(interrupted)),
        served_(std::move(served)) {}
  WorldStore(const WorldStore&) = delete;
  WorldStore& operator=(const WorldStore&) = delete;
  ~WorldStore() override {
    if (served_) {
      served_->close();
    }
  }

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<WorldStore>(access_, timeout_, interrupted_);
  }

  void set(const std::string& key, const Bytes& value) override { ask({Operation::Set, {key}, {text(value)}}); }
  void append(const std::string& key, const Bytes& value) override { ask({Operation::Append, {key}, {text(value)}}); }
  Bytes compareSet(const std::string& key, const Bytes& current, const Bytes& wanted) override {
    return bytes(ask({Operation::CompareSet, {key}, {text(current), text(wanted)}}).values.at(0));
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return ask({Operation::Add, {key}, {}, value}).number;
  }
  bool deleteKey(const std::string& key) override { return ask({Operation::Remove, {key}}).number != 0; }
  bool check(const Keys& keys) override { return ask({Operation::Check, keys}).number != 0; }
  std::int64_t getNumKeys() override { return ask({Operation::Count}).number; }

  void wait(const Keys& keys) override { wait(keys, timeout_); }
  void wait(const Keys& keys, const Milliseconds& timeout) override { await(Operation::Wait, keys, timeout); }
  Bytes get(const std::string& key) override { return bytes(await(Operation::Get, {key}, timeout_).values.at(0)); }
  std::vector<Bytes> multiGet(const Keys& keys) override {
    std::vector<Bytes> values;
    for (const store::Value& value : await(Operation::Get, keys, timeout_).values) {
      values.push_back(bytes(value));
    }
    return values;
  }
  void multiSet(const Keys& keys, const std::vector<Bytes>& values) override {
    if (keys.size() != values.size()) {
      C10_THROW_ERROR(DistStoreError, fmt::format("{} keys and {} values", keys.size(), values.size()));
    }
    store::Request request{Operation::Set, keys};
    for (const Bytes& value : values) {
      request.values.push_back(text(value));
    }
    ask(std::move(request));
  }
  bool hasExtendedApi() const override { return true; }

 private:
  /// Requests that need no wait have no timeout, as in c10d::TCPStore: a job may be suspended for hours.
  Answer ask(store::Request request, const store::Patience& patience = {}) {
    Answer answer = access_->ask(std::move(request), patience);
    if (answer.status == Answer::Status::Refused) {
      C10_THROW_ERROR(DistStoreError, answer.refusal);
    }
    if (answer.status == Answer::Status::Gone) {
      C10_THROW_ERROR(DistNetworkError, "the store is gone: rank 0, which holds it, has ended or let go of it");
    }
    return answer;
  }

  Answer await(Operation operation, const Keys& keys, Milliseconds timeout) {
    Answer answer = ask({operation, keys}, {.until = end_of(timeout), .interrupted = interrupted_});
    if (answer.status == Answer::Status::TimedOut) {
      C10_THROW_ERROR(DistStoreError,
                      fmt::format("wait timeout after {}ms, keys: {}", timeout.count(), fmt::join(keys, ", ")));
    }
    return answer;
  }

  std::shared_ptr<store::Access> access_;
  Interrupted interrupted_;
  std::shared_ptr<store::Server> served_;
};

}  // namespace

Result<c10::intrusive_ptr<c10d::Store>> connect_store(rendezvous::Meeting& meeting, std::uint32_t rank,
                                                      std::uint32_t world_size, Milliseconds timeout,
                                                      Interrupted interrupted) {
  const std::size_t most = store::most_bytes(world_size);
  meeting.listener.reset();
  if (rank == 0) {
    ASSIGN_OR_RETURN(auto server, store::Server::serve(std::move(meeting.members), most));
    return c10::intrusive_ptr<c10d::Store>(
        c10::make_intrusive<WorldStore>(server, timeout, std::move(interrupted), server));
  }
  ASSIGN_OR_RETURN(auto client, store::Client::over(std::move(meeting.head), most));
  return c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<WorldStore>(client, timeout, std::move(interrupted)));
}

}  // namespace rollcall::process_group
