#include "trainer/train/run.h"

#include <fmt/format.h>
#include <torch/version.h>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/settings/settings.h"
#include "runtime/step/resolved_step.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/config/options.h"
#include "trainer/config/train_config.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/report/write_report.h"
#include "trainer/torch.h"
#include "trainer/train/checkpoints.h"
#include "trainer/train/data_pipeline.h"
#include "trainer/train/dry_run.h"
#include "trainer/train/earlier_training.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/loop.h"
#include "trainer/train/observer.h"
#include "trainer/train/process.h"
#include "trainer/train/run_facts.h"
#include "trainer/train/run_folder.h"
#include "trainer/train/same_data.h"
#include "trainer/train/same_settings.h"
#include "trainer/train/step_size.h"
#include "trainer/train/stop_request.h"
#include "trainer/train/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {
namespace {

/// A rank as far as the environment alone tells; decides who prints before the ranks know each other.
std::uint32_t probable(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (const auto number = parse_integer<std::uint32_t>(environment.get(name).value_or(""))) {
      return *number;
    }
  }
  return 0;
}

int print_only(const config::Options& options) {
  switch (options.request) {
    case config::Request::Help:
      std::fputs(config::help_text().c_str(), stdout);
      break;
    case config::Request::Version:
      fmt::print("rollcall-train {} (LibTorch {})\n", ROLLCALL_VERSION, TORCH_VERSION);
      break;
    case config::Request::PrintSettingsMarkdown:
      std::fputs(settings::settings_markdown("rollcall-train", config::trainer_table()).c_str(), stdout);
      break;
    default:
      std::fputs(settings::print_config(options.trainer, options.json).c_str(), stdout);
      std::fputs(settings::print_config(options.launch, options.json).c_str(), stdout);
  }
  return to_int(ExitCode::Success);
}

/// One training, from its configuration to its end. Every rank does the same steps; one that fails on any rank ends
/// all.
class Session {
 public:
  Session(const config::Options& options, const step::ResolvedStep& step, const Environment& environment,
          const std::vector<std::string>& arguments, FailureReport& report, World& world, std::string& reported)
      : launch_(options.launch),
        step_(step),
        settings_(options.trainer),
        environment_(environment),
        arguments_(arguments),
        report_(report),
        world_(world),
        reported_(reported),
        given_resume_(options.trainer.text("resume")) {}

  /// Returns the exit code.
  [[nodiscard]] int run() {
    using Step = Result<void> (Session::*)();
    constexpr std::array<Step, 12> kSteps{
        &Session::read_config,     &Session::compare_settings,  &Session::prepare_folders, &Session::look_back,
        &Session::make_training,   &Session::add_replica,       &Session::add_optimizer,   &Session::open_checkpoints,
        &Session::load_checkpoint, &Session::confirm_same_step, &Session::warm_up,         &Session::open_observer};
    for (const Step step : kSteps) {
      if (const std::optional<int> code = end_of_step((this->*step)())) {
        return *code;
      }
    }
    return end_of_run(train());
  }

 private:
  Result<void> read_config() {
    const Result<void> made = take(config::make_train_config(settings_, environment_), config_);
    if (made) {
      config_->checkpoint.load.passes_over_others = goes_on_with_own_;
    }
    return made;
  }

  Result<void> compare_settings() { return confirm_equal_settings(world_, settings_, config_->json); }

  Result<void> prepare_folders() { return take(train::prepare_folders(*config_, world_, environment_), folder_); }

  /// A checkpoint of another training is none to go on from. With other ranks, a training takes the accumulation that
  /// keeps the images of a step, where nobody gave one.
  Result<void> look_back() {
    Result<LookBack> mine = LookBack();
    if (world_.rank == 0) {
      mine = train::look_back(*config_, given_resume_, environment_, warnings_);
    }
    const Result<GoingOn> found =
        share(mine ? GoingOn{images_of_step(mine->earlier), mine->from_own_job} : GoingOn(), world_);
    if (!mine || !found) {
      return mine ? found.error() : mine.error();
    }
    earlier_ = std::move(mine->earlier);
    goes_on_with_own_ = found->from_own_job;
    config_->checkpoint.load.passes_over_others = goes_on_with_own_;
    const bool asked_otherwise = goes_on_with_own_ && config_->checkpoint.load.resume != "auto";
    if (Result<void> set = asked_otherwise ? change("resume", "auto") : Result<void>(); !set) {
      return set;
    }
    const auto kept = accumulation_for(found->images_of_step, world_.world_size, config_->batch_size());
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
    if (earlier_ && earlier_->progress.world_size == world_.world_size && kept != config_->grad_accumulation()) {
      warnings_.push_back(
          fmt::format("a step keeps the {} images that it had, by {} micro-batches of {} for each rank; "
                      "--grad-accumulation=1 makes steps smaller, as --batch-size says",
                      images_of_step(earlier_), kept, config_->batch_size()));
    }
  }

  Result<void> change(const char* setting, const std::string& text) {
    const Result<void> set = settings_.set(setting, text, "the checkpoint");
    return set ? read_config() : set;
  }

  Result<void> make_training() { return take(train::make_training(*config_, world_), training_); }
  Result<void> add_replica() { return train::add_replica(*training_, *config_, world_); }
  Result<void> add_optimizer() { return train::add_optimizer(*training_, *config_, world_); }

  Result<void> open_checkpoints() {
    Result<std::unique_ptr<CheckpointWriter>> writer = CheckpointWriter::open(config_->checkpoint, world_);
    if (!writer) {
      return writer.error();
    }
    checkpoints_.emplace(*config_, *training_, world_, *std::move(writer), folder_.lease ? &*folder_.lease : nullptr,
                         shown_arguments(arguments_), environment_.get(env::kSlurmJobId).value_or(""));
    progress_ = first_progress(*config_, world_);
    progress_.dataset_size = training_->data.train_sampler->options().dataset_size;
    progress_.data = data_of(training_->data.datasets);
    return {};
  }

  Result<void> load_checkpoint() {
    for (const std::vector<std::string>* const more : {&config_->warnings, &training_->data.warnings}) {
      warnings_.insert(warnings_.end(), more->begin(), more->end());
    }
    const Result<void> loaded = take(checkpoints_->load(progress_, warnings_), resume_note_);
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

  /// The file that look_back() judged may have turned out damaged, and the one before it be another training's.
  Result<void> confirm_same_training() {
    if (!earlier_ || checkpoints_->loaded_from() == earlier_->path || checkpoints_->loaded_from().empty()) {
      return {};
    }
    if (Result<void> looked =
            take(find_earlier_training({.resume = checkpoints_->loaded_from(), .folder = {}}), earlier_);
        !looked || !earlier_) {
      return looked;
    }
    return check_same_training(*earlier_, settings_, *config_, world_, warnings_);
  }

  Result<void> confirm_same_step() { return checkpoints_->confirm_same_step(progress_); }
  Result<void> warm_up() { return train::warm_up(*training_, *config_, world_); }
  Result<void> open_observer() { return take(Observer::open(config_->run, world_), observer_); }

  Outcome train() {
    const std::string& folder = config_->checkpoint.load.folder;
    if (const auto warning = checkpoint_purge_warning(launch_, environment_, folder)) {
      warnings_.push_back(*warning);
    }
    if (const auto warning = world_.rank == 0 ? shared_folder_warning(*config_) : std::nullopt) {
      warnings_.push_back(*warning);
    }
    TimeLimit limit = time_limit_of_job(config_->checkpoint, environment_, world_.rank, warnings_);
    print_header();
    observer_->begun(begin_record(facts()));
    reported_ = world_.rank == 0 && config_->run.report ? config_->run.folder : "";
    if (progress_.global_step > 0) {
      observer_->resumed(progress_);
    }
    training_begins();
    return Loop(*config_, world_, *training_, *checkpoints_, *observer_, progress_, std::move(limit)).run();
  }

  /// What is about to be trained, then notes and warnings.
  void print_header() {
    for (const std::string& line : header_lines(facts())) {
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
      case Ending::Failed:
        world_.group_options.first_failure->tell(outcome.failure->error.message());
        checkpoints_->writer().give_up(outcome.failure->error.message());
        return failed(*outcome.failure);
    }
    return to_int(ExitCode::Internal);
  }

  int failed(const Failure& failure) {
    const int code = failure.lost_peer ? report_.lost_peer(failure.error) : report_.own(failure.error);
    observer_->failed(progress_, failure.error);
    return code;
  }

  [[nodiscard]] RunFacts facts() const {
    return {step_, environment_, launch_, *config_, world_, *training_, progress_};
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
      return report_.lost_peer(agreement.error());
    }
    if (!agreement->failure) {
      return std::nullopt;
    }
    return agreement->prints ? report_.agreed(*agreement->failure) : to_int(agreement->failure->exit_code);
  }

  const settings::Settings& launch_;
  const step::ResolvedStep& step_;
  settings::Settings settings_;
  const Environment& environment_;
  const std::vector<std::string>& arguments_;
  FailureReport& report_;
  World& world_;
  std::string& reported_;           ///< rank 0's: the folder of which a report is to be made, if any
  const std::string given_resume_;  ///< before a restart changed it
  // In the order in which the steps make them.
  std::optional<config::TrainConfig> config_;
  std::optional<EarlierTraining> earlier_;  ///< rank 0's
  bool goes_on_with_own_ = false;           ///< restarted_job_goes_on()
  RunFolder folder_;                        ///< given back after all that writes to it has ended
  std::optional<Training> training_;
  std::optional<Checkpoints> checkpoints_;
  checkpoint::Progress progress_;
  std::optional<Observer> observer_;
  std::string resume_note_;  ///< may be empty
  std::vector<std::string> warnings_;
};

int join_and_work(const config::Options& options, const Environment& environment,
                  const std::vector<std::string>& arguments, FailureReport& report, metrics::StartupTrace& trace) {
  Result<std::unique_ptr<launchers::PmixClient>> pmix = rendezvous::pmix_for(environment, options.launch);
  if (!pmix) {
    return report.common(pmix.error());
  }
  const Result<step::ResolvedStep> step = step::resolve_this_step(environment, options.launch, pmix->get());
  if (!step) {
    return report.of_this_node(step.error());
  }
  report = FailureReport(step->facts.rank, step->facts.local_rank, step->facts.world_size,
                         step->facts.this_host.empty() ? this_host_name() : step->facts.this_host);
  const Environment patched = resolve::apply(step->patch, environment);
  prepare_process(parse_integer<int>(patched.get("OMP_NUM_THREADS").value_or("")).value_or(0));
  trace.mark("bootstrap");
  int code = 0;
  std::string reported;
  {
    Result<World> world = join_world(*step, patched, options.launch, config::make_process_group_config(options.trainer),
                                     *std::move(pmix), report, trace);
    if (!world) {
      const bool common = world.error().exit_code == ExitCode::Mismatch;
      const int failed = common ? report.common(world.error()) : report.own(world.error());
      report.linger();
      return failed;
    }
    const bool trains = options.request != config::Request::DryRun;
    const Result<void> proven = !trains || options.trace_startup ? dry_run(*world, options, trace) : Result<void>();
    if (!proven) {
      code = report.lost_peer(proven.error());
    } else if (trains) {
      code = Session(options, *step, patched, arguments, report, *world, reported).run();
    }
    if (code == to_int(ExitCode::Interrupted)) {
      leave_interrupted(*world);
    } else if (code == to_int(ExitCode::Success)) {
      let_others_leave_first(*world);
    }
  }
  // The process group is gone by now: ranks that wait in a collective notice, and ask the store whether the cause was
  // told.
  if (code != 0 && code != to_int(ExitCode::Interrupted)) {
    report.linger();
  }
  if (!reported.empty()) {
    constexpr double kMostSeconds = 20;  // of the job's time, for records of many million steps
    const std::string told = report::report_of_run(reported, kMostSeconds);
    if (options.trainer.text("progress") != "none") {
      std::fputs(told.c_str(), stdout);
    }
  }
  return code;
}

}  // namespace

int run(const Environment& environment, const std::vector<std::string>& arguments,
        metrics::StartupTrace trace) noexcept {
  FailureReport report(
      probable(environment, {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}),
      probable(environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"}), 1,
      this_host_name());
  try {
    catch_stop_signals();
    const Result<config::Options> options = config::read_options(environment, arguments);
    if (!options) {
      return report.common(options.error());
    }
    trace.mark("settings");
    if (options->request == config::Request::BenchmarkData) {
      const Result<void> done = benchmark_data(options->trainer, environment, options->json);
      return done ? to_int(ExitCode::Success) : report.own(done.error());
    }
    if (options->request != config::Request::Train && options->request != config::Request::DryRun) {
      return print_only(*options);
    }
    return join_and_work(*options, environment, arguments, report, trace);
  } catch (const std::exception& error) {
    if (const std::optional<Error> memory = process_group::out_of_memory(error)) {
      return report.own(*memory);
    }
    return report.own(fail("rollcall-train", "", error.what(), "reporting this: it is a bug", ExitCode::Internal));
  }
}

}  // namespace rollcall::train
