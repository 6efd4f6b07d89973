#include "trainer/distributed/process_group/interruptible_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rollcall::process_group {
namespace {

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

c10::intrusive_ptr<c10d::Store> interruptible(c10::intrusive_ptr<c10d::Store> store, Interrupted interrupted) {
  return c10::make_intrusive<InterruptibleStore>(std::move(store), std::move(interrupted));
}

}  // namespace rollcall::process_group
