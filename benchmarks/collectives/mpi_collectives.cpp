// The same measurements as rollcall-bench-collectives makes, of MPI's own collectives: the yardstick of
// compare_backends.py. usage: mpirun -n N mpi_collectives ITERATIONS BYTES...; rank 0 prints one JSON object a line.
#include <mpi.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

constexpr int kWarmUp = 3;

double slowest_rank(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

/// Median over iterations of the slowest rank's seconds.
double measure(int iterations, const std::function<void()>& prepare, const std::function<void()>& collective) {
  std::vector<double> seconds;
  for (int turn = -kWarmUp; turn < iterations; ++turn) {
    prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    collective();
    const double once = slowest_rank(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (turn >= 0) {
      seconds.push_back(once);
    }
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void print(const char* operation, int rank, long bytes, double seconds) {
  if (rank == 0) {
    std::printf("{\"operation\":\"%s\",\"backend\":\"mpi\",\"bytes\":%ld,\"seconds\":%.9f}\n", operation, bytes,
                seconds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 20;
  for (int i = 2; i < argc; ++i) {
    const long bytes = std::atol(argv[i]);
    const int part = static_cast<int>(bytes / 4 / size);
    const int count = part * size;
    std::vector<float> whole(static_cast<std::size_t>(count));
    std::vector<float> mine(static_cast<std::size_t>(part));
    const auto fill = [&] { std::fill(whole.begin(), whole.end(), 1.0F); };
    print("all_reduce", rank, count * 4L, measure(iterations, fill, [&] {
            MPI_Allreduce(MPI_IN_PLACE, whole.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
          }));
    print("reduce_scatter", rank, count * 4L, measure(iterations, fill, [&] {
            MPI_Reduce_scatter_block(whole.data(), mine.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
          }));
    print("all_gather", rank, count * 4L, measure(iterations, fill, [&] {
            MPI_Allgather(mine.data(), part, MPI_FLOAT, whole.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
          }));
  }
  MPI_Finalize();
  return 0;
}
