#include "trainer/train/session.h"

#include <c10/core/StreamGuard.h>
#include <fmt/format.h>
#include <array>
#include <optional>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "trainer/config/train_config.h"
#include "trainer/device/nccl_log.h"
#include "trainer/distributed/ddp/make_replica.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/streams.h"
#include "trainer/torch.h"
#include "trainer/train/checkpoints.h"
#include "trainer/train/data_pipeline.h"
#include "trainer/train/earlier_training.h"
#include "trainer/train/equal_ranks.h"
#include "trainer/train/loop.h"
#include "trainer/train/observer.h"
#include "trainer/train/process.h"
#include "trainer/train/run_facts.h"
#include "trainer/train/run_folder.h"
#include "trainer/train/same_data.h"
#include "trainer/train/step_graph.h"
#include "trainer/train/step_size.h"
#include "trainer/train/stop_request.h"
#include "trainer/train/training.h"

namespace rollcall::train {
namespace {

/// One training in one world, from its configuration to its end. Every rank does the same steps; one that fails on any
/// rank ends all.
class Session {
 public:
  Session(const SessionInput& input, FailureReport& report, World& world, InMemory memory)
      : input_(input),
        settings_(input.options.trainer),
        report_(report),
        world_(world),
        given_resume_(input.options.trainer.text("resume")),
        kept_(std::move(memory.kept)),
        lease_(std::move(memory.lease)),
        copies_(kept_ && kept_->copies ? std::move(kept_->copies) : std::make_unique<NeighbourCopies>()),
        ready_(std::move(memory.ready)) {
    if (kept_) {
      ready_ = {.model = kept_->model, .datasets = kept_->datasets};
    }
  }

  [[nodiscard]] SessionEnd run() {
    SessionEnd end{.exit_code = run_to_end()};
    end.reported = std::move(reported_);
    if (lost_) {
      end.lost = std::move(lost_);
      end.noticed = noticed_;
      end.kept = keep();
      end.lease = std::move(folder_.lease ? folder_.lease : lease_);  // the latter: it has not come to need it
    }
    return end;
  }

 private:
  [[nodiscard]] int run_to_end() {
    using Step = Result<void> (Session::*)();
    constexpr std::array<Step, 13> kSteps{
        &Session::read_config,      &Session::compare_settings, &Session::prepare_folders,   &Session::find_survivors,
        &Session::look_back,        &Session::make_training,    &Session::add_replica,       &Session::add_optimizer,
        &Session::open_checkpoints, &Session::load_checkpoint,  &Session::confirm_same_step, &Session::warm_up,
        &Session::open_observer};
    for (const Step step : kSteps) {
      if (const std::optional<int> code = end_of_step((this->*step)())) {
        return *code;
      }
    }
    const Outcome outcome = train();
    const int code = end_of_run(outcome);
    if (outcome.ending == Ending::Finished || outcome.ending == Ending::Interrupted) {
      let_go_of_devices();
    }
    if (outcome.ending == Ending::Failed || device::has_warning(device::nccl_log())) {
      write_nccl_log(world_, config_->run.folder);
    }
    return code;
  }

  Result<void> read_config() {
    Result<void> made = take(config::make_train_config(settings_, input_.environment), config_);
    if (made) {
      config_->checkpoint.load.passes_over_others = goes_on_with_own_;
    }
    return made;
  }

  Result<void> compare_settings() { return confirm_equal_settings(world_, settings_, config_->json); }

  Result<void> prepare_folders() {
    return take(train::prepare_folders(*config_, world_, input_.environment, std::move(lease_)), folder_);
  }

  /// What is found is gone on with, and no checkpoint is looked for.
  Result<void> find_survivors() {
    return input_.agent == nullptr
               ? Result<void>()
               : take(find_in_memory(kept_, *copies_, *config_, input_.environment, world_), found_);
  }

  [[nodiscard]] std::int64_t generation() const {
    return parse_integer<std::int64_t>(input_.environment.get(env::kGeneration).value_or("")).value_or(0);
  }

  /// A checkpoint of another training is none to go on from. With other ranks, a training takes the accumulation that
  /// keeps the images of a step, where nobody gave one.
  Result<void> look_back() {
    Result<LookBack> mine = found_.look_back();
    if (!found_.any() && world_.rank == 0) {
      mine = train::look_back(*config_, given_resume_, input_.environment, warnings_);
    }
    const Result<GoingOn> found = share(mine ? going_on(*mine, *config_) : GoingOn(), world_);
    if (!mine || !found) {
      return mine ? found.error() : mine.error();
    }
    if (world_.rank == 0) {
      earlier_ = std::move(mine->earlier);
    }
    goes_on_with_own_ = found->from_own_job;
    asked_before_ = found->same_batch_size && !config_->accumulation_given ? found->images_of_step : 0;
    config_->checkpoint.load.passes_over_others = goes_on_with_own_;
    const bool asked_otherwise = goes_on_with_own_ && config_->checkpoint.load.resume != "auto";
    if (Result<void> set = asked_otherwise ? change("resume", "auto") : Result<void>(); !set) {
      return set;
    }
    const std::int64_t ranks = virtual_ranks(*config_, world_).all;
    const auto asked = accumulation_for(found->images_of_step, ranks, config_->batch_size());
    const auto kept = asked ? asked : accumulation_for(found->images_had, ranks, config_->batch_size());
    if (kept && !config_->accumulation_given) {
      tell_of_accumulation(*kept);
      if (Result<void> set = change("grad-accumulation", std::to_string(*kept)); !set) {
        return set;
      }
    }
    return earlier_ ? check_same_training(*earlier_, settings_, *config_, world_, warnings_) : Result<void>();
  }

  /// Of other ranks load_checkpoint() tells.
  void tell_of_accumulation(std::int64_t kept) {
    if (earlier_ && earlier_->progress.world_size == virtual_ranks(*config_, world_).all &&
        kept != config_->grad_accumulation()) {
      warnings_.push_back(
          fmt::format("a step keeps the {} images that it had, by {} micro-batches of {} for each rank; "
                      "--grad-accumulation=1 makes steps smaller, as --batch-size says",
                      kept * virtual_ranks(*config_, world_).all * config_->batch_size(), kept, config_->batch_size()));
    }
  }

  Result<void> change(const char* setting, const std::string& text) {
    const Result<void> set = settings_.set(setting, text, "the checkpoint");
    return set ? read_config() : set;
  }

  Result<void> make_training() {
    if (Result<void> decided = take(train::captures_steps(*config_, world_, input_.agent != nullptr), captures_steps_);
        !decided) {
      return decided;
    }
    if (captures_steps_) {  // which a device's default stream does not allow
      computing_.reset_stream(new_stream(world_.device.device()));
    }
    Result<void> made = take(train::make_training(*config_, world_, std::exchange(ready_, {})), training_);
    if (made && kept_) {
      kept_->datasets.reset();  // the training's from now on
    }
    return made;
  }
  Result<void> add_replica() {
    return train::add_replica(*training_, *config_, world_, found_.living.has_value(),
                              found_.living ? found_.living->gradient_order : std::vector<std::int64_t>());
  }
  Result<void> add_optimizer() { return train::add_optimizer(*training_, *config_, world_); }

  Result<void> open_checkpoints() {
    checkpoints_.emplace(*config_, *training_, world_, folder_.lease ? &*folder_.lease : nullptr,
                         shown_arguments(input_.arguments), input_.environment.get(env::kSlurmJobId).value_or(""));
    if (config_->parallel.replicate_steps > 0) {
      checkpoints_->use_copies(*copies_, generation());
    }
    progress_ = first_progress(*config_, world_);
    if (asked_before_ > 0) {  // what ranks that do not divide it make of it is not what was asked for
      progress_.global_batch_asked = asked_before_;
    }
    progress_.dataset_size = training_->data.train_sampler->options().dataset_size;
    progress_.data = data_of(training_->data.datasets);
    return {};
  }

  Result<void> load_checkpoint() {
    for (const std::vector<std::string>* const more :
         {&world_.device_warnings, &config_->warnings, &training_->data.warnings}) {
      warnings_.insert(warnings_.end(), more->begin(), more->end());
    }
    if (found_.living) {
      const Result<void> filled = spread(*found_.living, kept_, *training_, world_);
      filled_ = filled.has_value();
      return filled ? take(checkpoints_->go_on(*found_.living, progress_, warnings_), resume_note_) : filled;
    }
    const Result<void> loaded = take(found_.copies ? checkpoints_->load_copies(*found_.copies, progress_, warnings_)
                                                   : checkpoints_->load(progress_, warnings_),
                                     resume_note_);
    if (Result<void> same = loaded ? confirm_same_training() : loaded; !same) {
      return same;
    }
    const std::string other_order =
        earlier_ ? other_order_warning(*earlier_, training_->data.train_sampler->options()) : "";
    if (!other_order.empty()) {
      warnings_.push_back(other_order);
    }
    return {};
  }

  /// The file that look_back() judged may have turned out damaged, and the one before it be another training's; or it
  /// could read none at that moment.
  Result<void> confirm_same_training() {
    const std::string& loaded_from = checkpoints_->loaded_from();
    if (world_.rank != 0 || loaded_from.empty() || (earlier_ && loaded_from == earlier_->path)) {
      return {};
    }
    if (Result<void> looked = take(find_earlier_training({.resume = loaded_from, .folder = {}}), earlier_); !looked) {
      return looked;
    }
    if (!earlier_) {
      return fail("--resume", loaded_from, "was loaded, and cannot be read again to see whether it is this training's",
                  "starting again once the file system is well", ErrorKind::InputOutput);
    }
    return check_same_training(*earlier_, settings_, *config_, world_, warnings_);
  }

  Result<void> confirm_same_step() { return checkpoints_->confirm_same_step(progress_); }
  Result<void> warm_up() {
    const bool settled = found_.living && !found_.living->gradient_order.empty();
    return settled ? Result<void>() : train::warm_up(*training_, *config_, world_);
  }
  Result<void> open_observer() { return take(Observer::open(config_->run, world_), observer_); }

  Outcome train() {
    const std::string& folder = config_->checkpoint.load.folder;
    if (const auto warning = checkpoint_purge_warning(input_.options.launch, input_.environment, folder)) {
      warnings_.push_back(*warning);
    }
    if (const auto warning = world_.rank == 0 ? shared_folder_warning(*config_) : std::nullopt) {
      warnings_.push_back(*warning);
    }
    TimeLimit limit = time_limit_of_job(config_->checkpoint, input_.environment, world_.rank, warnings_);
    print_header();
    observer_->begun(begin_record(facts()));
    if (!world_.left_aside.empty()) {
      write_nccl_log(world_, config_->run.folder);
    }
    reported_ = world_.rank == 0 && config_->run.report ? config_->run.folder : "";
    if (progress_.global_step > 0) {
      observer_->resumed(progress_);
    }
    begun_ = true;
    training_begins();
    if (Recovery recovery = found_.recovery(); !recovery.cause.empty()) {
      recovery.restored = seconds_now() - recovery.noticed;
      observer_->recovered(recovery);
    }
    if (input_.agent != nullptr) {
      input_.agent->live_on();
    }
    Loop loop(*config_, world_, *training_, *checkpoints_, *observer_, progress_, std::move(limit), input_.agent,
              captures_steps_);
    Outcome outcome = loop.run();
    buffers_before_ = loop.take_buffers_before();
    belongs_together_ = loop.is_between_updates();
    return outcome;
  }

  /// What is about to be trained, then notes and warnings.
  void print_header() {
    for (const std::string& line : found_.any() ? std::vector<std::string>() : header_lines(facts())) {
      observer_->note(line);
    }
    for (const std::string* const note : {&folder_.note, &resume_note_}) {
      if (!note->empty()) {
        observer_->note(*note);
      }
    }
    for (const std::string& warning : warnings_) {
      observer_->warn(warning);
    }
  }

  /// What else a job of another number has to do to go on from what this one saved: it would begin there again.
  [[nodiscard]] std::string without_resume() const {
    const std::string& resume = given_resume_;
    return resume == "auto" || resume == "continue-with-changes" ? "" : fmt::format(" without --resume={}", resume);
  }

  int end_of_run(const Outcome& outcome) {
    switch (outcome.ending) {
      case Ending::Finished:
        observer_->finished(progress_, "finished", world_.share.cpus);
        return to_int(ExitCode::Success);
      case Ending::Interrupted:
        observer_->finished(progress_,
                            "interrupted, a checkpoint was saved: submit again" + without_resume() + " to go on",
                            world_.share.cpus);
        return to_int(ExitCode::Interrupted);
      case Ending::Regrouped:
        checkpoints_->writer().finish_save();  // nobody is lost that it would wait for
        return lost_peer(fail("world", "", "nodes came or went", "submitting again", ErrorKind::PeerLost));
      case Ending::Failed: {
        world_.group_options.first_failure->tell(outcome.failure->error.text());
        checkpoints_->writer().give_up(outcome.failure->error.text());
        const int code = failed(*outcome.failure);
        write_flight_record(world_, config_->run.folder, progress_.global_step);  // last: it may wait for a file system
        return code;
      }
    }
    return to_int(ExitCode::Internal);
  }

  /// Before groups of a part of the ranks go: a rank that has come to its end may have memory that another one's last
  /// collective still reads.
  void let_go_of_devices() {
    if (world_.device.plugin() != nullptr && world_.process_group &&
        process_group::guard_collective(world_.process_group,
                                        [&] { current_stream(world_.device.device()).synchronize(); }) &&
        process_group::barrier(world_.process_group)) {
      world_.group_options.first_failure->end_well();
    }
  }

  int failed(Failure failure) {
    if (process_group::is_of_device(failure.error)) {  // this rank's own, whoever noticed it: no peer was lost
      failure.lost_peer = false;
    }
    if (failure.error.kind == ErrorKind::DeviceLost) {
      failure.error.value = world_.device.facts().uuid;
    }
    if (failure.lost_peer && !failure.everywhere && input_.agent != nullptr &&
        failure.error.exit_code() == ExitCode::Unavailable) {
      return lost_peer(failure.error);
    }
    const int code = failure.lost_peer ? report_.lost_peer(failure.error) : report_.own(failure.error);
    observer_->failed(progress_, failure.error);
    return code;
  }

  int lost_peer(const Error& error) {
    if (input_.agent == nullptr) {
      return report_.lost_peer(error);
    }
    lost_ = error;
    noticed_ = seconds_now();
    return report_.may_survive(error);
  }

  /// What lives on of a model that each rank has whole. The groups go, and with them what holds the model.
  std::optional<Kept> keep() {
    if (checkpoints_) {
      checkpoints_->writer().finish_save();
    }
    if (observer_) {
      for (const SaveReport& report : checkpoints_->writer().take_reports()) {
        observer_->saved(report);
      }
    }
    observer_.reset();
    report_.lets_go(to_int(ExitCode::Unavailable));
    std::optional<Kept> kept = std::move(kept_);  // that of before, if this world did not come so far as to use it
    if (begun_) {
      kept.reset();
    }
    if ((begun_ ? belongs_together_ : filled_) && !training_->replica->is_sharded()) {
      kept.emplace();
      kept->model = training_->model;
      kept->optimizer = std::move(training_->optimizer);
      kept->progress = begun_ ? progress_ : found_.living->earlier.progress;
      if (begun_) {
        checkpoints_->give_back_best(kept->progress);
      }
      kept->generation = generation();
      kept->gradient_order = training_->replica->gradient_order();
      kept->buffers_before = std::move(buffers_before_);
      kept->config_json = begun_ ? config_->json : found_.living->earlier.config_json;
      kept->line_begins_at = begun_ ? checkpoints_->line_at(progress_.global_step) : found_.living->line_begins_at;
    }
    if (!copies_->empty()) {
      kept = kept ? std::move(kept) : Kept();
      kept->copies = std::move(copies_);
    }
    if (kept) {
      kept->datasets = training_ ? training_->data.datasets : ready_.datasets;
    }
    if (checkpoints_) {
      checkpoints_->writer().leave_group_behind();
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

  [[nodiscard]] RunFacts facts() const {
    return {input_.step, input_.environment, input_.options.launch, *config_, world_,
            *training_,  progress_,          input_.arguments,      warnings_};
  }

  /// Keeps what a step made.
  template <typename T, typename Place>
  static Result<void> take(Result<T> made, Place& place) {
    if (!made) {
      return made.error();
    }
    place = *std::move(made);
    return {};
  }

  /// One rank's answer to "did your part of the set-up work?" is everybody's.
  std::optional<int> end_of_step(const Result<void>& mine) {
    const Result<process_group::Agreement> agreement = process_group::agree(world_.process_group, mine);
    if (!agreement) {
      return lost_peer(agreement.error());
    }
    if (!agreement->failure) {
      return std::nullopt;
    }
    if (input_.agent != nullptr && agreement->failure->exit_code() == ExitCode::Unavailable &&
        input_.agent->told_to_hold()) {
      return lost_peer(*agreement->failure);  // nodes come while the ranks still meet
    }
    return agreement->prints ? report_.agreed(*agreement->failure) : to_int(agreement->failure->exit_code());
  }

  const SessionInput& input_;
  settings::Settings settings_;
  FailureReport& report_;
  World& world_;
  std::string reported_;
  const std::string given_resume_;  ///< before a restart changed it
  std::optional<Kept> kept_;
  std::optional<Lease> lease_;
  std::unique_ptr<NeighbourCopies> copies_;  ///< this process's
  Ready ready_;
  FoundInMemory found_;
  bool filled_ = false;           ///< model and optimizer are, with what found_.living says
  bool belongs_together_ = true;  ///< model, optimizer and progress_
  bool begun_ = false;            ///< the loop has: progress, model and optimizer belong together
  std::vector<at::Tensor> buffers_before_;
  std::optional<Error> lost_;
  double noticed_ = 0;  ///< seconds_now() of it
  // In the order in which the steps make them.
  std::optional<config::TrainConfig> config_;
  std::optional<EarlierTraining> earlier_;  ///< rank 0's
  bool goes_on_with_own_ = false;           ///< restarted_job_goes_on()
  std::int64_t asked_before_ = 0;  ///< images of a step that the training asks for from its beginning; 0: now's
  RunFolder folder_;               ///< given back after all that writes to it has ended
  bool captures_steps_ = false;
  c10::OptionalStreamGuard computing_;  ///< of this thread, where steps are captured
  std::optional<Training> training_;
  std::optional<Checkpoints> checkpoints_;
  checkpoint::Progress progress_;
  std::optional<Observer> observer_;
  std::string resume_note_;  ///< may be empty
  std::vector<std::string> warnings_;
};

}  // namespace

SessionEnd run_session(const SessionInput& input, FailureReport& report, World& world, InMemory memory) {
  return Session(input, report, world, std::move(memory)).run();
}

}  // namespace rollcall::train
