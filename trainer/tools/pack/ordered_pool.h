#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace rollcall::pack {

/// Makes products 0 ... count - 1 in several threads and returns them in order, made a bounded number ahead: the output
/// does not depend on the number of threads. The destructor waits for products in work and drops the rest.
template <typename Product>
class OrderedPool {
 public:
  /// `make(thread, index)` runs in the threads; two calls with the same `thread` never overlap.
  using Make = std::function<Product(std::size_t thread, std::size_t index)>;

  OrderedPool(std::size_t count, std::size_t threads, Make make)
      : count_(count), make_(std::move(make)), slots_(std::max<std::size_t>(threads, 1) * kAheadPerThread) {
    for (std::size_t thread = 0; thread < std::max<std::size_t>(threads, 1); ++thread) {
      threads_.emplace_back([this, thread] { work(thread); });
    }
  }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;
  ~OrderedPool() {
    {
      const std::lock_guard lock(mutex_);
      count_ = 0;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  /// Waits for the next product and returns it; call it `count` times. Rethrows what make() threw.
  [[nodiscard]] Product next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[handed_out_ % slots_.size()];
    made_.wait(lock, [&] { return slot.product.has_value() || slot.failure; });
    ++handed_out_;
    if (slot.failure) {
      std::rethrow_exception(std::exchange(slot.failure, nullptr));
    }
    Product product = *std::move(slot.product);
    slot.product.reset();
    lock.unlock();
    room_.notify_one();
    return product;
  }

 private:
  static constexpr std::size_t kAheadPerThread = 8;

  struct Slot {
    std::optional<Product> product;
    std::exception_ptr failure;
  };

  /// Returns an index to work on, or nothing at the end.
  std::optional<std::size_t> claim() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return claimed_ >= count_ || claimed_ < handed_out_ + slots_.size(); });
    return claimed_ < count_ ? std::optional(claimed_++) : std::nullopt;
  }

  void work(std::size_t thread) {
    while (const auto index = claim()) {
      Slot made;
      try {
        made.product = make_(thread, *index);
      } catch (...) {
        made.failure = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      slots_[*index % slots_.size()] = std::move(made);
      made_.notify_one();
    }
    room_.notify_all();  // the last index is gone: let the others see it
  }

  std::size_t count_;
  Make make_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable made_;
  std::vector<Slot> slots_;
  std::size_t claimed_ = 0;
  std::size_t handed_out_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace rollcall::pack
