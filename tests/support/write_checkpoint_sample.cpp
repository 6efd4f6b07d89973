// write_checkpoint_sample FILE: writes a small checkpoint of known content, for tests that read it with other programs.
#include <cstdio>
#include <cstring>
#include <vector>

#include "trainer/checkpoint/format/writer.h"

namespace {

using rollcall::checkpoint::format::Content;
using rollcall::checkpoint::format::DType;

/// Row-major 0, 1, 2, ... times a quarter.
std::vector<float> quarters(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = 0.25F * static_cast<float>(i);
  }
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_checkpoint_sample FILE\n");
    return 64;
  }
  const std::vector<float> weight = quarters(2 * 3 * 5 * 7);
  const std::vector<float> bias = quarters(2);
  const std::int64_t batches = 42;
  const std::vector<std::uint16_t> one_and_minus_two{0x3f80, 0xc000};  // bfloat16
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000};             // float16: 1, -2
  Content content;
  content.tensors = {
      {"/model/layer/0/weight", "layer.0.weight", DType::Float32, {2, 3, 5, 7}, std::as_bytes(std::span(weight))},
      {"/model/layer/0/bias", "layer.0.bias", DType::Float32, {2}, std::as_bytes(std::span(bias))},
      {"/model/bn/num_batches_tracked",
       "bn.num_batches_tracked",
       DType::Int64,
       {},
       std::as_bytes(std::span(&batches, 1))},
      {"/model/scale", "scale", DType::BFloat16, {2}, std::as_bytes(std::span(one_and_minus_two))},
      {"/model/half", "half", DType::Float16, {2}, std::as_bytes(std::span(halves))},
      {"/model/empty", "empty", DType::Float32, {0, 4}, {}},
      {"/optimizer/state/layer.0.bias/momentum_buffer", "", DType::Float32, {2}, std::as_bytes(std::span(bias))},
  };
  content.values = {
      {"/model_keys",
       std::vector<std::string>{"layer.0.weight", "layer.0.bias", "bn.num_batches_tracked", "scale", "half", "empty"}},
      {"/progress/epoch", std::int64_t{3}},
      {"/progress/best_metric", 0.875},
      {"/sampler/seed", std::uint64_t{0xffff'ffff'ffff'fff0}},
      {"/config/json", std::string(R"({"lr": 0.1, "name": "Jülich"})")},
      {"/config/argv", std::vector<std::string>{"rollcall-train", "--lr=0.1", ""}},
  };
  const auto written = rollcall::checkpoint::format::write_checkpoint(argv[1], content, {.torch_version = "2.15.0"});
  if (!written) {
    std::fprintf(stderr, "%s\n", written.error().message().c_str());
    return rollcall::to_int(written.error().exit_code());
  }
  return 0;
}
