#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/launchers/pmix.h"
#include "runtime/step/gather.h"

namespace rollcall::launchers {

/// Task 3 of `srun -N3 -n5`, as slurmstepd 22.05 describes it.
inline Environment slurm_task() {
  return Environment({{"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "2"},
                      {"SLURM_PROCID", "3"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_STEP_NUM_TASKS", "5"},
                      {"SLURM_STEP_NUM_NODES", "3"},
                      {"SLURM_STEP_NODELIST", "jwb[0007,0009-0010]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                      {"SLURM_STEP_RESV_PORTS", "17500-17501"},
                      {"SLURMD_NODENAME", "jwb0009"},
                      {"SLURM_DISTRIBUTION", "block"}});
}

inline Environment with(Environment environment, const std::map<std::string, std::string>& changes) {
  for (const auto& [name, value] : changes) {
    environment.set(name, value);
  }
  return environment;
}

/// A PMIx server with fixed answers: two ranks per node.
class FakePmix final : public PmixClient {
 public:
  FakePmix(std::uint32_t rank, std::uint32_t size, std::string run = "slurm.pmix.4711.2")
      : rank_(rank), size_(size), run_(std::move(run)) {}
  std::uint32_t rank() const override { return rank_; }
  std::string name_space() const override { return run_; }
  Result<std::string> host_of(std::uint32_t rank) override { return rank == 0 ? head : own; }
  Result<std::uint32_t> fact(PmixFact which) override {
    switch (which) {
      case PmixFact::JobSize:
        return size_;
      case PmixFact::LocalRank:
        return rank_ % 2;
      case PmixFact::LocalSize:
        return 2U;
      case PmixFact::NodeId:
        return node_id.value_or(rank_ / 2);
    }
    return 0U;
  }
  Result<void> put(const std::string&, const std::string&) override { return {}; }
  Result<void> fence(std::chrono::duration<double>) override { return {}; }
  Result<std::string> get(std::uint32_t, const std::string&, std::chrono::duration<double>) override {
    return std::string();
  }

  std::string head = "jwb0007";
  std::string own = "jwb0009";
  std::optional<std::uint32_t> node_id;  ///< where the server counts otherwise than two ranks a node

 private:
  std::uint32_t rank_;
  std::uint32_t size_;
  std::string run_;
};

/// "slurm+" answered, "slurm-" declined.
inline std::vector<std::string> sources(const step::Gathered& gathered) {
  std::vector<std::string> names;
  for (const TraceEntry& entry : gathered.trace) {
    names.push_back(entry.source + (entry.answered ? "+" : "-"));
    EXPECT_FALSE(entry.detail.empty());
  }
  return names;
}

}  // namespace rollcall::launchers
