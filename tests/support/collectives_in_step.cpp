// One rank of the collectives' checks, for launchers: RANK and WORLD_SIZE say which.
// usage: collectives_in_step BACKEND FILE; the ranks meet in FILE, which must not exist yet.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "tests/trainer/distributed/collective_checks.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/torch.h"

namespace {

std::uint32_t number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : static_cast<std::uint32_t>(std::stoul(text));
}

int check(const std::string& backend, const std::string& file) {
  namespace pg = rollcall::process_group;
  at::set_num_threads(1);
  const std::uint32_t rank = number("RANK");
  const auto store = c10::make_intrusive<c10d::FileStore>(file, -1);
  const auto made = pg::make_process_group(store, rank, number("WORLD_SIZE"),
                                           {.backend = backend, .timeout = std::chrono::seconds(60)});
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().message().c_str());
    return 1;
  }
  try {
    pg::check_every_collective(made->process_group);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    return 1;
  }
  std::printf("rank %u: all right\n", rank);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: collectives_in_step BACKEND FILE\n");
    return 64;
  }
  return check(argv[1], argv[2]);
}
