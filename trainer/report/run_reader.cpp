#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/text.h"
#include "runtime/base/untrusted_json.h"
#include "trainer/report/run.h"

namespace rollcall::report {
namespace {

constexpr std::int64_t kKnownSchema = 1;
constexpr double kClockMayDiffer = 1;  // seconds that a record may be older than the one before it

double or_zero(double value) { return std::isfinite(value) ? value : 0; }

std::string text_of(const nlohmann::json& json) {
  return json.is_string() ? json.get<std::string>()
                          : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string without_prefix(const std::string& message) {
  constexpr std::string_view kPrefix = "rollcall: ";
  return message.starts_with(kPrefix) ? message.substr(kPrefix.size()) : message;
}

std::string member(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() ? "" : text_of(*found);
}

void read_settings(const nlohmann::json& begin, std::map<std::string, NamedValue>& settings) {
  settings.clear();
  const auto found = begin.find("settings");
  if (found == begin.end() || !found->is_object()) {
    return;
  }
  for (const auto& [name, setting] : found->items()) {
    if (setting.is_object() && setting.contains("value")) {
      settings[name] = {member(setting, "value"), member(setting, "origin")};
    }
  }
}

void read_environment(const nlohmann::json& begin, std::map<std::string, NamedValue>& environment) {
  environment.clear();
  const auto found = begin.find("environment");
  if (found == begin.end() || !found->is_array()) {
    return;
  }
  for (const nlohmann::json& variable : *found) {
    if (variable.is_object() && member(variable, "action") != "unset") {
      const std::string reason = member(variable, "reason");
      environment[member(variable, "name")] = {member(variable, "value"),
                                               member(variable, "origin") + (reason.empty() ? "" : ": " + reason)};
    }
  }
}

std::string read_command_line(const nlohmann::json& begin) {
  std::string line;
  for (const nlohmann::json& argument : begin.value("command_line", nlohmann::json::array())) {
    line += (line.empty() ? "" : " ") + text_of(argument);
  }
  return line;
}

void read_hosts(const nlohmann::json& begin, Run& run) {
  run.hosts.clear();
  run.ranks_of_hosts.clear();
  for (const nlohmann::json& host : begin.value("hosts", nlohmann::json::array())) {
    run.hosts.push_back(text_of(host));
  }
  for (const nlohmann::json& ranks : begin.value("ranks_of_hosts", nlohmann::json::array())) {
    run.ranks_of_hosts.push_back(ranks.is_number_integer() ? ranks.get<std::int64_t>() : 0);
  }
}

constexpr double kMostJoules = 1e12;  // more than a node uses in a week

/// Returns whether `name` is a file name of StepTrace, "trace-100-104.json", because the page links to it.
bool is_trace_file(const std::string& file) {
  constexpr std::string_view kBegin = "trace-";
  constexpr std::string_view kEnd = ".json";
  if (file.size() > 60 || !file.starts_with(kBegin) || !file.ends_with(kEnd)) {
    return false;
  }
  const std::string steps = file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size());
  const std::vector<std::string> numbers = split(steps, '-');
  return numbers.size() == 2 && std::ranges::all_of(numbers, [](const std::string& number) {
           return !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
         });
}

/// Reads a number that must be plausible; NaN where it is not. The record may come from anybody.
bool are_shares(const std::vector<double>& numbers) {
  return std::ranges::all_of(numbers,
                             [](double number) { return std::isnan(number) || (number >= 0 && number < 1e9); });
}

}  // namespace

Start& RunReader::start() {
  if (run_.starts.empty()) {
    run_.starts.emplace_back();
  }
  return run_.starts.back();
}

void RunReader::note_time(const ReadRecord& record) {
  const double time = record.number("time");
  if (!std::isfinite(time)) {
    return;
  }
  Start& of = start();
  run_.clock_jumps += time + kClockMayDiffer < of.last ? 1 : 0;
  of.last = std::max(of.last, time);
}

/// Notes the step that was done when a record was written; records are not limited to --log-steps.
void RunReader::note_step(const ReadRecord& record) {
  const std::int64_t step = record.integer("step");
  if (record.event() != "begin" && step > run_.step) {
    run_.step = step;
    start().to_step = step;
  }
}

void RunReader::take_warning(const std::string& text) {
  constexpr std::size_t kMost = 50;
  if (run_.warnings.size() < kMost && std::ranges::find(run_.warnings, text) == run_.warnings.end()) {
    run_.warnings.push_back(text);
  }
}

void RunReader::take(const ReadRecord& record) {
  const std::string& event = record.event();
  if (event == "begin") {
    take_begin(record);
  }
  note_time(record);
  note_step(record);
  if (event == "step") {
    take_step(record);
  } else if (event == "ranks") {
    take_ranks(record);
  } else if (event == "trace") {
    take_trace(record);
  } else if (event == "epoch") {
    run_.epoch = record.integer("epoch") + 1;
  } else if (event == "validation") {
    take_validation(record);
  } else if (event == "checkpoint") {
    take_checkpoint(record);
  } else if (event == "replica") {
    take_replica(record);
  } else if (event == "regrouped") {
    take_change(record);
  } else if (event == "checkpoint_skipped") {
    run_.left_out_checkpoints += 1;
  } else if (event == "skipped_step") {
    run_.left_out_steps += 1;
  } else if (event == "resume") {
    take_resume(record.integer("global_step"));
  } else if (event == "warning") {
    take_warning(record.text("text"));
  } else if (event == "end" || event == "failed") {
    start().ending = event == "end" ? record.text("ending") : "failed: " + without_prefix(record.text("error"));
    run_.peak_memory = std::max(run_.peak_memory, or_zero(record.number("peak_memory_bytes_of_rank_0")));
    run_.device_peak = std::max(run_.device_peak, or_zero(record.number("device_peak_allocated_bytes")));
  } else if (event != "begin") {
    run_.note_once(event.empty() ? "some records have no event" : "some records have an unknown event, " + event);
  }
}

void RunReader::take_begin(const ReadRecord& record) {
  run_.starts.emplace_back();
  Start& of = run_.starts.back();
  if (const std::int64_t schema = record.integer("schema"); schema > kKnownSchema) {
    run_.note_once(
        fmt::format("a newer rollcall wrote this record (schema {}, this program knows {}): unknown parts are "
                    "skipped",
                    schema, kKnownSchema));
  }
  of.began = or_zero(record.number("time"));
  take_resume(record.integer("step"));  // also where it begins anew in the folder of another training
  of.to_step = of.from_step;
  of.ranks = std::max<std::int64_t>(record.integer("ranks", 1), 1);
  of.nodes = std::max<std::int64_t>(record.integer("nodes", 1), 1);
  of.cpus_of_rank = std::max<std::int64_t>(record.integer("cpus_of_rank", 1), 1);
  of.restart_count = record.integer("restart_count", 0);
  of.job = record.text("job");
  run_.version = record.text("rollcall");
  run_.libtorch = record.text("libtorch");
  run_.model = record.text("model");
  run_.data = record.text("data");
  run_.backend = record.text("backend");
  run_.energy_of = record.text("energy_of");
  run_.training_images = record.integer("training_images", 0);
  run_.images_of_step = record.integer("images_of_step", 0);
  run_.steps_of_epoch = record.integer("steps_of_epoch", 0);
  run_.epochs = record.integer("epochs", 0);
  run_.max_steps = record.integer("max_steps", 0);
  run_.job_ends = or_zero(record.number("job_ends"));
  const nlohmann::json begin = parse_untrusted(record.line()).value_or(nlohmann::json());
  if (begin.is_object()) {
    read_settings(begin, run_.settings);
    const auto exact = run_.settings.find("elastic-exact");
    const auto shares = exact == run_.settings.end() ? 0 : parse_integer<std::int64_t>(exact->second.value).value_or(0);
    run_.ranks.set_equal_shares(shares % of.ranks == 0);
    read_environment(begin, run_.environment);
    run_.command_line = read_command_line(begin);
    for (const nlohmann::json& warning : begin.value("warnings", nlohmann::json::array())) {
      take_warning(text_of(warning));
    }
    read_hosts(begin, run_);
  }
}

void RunReader::take_step(const ReadRecord& record) {
  const std::int64_t step = record.integer("step");
  if (step < 0) {
    return;
  }
  run_.step = step;
  run_.epoch = std::max<std::int64_t>(record.integer("epoch", 0), 0);
  const double seconds = record.number("seconds");
  const double time = record.number("time");
  Start& of = start();
  of.to_step = step;
  if (of.first_step == 0 && std::isfinite(time) && std::isfinite(seconds)) {
    of.first_step = time - seconds;
  }
  run_.clock.add(step, run_.starts.front().began > 0 ? time - run_.starts.front().began : std::nan(""));
  run_.loss.add(step, record.number("loss"));
  run_.top1.add(step, record.number("top1"));
  run_.top5.add(step, record.number("top5"));
  run_.learning_rate.add(step, record.number("learning_rate"));
  if (const double rate = record.number("images_per_second"); rate > 0) {  // 0: an epoch's first step has none
    run_.images_per_second.add(step, rate);
  }
  run_.gpu_load.add(step, record.number("gpu_load"));
  run_.gpu_memory.add(step, record.number("gpu_memory_mib"));
  run_.gpu_memory_total.add(step, record.number("gpu_memory_total_mib"));
  run_.gpu_watts.add(step, record.number("gpu_watts"));
  run_.images_per_joule.add(step, record.number("images_per_joule"));
  run_.data_wait.add(step, record.number("data_wait_fraction"));
  run_.samples.add(step, record.number("samples"));
  run_.bad_samples.add(step, record.number("bad_samples"));
  run_.loader_utilisation = or_zero(record.number("loader_utilisation_of_rank_0"));
  run_.seconds.add(step, seconds);
  const double steps = record.number("steps");
  if (!std::isfinite(seconds) || !(steps > 0)) {
    return;
  }
  constexpr std::array names{"data_wait_seconds", "forward_seconds", "backward_seconds", "wait_seconds",
                             "optimizer_seconds"};
  double rest = seconds;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double part = or_zero(record.number(names[i]));
    rest -= part;
    run_.parts[i].add(step, part / steps);
    run_.part_seconds[i] += part;
  }
  run_.parts.back().add(step, std::max(rest, 0.0) / steps);
  run_.part_seconds.back() += std::max(rest, 0.0);
}

void RunReader::take_ranks(const ReadRecord& record) {
  const std::vector<double>& data = record.numbers("data_seconds");
  const auto at = [&record](const char* name, std::size_t rank) {
    const std::vector<double>& numbers = record.numbers(name);
    return rank < numbers.size() ? numbers[rank] : std::nan("");
  };
  std::vector<RankStep> ranks(data.size());
  for (std::size_t rank = 0; rank < data.size(); ++rank) {
    ranks[rank] = {data[rank],
                   at("forward_seconds", rank),
                   at("backward_seconds", rank),
                   at("wait_seconds", rank),
                   at("peak_memory_mib", rank),
                   at("cpu_seconds", rank),
                   at("loader_utilisation", rank)};
    run_.peak_memory = std::max(run_.peak_memory, or_zero(ranks[rank].peak_memory_mib) * (1 << 20));
    run_.device_peak = std::max(run_.device_peak, or_zero(at("device_peak_allocated_mib", rank)) * (1 << 20));
  }
  run_.ranks.add(record.integer("step", 0), ranks);
  for (const double joules : record.numbers("energy_joules")) {
    start().joules += joules > 0 && joules < kMostJoules ? joules : 0;
  }
}

void RunReader::take_trace(const ReadRecord& record) {
  constexpr std::size_t kMost = 16;
  constexpr std::size_t kMostRanks = 64;
  TracedSteps traced{record.text("file"),
                     record.integer("first_step", 0),
                     record.integer("last_step", 0),
                     record.numbers("seconds"),
                     record.numbers("compute_seconds"),
                     record.numbers("communication_seconds"),
                     record.numbers("exposed_communication_seconds")};
  const std::size_t ranks = traced.seconds.size();
  if (ranks == 0 || ranks > kMostRanks || traced.compute.size() != ranks || traced.communication.size() != ranks ||
      traced.exposed.size() != ranks || !are_shares(traced.seconds) || !are_shares(traced.compute) ||
      !are_shares(traced.communication) || !are_shares(traced.exposed) || !is_trace_file(traced.file)) {
    run_.note_once("some records of traces are invalid");
    return;
  }
  run_.traces.push_back(std::move(traced));
  if (run_.traces.size() > kMost) {
    run_.traces.erase(run_.traces.begin());
  }
}

void RunReader::take_checkpoint(const ReadRecord& record) {
  const std::int64_t step = record.integer("step", 0);
  const bool written = record.number("written") > 0;
  run_.checkpoints += written ? 1 : 0;
  run_.failed_checkpoints += written ? 0 : 1;
  run_.durable.add(step, record.number("durable_seconds"));
  run_.stall.add(step, record.number("stall_seconds"));
  run_.stall_seconds += or_zero(record.number("stall_seconds"));
}

void RunReader::take_replica(const ReadRecord& record) {
  const bool complete = record.number("complete") > 0;
  run_.replicas += complete ? 1 : 0;
  run_.failed_replicas += complete ? 0 : 1;
  run_.replica_bytes = or_zero(record.number("bytes"));
  run_.replica_stall_seconds += or_zero(record.number("stall_seconds"));
}

void RunReader::take_change(const ReadRecord& record) {
  run_.world_changes += 1;
  run_.change_seconds.add(record.integer("step", 0), record.number("first_step_seconds"));
}

void RunReader::take_validation(const ReadRecord& record) {
  const std::int64_t step = record.integer("step", 0);
  run_.valid_loss.add(step, record.number("loss"));
  run_.valid_top1.add(step, record.number("top1"));
  run_.valid_top5.add(step, record.number("top5"));
  run_.validation_seconds += or_zero(record.number("seconds"));
  run_.valid_precision.add(step, record.number("mean_average_precision"));
  // The first of these that a record has decides which checkpoint is the best.
  for (const char* const name : {"ema_mean_average_precision", "mean_average_precision", "ema_top1", "top1"}) {
    if (const double deciding = record.number(name); std::isfinite(deciding)) {
      validated_[step] = deciding;
      break;
    }
  }
  find_best();
}

void RunReader::find_best() {
  run_.best_quality = -1;
  run_.best_step = 0;
  for (const auto& [step, quality] : validated_) {
    if (quality > run_.best_quality) {
      run_.best_quality = quality;
      run_.best_step = step;
    }
  }
}

void RunReader::take_resume(std::int64_t step) {
  if (step < 0) {
    return;
  }
  start().from_step = step;
  run_.lost_steps += std::max<std::int64_t>(run_.step - step, 0);
  run_.step = std::min(run_.step, step);
  run_.lost_seconds += run_.seconds.forget_after(step);
  for (Series* const series :
       {&run_.clock, &run_.loss, &run_.top1, &run_.top5, &run_.learning_rate, &run_.images_per_second, &run_.gpu_load,
        &run_.gpu_memory, &run_.gpu_memory_total, &run_.gpu_watts, &run_.images_per_joule, &run_.data_wait,
        &run_.samples, &run_.bad_samples, &run_.valid_loss, &run_.valid_top1, &run_.valid_top5,
        &run_.valid_precision}) {
    series->forget_after(step);
  }
  for (Series& part : run_.parts) {
    part.forget_after(step);
  }
  validated_.erase(validated_.upper_bound(step), validated_.end());
  find_best();
}

}  // namespace rollcall::report
