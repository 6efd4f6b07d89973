#include "trainer/report/curves.h"

#include <algorithm>

namespace rollcall::report {

std::vector<ChartPlan> charts_of(const Run& run) {
  ChartPlan step{"step", "A step's time by part", "s", 1, true, false, {}};
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    step.curves.push_back({kParts[i], &run.parts[i]});
  }
  std::vector<ChartPlan> charts{
      {"loss", "Loss", "", 1, false, false, {{"training", &run.loss}, {"validation", &run.valid_loss}}},
      {"accuracy",
       "Accuracy",
       "%",
       100,
       false,
       false,
       {{"top-1", &run.top1},
        {"top-5", &run.top5},
        {"validation top-1", &run.valid_top1},
        {"validation top-5", &run.valid_top5},
        {"validation mAP", &run.valid_precision}}},
      {"rate", "Learning rate", "", 1, false, false, {{"learning rate", &run.learning_rate}}},
      {"speed", "Images a second", "images/s", 1, false, false, {{"images/s", &run.images_per_second}}},
      {"gpu", "Load of the GPUs", "%", 100, false, false, {{"GPU", &run.gpu_load}}},
      {"gpu-memory",
       "Memory of the GPU with the most in use",
       "GiB",
       1.0 / 1024,
       false,
       false,
       {{"in use", &run.gpu_memory}, {"all", &run.gpu_memory_total}}},
      {"watts", "Power of all GPUs", "W", 1, false, false, {{"GPUs", &run.gpu_watts}}},
      {"joule", "Images per joule", "images/J", 1, false, false, {{"images/J", &run.images_per_joule}}},
      std::move(step),
      {"wait", "Time that waited for data", "%", 100, false, false, {{"data wait", &run.data_wait}}},
      {"saves",
       "Checkpoints",
       "s",
       1,
       false,
       true,
       {{"until it was durable", &run.durable}, {"training waited", &run.stall}}}};
  for (ChartPlan& chart : charts) {
    std::erase_if(chart.curves, [](const Curve& curve) { return curve.series->empty(); });
  }
  std::erase_if(charts, [](const ChartPlan& chart) { return chart.curves.empty(); });
  return charts;
}

std::vector<Curve> curves_of(const Run& run) {
  std::vector<Curve> curves;
  for (const ChartPlan& chart : charts_of(run)) {
    for (const Curve& curve : chart.curves) {
      curves.push_back({chart.id + " " + curve.name, curve.series});
    }
  }
  return curves;
}

}  // namespace rollcall::report
