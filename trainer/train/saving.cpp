#include "trainer/train/saving.h"

#include <torch/version.h>
#include <thread>
#include <utility>

#include "trainer/train/clock.h"

namespace rollcall::train {
namespace {

namespace background = checkpoint::background;

checkpoint::format::WriterOptions writer_options(const settings::Settings& settings) {
  using checkpoint::format::ReadBack;
  return {.writer = "rollcall-train",
          .torch_version = TORCH_VERSION,
          .read_back = settings.text("checkpoint-read-back") == "device" ? ReadBack::Device : ReadBack::Memory};
}

/// Adds the time until its end to `seconds`.
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

}  // namespace

Saving::Saving(const settings::Settings& settings, process_group::Group group)
    : settings_(settings), group_(std::move(group)), policy_{.retries = settings.integer("checkpoint-retries")} {
  if (settings.text("checkpoint-mode") == "async") {
    saver_ = std::make_unique<background::BackgroundSaver>(policy_);
  }
}

bool Saving::may_save(Urgency urgency, bool others_saving) {
  if (urgency == Urgency::MaySkip && others_saving && settings_.text("checkpoint-overlap") == "skip") {
    return false;
  }
  settle();
  return true;
}

Result<void> Saving::save(background::Destination destination, const checkpoint::StateParts& parts,
                          const std::set<std::string>& parameter_keys, Urgency urgency) {
  stall_seconds_ = 0;
  if (!saver_ || urgency == Urgency::Final) {
    Result<void> written = write_now(destination, parts);
    return urgency == Urgency::Final ? written : Result<void>();
  }
  const Stopwatch stall(stall_seconds_);
  const std::int64_t step = destination.step;
  return saver_->start(step, checkpoint::live_content(parts, parameter_keys, device_copies_),
                       [this, destination = std::move(destination)](const checkpoint::format::Content& content) {
                         return background::commit(destination, content, writer_options(settings_), group_);
                       });
}

Result<void> Saving::write_now(const background::Destination& destination, const checkpoint::StateParts& parts) {
  background::SaveOutcome outcome;
  {
    const Stopwatch stall(stall_seconds_);
    const checkpoint::HostContent host = checkpoint::on_host(parts);
    outcome = background::write_with_retries(
        destination.step, policy_,
        [&] { return background::commit(destination, host.content, writer_options(settings_), group_); },
        [](std::chrono::duration<double> length) {
          std::this_thread::sleep_for(length);
          return true;
        });
  }
  Result<void> written = outcome.written;
  note(std::move(outcome));
  return written;
}

void Saving::before_update() {
  if (saver_) {
    const Stopwatch stall(stall_seconds_);
    saver_->wait_copied();
    device_copies_.hold_back();
  }
}

void Saving::settle() {
  if (!saver_) {
    return;
  }
  {
    const Stopwatch stall(stall_seconds_);
    saver_->wait();
  }
  if (auto outcome = saver_->take_outcome()) {
    note(*std::move(outcome));
  }
}

void Saving::note(background::SaveOutcome outcome) {
  if (outcome.written) {
    failed_in_a_row_ = 0;
  } else {
    failed_in_a_row_ += 1;
    last_failure_ = outcome.written.error();
  }
  reports_.push_back({std::move(outcome), stall_seconds_});
}

bool Saving::gave_up() const {
  const std::int64_t most = settings_.integer("checkpoint-failures");
  return most > 0 && failed_in_a_row_ >= most;
}

Error Saving::last_failure() {
  settle();
  return last_failure_.value_or(
      fail("checkpoint", "", "a rank could not save, and this one could", "reporting this", ExitCode::Internal));
}

std::vector<SaveReport> Saving::take_reports() {
  if (!under_way() && saver_) {
    settle();
  }
  return std::exchange(reports_, {});
}

}  // namespace rollcall::train
