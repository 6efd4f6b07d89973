#include "trainer/train/session.h"

#include <c10/core/StreamGuard.h>
#include <fmt/format.h>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "trainer/config/named_files.h"
#include "trainer/config/train_config.h"
#include "trainer/distributed/ddp/make_replica.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/streams.h"
#include "trainer/train/checkpoints/checkpoints.h"
#include "trainer/train/equal_settings.h"
#include "trainer/train/observer/observer.h"
#include "trainer/train/observer/run_facts.h"
#include "trainer/train/process.h"
#include "trainer/train/resume/resume_point.h"
#include "trainer/train/run_folder/run_folder.h"
#include "trainer/train/step/loop.h"
#include "trainer/train/step/step_graph.h"
#include "trainer/train/stop_request.h"

namespace rollcall::train {
namespace {

/// Results of the set-up that are reported once all is set up.
struct Known {
  FoundInMemory found = {};
  bool captures = false;  ///< captures_steps()
  std::vector<std::string> notes = {};
  std::vector<std::string> warnings = {};
};

/// One training in one world, from its configuration to its end. Every rank takes the same steps; a step that fails on
/// any rank ends all.
class Session {
 public:
  Session(const SessionInput& input, FailureReport& report, JobContext& context, SessionStart memory)
      : input_(input),
        report_(report),
        context_(context),
        memory_(std::move(memory)),
        copies_(memory_.kept && memory_.kept->copies ? std::move(memory_.kept->copies)
                                                     : std::make_unique<PeerReplicas>()) {}

  [[nodiscard]] SessionEnd run() {
    if (Result<Known> known = set_up()) {
      end_.exit_code = end_of_run(train(*std::move(known)));
    }
    if (end_.lost) {
      end_.next_start.kept = keep();  // it may wait for a save, for which the lease is still held
      end_.next_start.lease = std::move(memory_.lease);
    }
    return std::move(end_);
  }

 private:
  Result<Known> set_up() {
    Known known;
    settings::Settings settings = input_.options.trainer;
    const Environment& environment = input_.environment;
    const Result<void> identified = config::identify_files(settings, environment);
    ASSIGN_OR_RETURN(config_, on_all_ranks(identified ? config::make_train_config(settings, environment)
                                                      : Result<config::TrainConfig>(identified.error())));
    RETURN_IF_ERROR(on_all_ranks(confirm_equal_settings(context_, settings, config_.json)));
    ASSIGN_OR_RETURN(std::string uneven, on_all_ranks(config::apply_global_batch(settings, context_.world_size)));
    ASSIGN_OR_RETURN(config_, on_all_ranks(config::make_train_config(settings, environment)));
    ASSIGN_OR_RETURN(const std::string of_stage,
                     on_all_ranks(prepare_folders(config_, context_, environment, memory_.lease)));
    ASSIGN_OR_RETURN(known.found, on_all_ranks(find_survivors()));
    ASSIGN_OR_RETURN(ResumePoint point,
                     on_all_ranks(find_resume_point(known.found.earlier(), input_.options.trainer.text("resume"),
                                                    settings, config_, environment, context_, known.warnings)));
    ASSIGN_OR_RETURN(known.captures, on_all_ranks(captures_steps(config_, context_, input_.agent != nullptr)));
    if (known.captures) {  // capture does not work on a device's default stream
      computing_.reset_stream(new_stream(context_.device.device()));
    }
    ASSIGN_OR_RETURN(training_, on_all_ranks(make_training(config_, context_, made_before())));
    const std::optional<Handover>& handover = known.found.handover;
    RETURN_IF_ERROR(on_all_ranks(add_replica(*training_, config_, context_, handover.has_value(),
                                             handover ? handover->gradient_order : std::vector<std::int64_t>())));
    RETURN_IF_ERROR(on_all_ranks(add_optimizer(*training_, config_, context_)));
    if (!uneven.empty()) {
      known.warnings.push_back(std::move(uneven));
    }
    for (const auto* const more : {&context_.device_warnings, &config_.warnings, &training_->data.warnings}) {
      known.warnings.insert(known.warnings.end(), more->begin(), more->end());
    }
    checkpoints_.emplace(config_, *training_, context_, memory_.lease ? &*memory_.lease : nullptr,
                         shown_arguments(input_.arguments), environment.get(env::kSlurmJobId).value_or(""));
    if (config_.parallel.replicate_steps > 0) {
      checkpoints_->use_replicas(*copies_, generation());
    }
    progress_ = first_progress(config_, training_->data.datasets, context_, point.images_asked);
    ASSIGN_OR_RETURN(const std::string where, on_all_ranks(load(known.found, point, settings, known.warnings)));
    RETURN_IF_ERROR(on_all_ranks(checkpoints_->confirm_same_step(progress_)));
    const bool is_warm = handover && !handover->gradient_order.empty();
    RETURN_IF_ERROR(on_all_ranks(is_warm ? Result<void>() : warm_up(*training_, config_, context_)));
    ASSIGN_OR_RETURN(Observer observer, on_all_ranks(Observer::open(config_.run, context_)));
    observer_.emplace(std::move(observer));
    known.notes = {of_stage, where};
    return known;
  }

  /// Looks for in-memory state. If there is some, the training continues with it and no checkpoint is looked for.
  Result<FoundInMemory> find_survivors() {
    return input_.agent == nullptr ? FoundInMemory()
                                   : find_in_memory(memory_.kept, *copies_, config_, input_.environment, context_);
  }

  [[nodiscard]] std::int64_t generation() const {
    return parse_integer<std::int64_t>(input_.environment.get(env::kGeneration).value_or("")).value_or(0);
  }

  Prepared made_before() {
    return memory_.kept ? Prepared{.model = memory_.kept->model, .datasets = memory_.kept->datasets}
                        : std::exchange(memory_.ready, {});
  }

  /// Returns a line for people: where the training starts, and why.
  Result<std::string> load(FoundInMemory& found, ResumePoint& point, const settings::Settings& settings,
                           std::vector<std::string>& warnings) {
    if (found.handover) {
      RETURN_IF_ERROR(broadcast_state(*found.handover, memory_.kept, *training_, context_));
      memory_.kept = InMemoryState{.model = training_->model,
                                   .progress = found.handover->earlier.progress,
                                   .config_json = found.handover->earlier.config_json,
                                   .last_own_step = found.handover->last_own_step};
      return checkpoints_->resume_from_memory(found, progress_, warnings);
    }
    ASSIGN_OR_RETURN(std::string where, found.copies ? checkpoints_->resume_from_memory(found, progress_, warnings)
                                                     : checkpoints_->load(progress_, warnings));
    if (context_.rank == 0) {
      RETURN_IF_ERROR(confirm_resume_point(point, checkpoints_->loaded_from(), settings, config_, context_, warnings));
    }
    if (point.earlier) {
      warn_of_other_order(*point.earlier, training_->data.train_sampler->options(), warnings);
    }
    return where;
  }

  Outcome train(Known known) {
    const std::string& folder = config_.checkpoint.load.folder;
    if (const auto warning = checkpoint_purge_warning(input_.options.launch, input_.environment, folder)) {
      known.warnings.push_back(*warning);
    }
    if (const auto warning = context_.rank == 0 ? shared_folder_warning(config_) : std::nullopt) {
      known.warnings.push_back(*warning);
    }
    TimeLimit limit = time_limit_of_job(config_.checkpoint, input_.environment, context_.rank, known.warnings);
    report_beginning(known);
    end_.reported = context_.rank == 0 && config_.run.report ? config_.run.folder : "";
    training_begins();
    if (Recovery recovery = known.found.recovery(); !recovery.cause.empty()) {
      recovery.restored = seconds_now() - recovery.noticed;
      observer_->recovered(recovery);
    }
    if (input_.agent != nullptr) {
      input_.agent->announce_survival();
    }
    loop_end_ = run_loop(
        {config_, context_, *training_, *checkpoints_, *observer_, progress_, limit, input_.agent, known.captures});
    return loop_end_->outcome;
  }

  /// Reports what is about to be trained, followed by notes and warnings.
  void report_beginning(const Known& known) {
    const RunFacts facts{input_.step, input_.environment, input_.options.launch, config_,       context_,
                         *training_,  progress_,          input_.arguments,      known.warnings};
    for (const std::string& line : known.found.any() ? std::vector<std::string>() : header_lines(facts)) {
      observer_->note(line);
    }
    for (const std::string& note : known.notes) {
      if (!note.empty()) {
        observer_->note(note);
      }
    }
    for (const std::string& warning : known.warnings) {
      observer_->warn(warning);
    }
    observer_->begun(begin_record(facts), progress_);
  }

  /// Returns what another job must leave out to resume from what this one saved: with --resume=FILE it would start
  /// there again.
  [[nodiscard]] std::string without_resume() const {
    const std::string& resume = input_.options.trainer.text("resume");
    return resume == "auto" || resume == "continue-with-changes" ? "" : fmt::format(" without --resume={}", resume);
  }

  int end_of_run(const Outcome& outcome) {
    switch (outcome.ending) {
      case Ending::Finished:
        observer_->finished(progress_, "finished", context_.share.cpus);
        let_go_of_devices();
        return to_int(ExitCode::Success);
      case Ending::Interrupted:
        observer_->finished(progress_,
                            "interrupted, a checkpoint was saved: submit again" + without_resume() + " to continue",
                            context_.share.cpus);
        let_go_of_devices();
        return to_int(ExitCode::Interrupted);
      case Ending::Regrouped:
        checkpoints_->writer().finish_save();  // no rank is lost, so this does not block
        return lost_peer(fail("world", "", "nodes joined or left",
                              "submitting again, which resumes from the last checkpoint", ErrorKind::PeerLost));
      case Ending::Failed: {
        context_.group_options.membership->give_up(outcome.failure->error.text());
        const int code = failed(*outcome.failure);
        write_flight_record(context_, config_.run.folder,
                            progress_.global_step);  // last, because a file system may block it
        return code;
      }
    }
    return to_int(ExitCode::Internal);
  }

  /// Waits until all ranks have ended their collectives, before groups of some ranks are destroyed: another rank's last
  /// collective may still read this rank's memory.
  void let_go_of_devices() {
    if (context_.device.plugin() != nullptr && context_.process_group &&
        process_group::guard_collective(context_.process_group,
                                        [&] { current_stream(context_.device.device()).synchronize(); }) &&
        process_group::barrier(context_.process_group)) {
      context_.group_options.membership->end_well();
    }
  }

  int failed(Failure failure) {
    if (failure.error.kind == ErrorKind::DeviceLost) {
      failure.error.value = context_.device.facts().uuid;
    }
    if (input_.agent != nullptr && !failure.everywhere && process_group::is_peer_failure(failure.error)) {
      return lost_peer(failure.error);
    }
    const FailureReport::Reported reported = report_.report_once(failure.error);
    observer_->failed(progress_, reported.cause);
    return reported.exit_code;
  }

  int lost_peer(const Error& error) {
    if (input_.agent == nullptr) {
      return report_.report_own(error);
    }
    end_.lost = error;
    end_.noticed = seconds_now();
    return report_.begin_recovery(error);
  }

  /// Returns this rank's result of a part of the set-up if all ranks succeeded. Otherwise reports the failure, which
  /// ends the session.
  template <typename T>
  Result<T> on_all_ranks(Result<T> mine) {
    const Result<process_group::Agreement> agreement =
        process_group::agree(context_.process_group, mine ? Result<void>() : Result<void>(mine.error()));
    if (!agreement) {
      end_.exit_code = lost_peer(agreement.error());
      return agreement.error();
    }
    if (!agreement->failure) {
      return mine;
    }
    const Error& failure = *agreement->failure;
    if (input_.agent != nullptr && process_group::others_may_be_missing(failure) && input_.agent->hold_requested()) {
      end_.exit_code = lost_peer(failure);  // nodes join while the ranks still connect
    } else {
      end_.exit_code = agreement->prints ? report_.report_agreed(failure) : to_int(failure.exit_code());
    }
    return failure;
  }

  /// Returns the in-memory state of a model that each rank has whole. Destroys the groups and everything that refers to
  /// the model.
  std::optional<InMemoryState> keep() {
    if (observer_) {
      checkpoints_->writer().finish_save();
      for (const SaveReport& report : checkpoints_->writer().take_reports()) {
        observer_->saved(report);
      }
      observer_.reset();
    }
    report_.limit_group_release(to_int(ExitCode::Unavailable));
    std::optional<InMemoryState> kept =
        std::move(memory_.kept);  // of the previous world, if this one did not start to train
    if (loop_end_) {
      kept.reset();
      if (loop_end_->belong_together && !training_->replica->is_sharded()) {
        kept = InMemoryState{.model = training_->model,
                             .progress = progress_,
                             .buffers_before = std::move(loop_end_->buffers_before),
                             .config_json = config_.json,
                             .last_own_step = checkpoints_->writer().last_own_step_at(progress_.global_step)};
        checkpoints_->best().restore_displaced(kept->progress);
      }
    }
    if (kept && kept->model && !kept->optimizer) {  // of this world
      kept->optimizer = std::move(training_->optimizer);
      kept->average = std::move(training_->average);
      kept->generation = generation();
      kept->gradient_order = training_->replica->gradient_order();
    }
    if (!copies_->empty()) {
      kept = kept ? std::move(kept) : InMemoryState();
      kept->copies = std::move(copies_);
    }
    if (kept && training_) {
      kept->datasets = training_->data.datasets;
    }
    if (checkpoints_) {
      checkpoints_->writer().abandon_group();
    }
    checkpoints_.reset();
    if (training_) {
      training_->replica.reset();
    }
    if (kept && kept->model) {
      parallel::leave_group(*kept->model);
    }
    training_.reset();
    return kept;
  }

  const SessionInput& input_;
  FailureReport& report_;
  JobContext& context_;
  SessionStart memory_;                   ///< its lease is returned after all writes to the folder have ended
  std::unique_ptr<PeerReplicas> copies_;  ///< peer replicas of this process
  config::TrainConfig config_;
  c10::OptionalStreamGuard computing_;  ///< stream of this thread, if steps are captured
  std::optional<Training> training_;
  std::optional<Checkpoints> checkpoints_;
  checkpoint::Progress progress_;
  std::optional<Observer> observer_;
  std::optional<LoopEnd> loop_end_;  ///< unset: the loop has not begun
  SessionEnd end_;
};

}  // namespace

SessionEnd run_session(const SessionInput& input, FailureReport& report, JobContext& context, SessionStart memory) {
  return Session(input, report, context, std::move(memory)).run();
}

}  // namespace rollcall::train
