#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/own_file.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/elastic/agent.h"
#include "runtime/elastic/failure.h"

// What the agent tells of generations and of its end.

namespace rollcall::elastic {
namespace {

constexpr std::size_t kLongestHandedFile = 1 << 20;
constexpr int kFirstSignalCode = 128;

}  // namespace

bool Agent::speaks() const {
  const bool under_slurm = environment_.get_non_empty(env::kSlurmProcId).has_value();
  return !under_slurm || (coordination_ != nullptr && coordination_->coordinator() != nullptr);
}

void Agent::announce(const Generation& generation) {
  if ((generation.number == 1 && generation.world.size() == 1) || coordination_->coordinator() == nullptr) {
    return;
  }
  const auto& history = coordination_->coordinator()->history();
  std::uint32_t workers = 0;
  for (const Node& node : generation.world) {
    workers += node.workers;
  }
  tell_(fmt::format("rollcall: run: generation {}: {} workers on {} node{}{}", generation.number, workers,
                    generation.world.size(), generation.world.size() == 1 ? "" : "s",
                    history.empty() ? "" : ", since " + history.back().reason));
}

/// Who comes when all places are taken, a second job at the endpoint of a first one perhaps, is told why nothing
/// happens.
void Agent::announce_waiting(const Order& order) {
  const bool full = order.kind == Order::Kind::Wait && order.generation.world.size() >= request_.max_nodes;
  if (full && !had_a_place() && !told_that_it_waits_) {
    told_that_it_waits_ = true;
    tell_(fmt::format("rollcall: run: the run at {} has all its {} nodes: this one, {}, waits until another goes",
                      coordination_->where(), request_.max_nodes, this_host_name()));
  }
}

int Agent::interrupted_exit_code(int otherwise) const {
  bool all_well = !last_ended_.empty();
  int own = 0;
  for (const EndedWorker& ended : last_ended_) {
    all_well = all_well && ended.exit_code == 0 && ended.signal == 0;
    own = std::max(own, ended.exit_code);
  }
  return all_well ? 0 : own > 0 ? own : otherwise;
}

RunEnd Agent::ended_by(int signal, int exit_code) const {
  const bool told = exit_code != 0 && speaks();
  return {exit_code,
          told ? fmt::format("rollcall: run: ended by signal {} (SIG{})", signal, sigabbrev_np(signal)) : ""};
}

RunEnd Agent::end_of(const Outcome& outcome) const {
  if (member_.interrupted()) {
    const int code = interrupted_exit_code(outcome.exit_code);
    return ended_by(outcome.exit_code - kFirstSignalCode, code);
  }
  if (outcome.exit_code == 0 && !had_a_place()) {
    // A task of a step of several nodes is there to be a spare; its step shall not fail.
    const bool is_spare = parse_integer<std::uint32_t>(environment_.get(env::kSlurmStepNodes).value_or("")) > 1U;
    return {is_spare ? 0 : to_int(ExitCode::NoPlace),
            fmt::format("rollcall: run: the run at {} ended well without this node, {}, which has run nothing; try "
                        "another --rdzv-endpoint for a run of its own",
                        coordination_->where(), this_host_name())};
  }
  if (outcome.exit_code == 0 || (!speaks() && !outcome.own)) {
    return {outcome.exit_code, ""};
  }
  if (!outcome.cause) {
    return {outcome.exit_code, fmt::format("rollcall: run: {}; try looking at the lines of the other agents{}",
                                           outcome.reason, outcome.own ? ", or another --rdzv-endpoint" : "")};
  }
  const std::string& file = outcome.cause->error_file;
  const bool kept = !file.empty() && !request_.logs.folder.empty();
  const std::string after = outcome.reason.empty() ? "" : " (" + outcome.reason + ")";
  if (outcome.cause->kind == Cause::Kind::SetUp) {  // it wrote nothing, and says what to try
    return {outcome.exit_code, fmt::format("rollcall: run: {}{}", describe(*outcome.cause), after)};
  }
  return {outcome.exit_code, fmt::format("rollcall: run: {}{}; try looking at {}", describe(*outcome.cause), after,
                                         kept ? file : "what it wrote before")};
}

void Agent::hand_error_file_up(const Outcome& outcome) const {
  const auto own = environment_.get_non_empty("TORCHELASTIC_ERROR_FILE");
  std::string content;
  // The coordinator names the file: only one that was given to a worker of this agent is read.
  const bool own_workers = outcome.cause && !outcome.cause->error_file.empty() &&
                           std::ranges::find(error_files_, outcome.cause->error_file) != error_files_.end();
  if (!own || !own_workers || !read_small_file(outcome.cause->error_file, kLongestHandedFile, content).reason.empty()) {
    return;
  }
  const int code = outcome.cause->signal > 0 ? -outcome.cause->signal : outcome.cause->exit_code;
  const OpenedOutput opened = open_output(*own, O_WRONLY);
  if (opened.descriptor < 0) {
    return;
  }
  const std::string text = with_error_code(content, code);
  if (ftruncate(opened.descriptor, 0) == 0) {
    (void)!write(opened.descriptor, text.data(), text.size());
  }
  close(opened.descriptor);
}

}  // namespace rollcall::elastic
