#pragma once

#include <barrier>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/launchers/pmix.h"

namespace rollcall::rendezvous {

/// PMIx among the threads of one process, all on one node.
struct Exchange {
  explicit Exchange(std::uint32_t count) : ranks(count), everybody(count) {}
  std::uint32_t ranks;
  std::barrier<> everybody;
  std::mutex mutex;
  std::map<std::pair<std::uint32_t, std::string>, std::string> values;
};

class ThreadPmix final : public launchers::PmixClient {
 public:
  ThreadPmix(Exchange& exchange, std::uint32_t rank) : exchange_(exchange), rank_(rank) {}
  std::uint32_t rank() const override { return rank_; }
  std::string name_space() const override { return "test"; }
  Result<std::uint32_t> fact(launchers::PmixFact which) override {
    const bool is_size = which == launchers::PmixFact::JobSize || which == launchers::PmixFact::LocalSize;
    return is_size ? exchange_.ranks : (which == launchers::PmixFact::LocalRank ? rank_ : 0U);
  }
  Result<std::string> host_of(std::uint32_t) override { return std::string("here"); }
  Result<void> put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(exchange_.mutex);
    exchange_.values[{rank_, key}] = value;
    return {};
  }
  Result<void> fence(std::chrono::duration<double>) override {
    exchange_.everybody.arrive_and_wait();
    return {};
  }
  Result<std::string> get(std::uint32_t rank, const std::string& key, std::chrono::duration<double>) override {
    const std::lock_guard lock(exchange_.mutex);
    return exchange_.values[{rank, key}];
  }

 private:
  Exchange& exchange_;
  std::uint32_t rank_;
};

}  // namespace rollcall::rendezvous
