// checkpoint_speed SHAPES FOLDER RUNS: saves and loads tensors of the given sizes, RUNS times; one JSON object a line.
// SHAPES: a text file, "name bytes" a line. Memory is touched before the clocks run, as it is in a training.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/read_checkpoint.h"
#include "trainer/checkpoint/format/writer.h"

namespace {

using namespace rollcall;
using namespace rollcall::checkpoint::format;
using Clock = std::chrono::steady_clock;

struct State {
  std::vector<std::vector<float>> memory;
  Content content;
};

State read_shapes(const char* path) {
  State state;
  std::ifstream file(path);
  std::mt19937 random(1);
  std::string name;
  std::size_t bytes = 0;
  while (file >> name >> bytes) {
    auto& values = state.memory.emplace_back(bytes / sizeof(float));
    for (float& value : values) {
      value = static_cast<float>(random()) * 1e-9F;
    }
    std::string dataset = "/" + name;  // groups as a real checkpoint has them
    std::replace(dataset.begin(), dataset.end(), '.', '/');
    state.content.tensors.push_back(
        {dataset, name, DType::Float32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))});
  }
  return state;
}

double seconds_of(const std::function<Result<void>()>& work) {
  const auto begun = Clock::now();
  if (const Result<void> done = work(); !done) {
    fmt::print(stderr, "{}\n", done.error().message());
    std::exit(to_int(done.error().exit_code()));
  }
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

Result<void> load(const std::string& path) {
  const auto loaded = read_checkpoint(path);
  return loaded ? Result<void>() : loaded.error();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: checkpoint_speed SHAPES FOLDER RUNS\n");
    return 64;
  }
  const State state = read_shapes(argv[1]);
  const std::string path = std::string(argv[2]) + "/step-00000001.h5";
  for (int run = 0; run < std::atoi(argv[3]); ++run) {
    ::unlink(path.c_str());
    ::sync();
    const double memory =
        seconds_of([&] { return write_checkpoint(path, state.content, {.read_back = ReadBack::Memory}); });
    ::unlink(path.c_str());
    ::sync();
    std::array<Clock::time_point, 6> passed{};
    WriterOptions options{.read_back = ReadBack::Device};
    options.after = [&passed](WritePoint point) { passed[static_cast<std::size_t>(point)] = Clock::now(); };
    const auto begun = Clock::now();
    const double device = seconds_of([&] { return write_checkpoint(path, state.content, options); });
    const auto at = [&](WritePoint point) {
      return std::chrono::duration<double>(passed[static_cast<std::size_t>(point)] - begun).count();
    };
    static_cast<void>(load(path));  // into the page cache
    const double loaded = seconds_of([&] { return load(path); });
    fmt::print(
        R"({{"save": {}, "save_read_back_memory": {}, "load_verify": {}, "created_at": {}, "data_verified_at": {}, )"
        R"("sealed_at": {}, "verified_at": {}}})"
        "\n",
        device, memory, loaded, at(WritePoint::StructuresCreated), at(WritePoint::DataVerified),
        at(WritePoint::HeaderWritten), at(WritePoint::Verified));
  }
  return 0;
}
