#include "trainer/train/checkpoints/checkpoint_writer.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/version.h>
#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "trainer/checkpoint/live_content.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/torch.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

namespace background = checkpoint::background;

checkpoint::format::WriterOptions writer_options(const config::CheckpointConfig& config) {
  return {.writer = "rollcall-train", .torch_version = TORCH_VERSION, .read_back = config.read_back};
}

background::RetryPolicy retry_policy(const config::CheckpointConfig& config) { return {.retries = config.retries}; }

/// Adds the time until its destruction to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), begin_(seconds_now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { seconds_ += seconds_now() - begin_; }

 private:
  double& seconds_;
  double begin_;
};

std::vector<std::byte> to_bytes(const std::vector<std::uint8_t>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

/// The ranks of a process group as a RankGroup for checkpoints. Only one thread at a time may use the process group,
/// for any purpose.
class CheckpointWriter::SaveGroup final : public checkpoint::format::RankGroup {
 public:
  /// A null `group` is a world of one rank.
  explicit SaveGroup(process_group::Group group) : group_(std::move(group)) {}

  [[nodiscard]] const process_group::Group& process_group() const { return group_; }
  [[nodiscard]] std::uint32_t rank() const override { return process_group::rank_of(group_); }
  [[nodiscard]] std::uint32_t size() const override { return process_group::world_size_of(group_); }
  [[nodiscard]] Result<void> broadcast(std::vector<std::byte>& bytes) override;
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> gather(std::span<const std::byte> mine) override;

 private:
  process_group::Group group_;
};

Result<void> CheckpointWriter::SaveGroup::broadcast(std::vector<std::byte>& bytes) {
  at::Tensor size = torch::tensor({static_cast<std::int64_t>(bytes.size())});
  RETURN_IF_ERROR(process_group::broadcast(group_, size));
  bytes.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  if (bytes.empty()) {  // collectives do not accept a tensor without elements
    return {};
  }
  // A separate tensor, because data may arrive in it later if the collective is abandoned.
  at::Tensor values = torch::empty({size.item<std::int64_t>()}, at::kByte);
  if (rank() == 0) {
    std::memcpy(values.data_ptr(), bytes.data(), bytes.size());
  }
  Result<void> sent = process_group::broadcast(group_, values);
  if (sent) {
    std::memcpy(bytes.data(), values.data_ptr(), bytes.size());
  }
  return sent;
}

Result<std::vector<std::vector<std::byte>>> CheckpointWriter::SaveGroup::gather(std::span<const std::byte> mine) {
  const auto* const numbers = reinterpret_cast<const std::uint8_t*>(mine.data());
  ASSIGN_OR_RETURN(const auto gathered, process_group::all_gather_bytes(group_, {numbers, numbers + mine.size()}));
  std::vector<std::vector<std::byte>> all;
  for (const std::vector<std::uint8_t>& of_rank : rank() == 0 ? gathered : std::vector<std::vector<std::uint8_t>>()) {
    all.push_back(to_bytes(of_rank));
  }
  return all;
}

CheckpointWriter::~CheckpointWriter() = default;

CheckpointWriter::CheckpointWriter(const config::CheckpointConfig& config, const JobContext& context)
    : config_(config),
      context_(context),
      saver_(config.background ? std::make_unique<background::BackgroundSaver>(retry_policy(config)) : nullptr) {}

Result<void> CheckpointWriter::make_group() {
  abandon_group();
  process_group::Group process_group;
  if (context_.process_group) {
    process_group::ProcessGroupOptions options = context_.group_options;
    options.device = nullptr;  // the saved data is in main memory then
    options.backend = "gloo";
    options.compare_calls = false;
    options.timeout = config_.timeout;
    options.timeout_setting = "--checkpoint-timeout";
    options.expendable = true;
    const std::string name = fmt::format("checkpoints-{}", ++groups_made_);
    ASSIGN_OR_RETURN(const auto made, process_group::make_process_group(
                                          c10::make_intrusive<c10d::PrefixStore>(name, context_.group_store),
                                          context_.rank, context_.world_size, options));
    process_group = made.process_group;
  }
  group_ = std::make_unique<SaveGroup>(std::move(process_group));
  return {};
}

Result<checkpoint::format::RankGroup*> CheckpointWriter::group() {
  const Result<void> made = group_ ? Result<void>() : make_group();
  return made ? Result<checkpoint::format::RankGroup*>(group_.get()) : made.error();
}

void CheckpointWriter::abandon_group() {
  process_group::Group left = group_ ? group_->process_group() : nullptr;
  group_.reset();
  process_group::leave_behind(std::move(left));
}

Result<std::vector<std::int64_t>> CheckpointWriter::sum_over_ranks(std::vector<std::int64_t> mine) {
  const auto ranks = group();
  const bool failed = !ranks || !checkpoint::format::agree(**ranks, {});
  mine.push_back(std::int64_t{failed});
  at::Tensor numbers = torch::tensor(mine, at::kLong);
  RETURN_IF_ERROR(process_group::all_reduce_sum(context_.process_group, numbers));
  const std::int64_t* const sums = numbers.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> of_ranks(sums, sums + mine.size());
  RETURN_IF_ERROR(of_ranks.back() > 0 ? make_group() : Result<void>());
  return of_ranks;
}

bool CheckpointWriter::may_save(Urgency urgency, bool others_saving) {
  if (urgency == Urgency::MaySkip && others_saving && config_.skip_while_saving && !begun_.copied_bytes) {
    return false;
  }
  finish_save();
  return true;
}

Result<void> CheckpointWriter::save(background::Destination destination, const checkpoint::StateParts& parts,
                                    const std::set<std::string>& parameter_keys, Urgency urgency, double begun) {
  begun_ = {};
  RETURN_IF_ERROR(group());
  if (!saved_once_) {
    destination.last_own_step = last_own_step_;
    destination.staging_cleared = staging_cleared_;
  }
  if (!saver_ || urgency == Urgency::Final) {
    Result<void> written = write_now(destination, parts, begun);
    return urgency == Urgency::Final ? written : Result<void>();
  }
  const std::int64_t step = destination.step;
  Result<void> started =
      saver_->start(step, checkpoint::live_content(parts, parameter_keys, device_copies_),
                    [this, destination = std::move(destination)](const checkpoint::format::Content& content) {
                      return commit(destination, content);
                    });
  begun_.stall_seconds = seconds_now() - begun;
  return started;
}

Result<void> CheckpointWriter::commit(const background::Destination& destination,
                                      const checkpoint::format::Content& content) const {
  RECORD_USER_SCOPE("save: write checkpoint");
  if (const std::optional<Error> failure = process_group::device_failure(context_.process_group)) {
    return *failure;  // the data copied from the device may be wrong
  }
  return background::commit(destination, content, writer_options(config_), *group_);
}

Result<void> CheckpointWriter::write_now(const background::Destination& destination,
                                         const checkpoint::StateParts& parts, double begun) {
  const checkpoint::HostContent host = checkpoint::on_host(parts, device_copies_);
  background::SaveOutcome outcome = background::write_with_retries(
      destination.step, retry_policy(config_), [&] { return commit(destination, host.content); },
      [](std::chrono::duration<double> length) {
        std::this_thread::sleep_for(length);
        return true;
      });
  Result<void> written = outcome.written;
  begun_.stall_seconds = seconds_now() - begun;
  note(std::move(outcome));
  return written;
}

Result<void> CheckpointWriter::replicate_to_peer(const checkpoint::PartName& name, const checkpoint::StateParts& parts,
                                                 const std::set<std::string>& parameter_keys, PeerReplicas& copies,
                                                 double begun) {
  RETURN_IF_ERROR(group());
  begun_.copied_bytes = checkpoint::bytes_of(parts);
  const auto exchange = [this, name, &copies](const checkpoint::format::Content& content) {
    RECORD_USER_SCOPE("save: copy to a neighbour");
    return copies.replicate(name, content, {context_.host, context_.local_rank}, group_->process_group());
  };
  background::SaveOutcome outcome;
  outcome.step = name.step;
  Result<void> started;
  if (saver_) {
    started = saver_->start(name.step, checkpoint::live_content(parts, parameter_keys, device_copies_), exchange);
    if (!started) {  // no memory: inform the other ranks, which wait for this part
      outcome.written = process_group::agree_or_fail(group_->process_group(), started);
    }
  } else {
    outcome.written = exchange(checkpoint::on_host(parts, device_copies_).content);
  }
  begun_.stall_seconds = seconds_now() - begun;
  if (!saver_ || !started) {
    outcome.durable_seconds = begun_.stall_seconds;
    note(std::move(outcome));
  }
  return {};
}

void CheckpointWriter::make_room(const checkpoint::StateParts& parts, const std::set<std::string>& parameter_keys) {
  checkpoint::make_room(parts, parameter_keys, device_copies_);
}

void CheckpointWriter::before_update() {
  if (saver_) {
    RECORD_USER_SCOPE("save: copy what is left");
    const Stopwatch stall(begun_.stall_seconds);
    saver_->wait_copied();
    device_copies_.block_compute_stream();
  }
}

void CheckpointWriter::finish_save() {
  if (!saver_) {
    return;
  }
  {
    const Stopwatch stall(begun_.stall_seconds);
    saver_->wait();
  }
  if (auto outcome = saver_->take_outcome()) {
    note(*std::move(outcome));
  }
}

void CheckpointWriter::note(background::SaveOutcome outcome) {
  const bool is_checkpoint = !begun_.copied_bytes;
  if (is_checkpoint && outcome.written) {
    failed_in_a_row_ = 0;
    saved_once_ = true;
  } else if (is_checkpoint) {
    outcome.written = with_advice(outcome.written.error(), outcome.durable_seconds);
    failed_in_a_row_ += 1;
    last_failure_ = outcome.written.error();
  }
  reports_.push_back({std::move(outcome), begun_.stall_seconds, begun_.copied_bytes});
}

Error CheckpointWriter::with_advice(Error error, double seconds) const {
  // For a peer that is late the watchdog has given this advice.
  if (error.kind == ErrorKind::PeerLost && seconds * 1000 >= static_cast<double>(config_.timeout.count())) {
    error.action += "; raising --checkpoint-timeout if this rank's file system was only slow";
  }
  return error;
}

bool CheckpointWriter::gave_up() const {
  return config_.most_failures > 0 && failed_in_a_row_ >= config_.most_failures;
}

Error CheckpointWriter::last_failure() {
  finish_save();
  return last_failure_.value_or(fail("checkpoint", "", "another rank could not save, but this rank could",
                                     "reporting this", ErrorKind::Internal));
}

std::vector<SaveReport> CheckpointWriter::take_reports() {
  if (!under_way() && saver_) {
    finish_save();
  }
  return std::exchange(reports_, {});
}

}  // namespace rollcall::train
