#include "trainer/train/outcome.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/text.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/metrics/nvml.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {
namespace {

constexpr const char* kResume =
    "submitting again, which resumes from the last checkpoint; if it happens again, adding "
    "--resume=continue-with-changes and lowering --lr";

/// `action` is the advice where there is a checkpoint to resume from.
Error diverged(const char* what, const std::string& value, const std::string& reason, const std::string& action,
               bool has_checkpoint) {
  return has_checkpoint ? fail(what, value, reason, action, ErrorKind::BadData)
                        : fail(what, value, reason + ", and there is no checkpoint yet",
                               "lowering --lr, or --warmup-epochs=1", ErrorKind::BadData);
}

Error lost_peer_error(const JobContext& context, const std::string& what) {
  return fail("process group", context.backend,
              "a collective failed, probably because a peer was lost: " + process_group::library_text(what),
              "looking for the cause in this output and in Slurm's", ErrorKind::PeerLost);
}

}  // namespace

Outcome failed(Error error) { return Outcome{Ending::Failed, Failure{std::move(error)}}; }

Outcome failed_everywhere(Error error) { return Outcome{Ending::Failed, Failure{std::move(error), true}}; }

namespace {

/// Returns the error of an operation that LibTorch refuses. An image that has shrunk to one pixel, in a batch of one,
/// has no variance.
Error refused(const std::string& text) {
  const bool one_value = text.find("Expected more than 1 value per channel") != std::string::npos;
  return one_value ? fail("--image-size", "", "leaves a batch norm layer with one value for each channel",
                          "raising --image-size, or raising --batch-size")
                   : fail("training step", "", text, "reporting this", ErrorKind::Internal);
}

}  // namespace

std::optional<Outcome> catch_training_errors(const JobContext& context, const std::function<void()>& work) {
  const std::optional<process_group::Caught> caught = process_group::catch_exception(work);
  if (!caught) {
    return std::nullopt;
  }
  Error error = caught->error;
  if (!caught->explained) {
    error = error.kind == ErrorKind::Internal ? refused(error.reason) : lost_peer_error(context, error.reason);
  }
  const bool of_memory = error.kind == ErrorKind::DeviceOutOfMemory || error.kind == ErrorKind::Unavailable;
  if (context.device.plugin() != nullptr && !of_memory) {
    error.reason += metrics::gpu_trouble();
  }
  return failed(std::move(error));
}

namespace {

/// Writes a file that helps to find the cause of a failure, which is reported in any case. In a shared folder anyone
/// may have made a link of that name.
void write_beside(const std::string& path, const std::string& text) {
  const OpenedOutput opened = create_beside(path, O_WRONLY);
  if (opened.descriptor < 0) {
    return;
  }
  const ssize_t written = ::write(opened.descriptor, text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size());
  if (::close(opened.descriptor) != 0 || !whole || ::rename(opened.path.c_str(), path.c_str()) != 0) {
    ::unlink(opened.path.c_str());
  }
}

}  // namespace

void write_flight_record(const JobContext& context, const std::string& folder, std::int64_t step) {
  if (!process_group::device_failure(context.process_group)) {
    return;
  }
  try {
    write_beside(fmt::format("{}/collectives-rank-{}-step-{}.json", folder, context.rank, step),
                 context.device.plugin()->flight_record() + '\n');
  } catch (const std::exception&) {
    // The file only helps to find the cause of a failure, which is reported in any case.
  }
}

Error loss_not_finite(double loss, std::int64_t step, bool has_checkpoint, bool first_of_run) {
  return diverged("loss", fmt::format("{}", loss), fmt::format("is not finite after step {}", step),
                  first_of_run ? "--resume=FILE with a checkpoint from before the one that this run resumed from, and "
                                 "lowering --lr"
                               : kResume,
                  has_checkpoint);
}

Error validation_not_finite(double loss, std::int64_t step, bool has_checkpoint) {
  return diverged("validation loss", fmt::format("{}", loss),
                  fmt::format("is not finite after step {}: the model has diverged", step),
                  "--resume=FILE with an earlier checkpoint, and lowering --lr", has_checkpoint);
}

Error gradients_not_finite(const std::string& where, std::int64_t in_a_row, std::int64_t step, bool has_checkpoint) {
  return diverged("gradients", where,
                  fmt::format("are not finite in {} in a row, up to step {}; the weights are unchanged since then",
                              counted(in_a_row, "step"), step),
                  "--clip-grad-norm=1, or lowering --lr with --resume=continue-with-changes, or raising "
                  "--max-skipped-steps",
                  has_checkpoint);
}

Error gradients_not_finite_at_any_scale() {
  return fail("--precision", "fp16", "gradients are not finite even with the smallest loss scale",
              "--precision=bf16, or lowering --lr", ErrorKind::BadData);
}

Error state_not_finite(const std::string& where, std::int64_t step, bool has_checkpoint) {
  return diverged("state", where.empty() ? "in another rank's part" : where,
                  fmt::format("is not finite after step {}, so no checkpoint of this step was written", step),
                  std::string(kResume) + ", or --resume=FILE with an earlier checkpoint", has_checkpoint);
}

Error too_many_bad_samples(const metrics::RunningAverage& sums, std::int64_t images, const char* part,
                           const std::string& data) {
  const bool mostly_unread = sums.unread > sums.damaged;
  return fail("--data", data,
              fmt::format("{} of {} images for {} were skipped: {} damaged, {} unreadable", sums.bad(), images, part,
                          sums.damaged, sums.unread),
              mostly_unread ? "checking the file system, then submitting again, which resumes from the last checkpoint"
                            : "repairing the data set, or raising --max-bad-samples",
              mostly_unread ? ErrorKind::InputOutput : ErrorKind::BadData);
}

Error validation_does_not_fit(double seconds, std::int64_t step) {
  return fail(
      "validation", fmt::format("of step {}", step),
      fmt::format("was interrupted after {:.0f} s; the last {} runs only repeated it, and none finished it", seconds,
                  kMaxFailedValidations),
      "raising the job's time limit, or using fewer validation images, or --valid-epochs=0, then submitting again, "
      "which resumes from this step",
      ErrorKind::Usage);
}

std::string where_text(const std::string& parameter) {
  return parameter.empty() ? "in another rank's part" : "in " + parameter;
}

}  // namespace rollcall::train
