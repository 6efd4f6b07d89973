#include "trainer/distributed/process_group/store.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::process_group {
namespace {

constexpr const char* kGeneration = "0";
constexpr const char* kArrived = "arrived";
constexpr const char* kComplete = "complete";

c10d::TCPStoreOptions store_options(rendezvous::Meeting& meeting, std::uint32_t rank, std::uint32_t world_size,
                                    std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = meeting.endpoint.port;
  options.isServer = rank == 0;
  options.numWorkers = world_size;
  options.waitWorkers = false;  // it polls; await_all_ranks() waits for a notification
  options.timeout = timeout;
  if (rank == 0 && meeting.listener) {
    options.masterListenFd = meeting.listener->release();
  }
  return options;
}

using Bytes = std::vector<std::uint8_t>;
using Keys = std::vector<std::string>;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kPiece{100};

class InterruptibleStore final : public c10d::Store {
 public:
  InterruptibleStore(c10::intrusive_ptr<c10d::Store> store, Interrupted interrupted)
      : c10d::Store(store->getTimeout()), store_(std::move(store)), interrupted_(std::move(interrupted)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<InterruptibleStore>(store_->clone(), interrupted_);
  }

  void wait(const Keys& keys) override { wait(keys, getTimeout()); }
  void wait(const Keys& keys, const Milliseconds& timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (true) {
      const auto left = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());
      try {
        store_->wait(keys, std::clamp(left, Milliseconds(1), kPiece));
        return;
      } catch (const c10::DistStoreError&) {
        if (left <= kPiece || interrupted_()) {
          throw;
        }
      }
    }
  }

  Bytes get(const std::string& key) override {
    wait({key});
    return store_->get(key);
  }
  std::vector<Bytes> multiGet(const Keys& keys) override {
    wait(keys);
    return store_->multiGet(keys);
  }

  void set(const std::string& key, const Bytes& value) override { store_->set(key, value); }
  Bytes compareSet(const std::string& key, const Bytes& current, const Bytes& wanted) override {
    return store_->compareSet(key, current, wanted);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override { return store_->add(key, value); }
  bool deleteKey(const std::string& key) override { return store_->deleteKey(key); }
  bool check(const Keys& keys) override { return store_->check(keys); }
  std::int64_t getNumKeys() override { return store_->getNumKeys(); }
  void append(const std::string& key, const Bytes& value) override { store_->append(key, value); }
  void multiSet(const Keys& keys, const std::vector<Bytes>& values) override { store_->multiSet(keys, values); }
  bool hasExtendedApi() const override { return store_->hasExtendedApi(); }
  const Milliseconds& getTimeout() const noexcept override { return store_->getTimeout(); }
  void setTimeout(const Milliseconds& timeout) override { store_->setTimeout(timeout); }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  Interrupted interrupted_;
};

}  // namespace

Result<c10::intrusive_ptr<c10d::Store>> connect_store(rendezvous::Meeting& meeting, std::uint32_t rank,
                                                      std::uint32_t world_size, std::chrono::milliseconds timeout) {
  c10::intrusive_ptr<c10d::Store> store;
  const std::string endpoint = rendezvous::to_text(meeting.endpoint);
  const Result<void> connected =
      catch_exceptions(Speaker{rank, world_size}, "rendezvous", "no connection to the store at " + endpoint,
                       "looking whether rank 0 is alive and whether a firewall is between the hosts", [&] {
                         auto server = c10::make_intrusive<c10d::TCPStore>(
                             meeting.endpoint.host, store_options(meeting, rank, world_size, timeout));
                         server->setTimeout(timeout);
                         store = c10::make_intrusive<c10d::PrefixStore>(
                             "rollcall/" + rendezvous::to_text(meeting.key) + "/" + kGeneration, server);
                       });
  if (!connected) {
    return connected.error();
  }
  if (const Result<void> complete = await_all_ranks(*store, rank, world_size, timeout); !complete) {
    return complete.error();
  }
  return store;
}

Result<void> await_all_ranks(c10d::Store& store, std::uint32_t rank, std::uint32_t world_size,
                             std::chrono::milliseconds timeout) {
  const Speaker speaker{rank, world_size};
  const std::string action = "looking which tasks did not start, or a longer rendezvous.timeout";
  Result<void> waited = catch_exceptions(speaker, "rendezvous", "not all ranks came", action, [&] {
    if (store.add(kArrived, 1) == static_cast<std::int64_t>(world_size)) {
      store.set(kComplete, std::string("1"));
    }
    store.wait({kComplete}, timeout);
  });
  if (waited) {
    return waited;
  }
  std::int64_t arrived = 0;
  Result<void> asked =
      catch_exceptions(speaker, "rendezvous", "the store is gone", action, [&] { arrived = store.add(kArrived, 0); });
  if (!asked) {
    return asked;
  }
  return fail("rendezvous", speaker.text(),
              "only " + std::to_string(arrived) + " of " + std::to_string(world_size) + " ranks came within " +
                  std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) + " s",
              action, ExitCode::Unavailable);
}

c10::intrusive_ptr<c10d::Store> interruptible(c10::intrusive_ptr<c10d::Store> store, Interrupted interrupted) {
  return c10::make_intrusive<InterruptibleStore>(std::move(store), std::move(interrupted));
}

}  // namespace rollcall::process_group
