// One of many processes that meet by PMIx, for pmix_peer.py: `srun --mpi=pmix pmix_fence FENCES`. Each puts an address
// of as many bytes as an agent of `rollcall run` has; the first fence carries those of all to all nodes, as MPI does
// when it starts, and rank 0's is read. FENCES more carry nothing.
//
// Prints as JSON its rank, the moment before PMIx_Init, and those before and after each fence, by the clock that all
// processes of a host share.
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kMostFences = 1000 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void require(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS) {
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    exit(1);
  }
}

static void put_address(unsigned rank) {
  char address[64];
  snprintf(address, sizeof(address), "[\"node%05u\",\"127.0.0.1\",1,\"default\",40000]", rank);
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_STRING;
  value.data.string = address;  // PMIx_Put copies it
  require(PMIx_Put(PMIX_GLOBAL, "address", &value), "PMIx_Put");
  require(PMIx_Commit(), "PMIx_Commit");
}

static void get_address_of_rank_0(const pmix_proc_t* self) {
  pmix_proc_t first;
  PMIX_LOAD_PROCID(&first, self->nspace, 0);
  pmix_value_t* value = NULL;
  require(PMIx_Get(&first, "address", NULL, 0, &value), "PMIx_Get");
  PMIX_VALUE_RELEASE(value);
}

static void fence(bool with_data, double* moments) {
  pmix_info_t collect;
  PMIX_INFO_CONSTRUCT(&collect);
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &with_data, PMIX_BOOL);
  moments[0] = now();
  require(PMIx_Fence(NULL, 0, &collect, 1), "PMIx_Fence");
  moments[1] = now();
}

int main(int argc, char** argv) {
  const int fences = argc == 2 ? atoi(argv[1]) : 0;
  if (fences < 1 || fences > kMostFences) {
    fprintf(stderr, "usage: pmix_fence FENCES\n");
    return 64;
  }
  static double moments[2 * (kMostFences + 1)];
  const double begun = now();
  pmix_proc_t self;
  require(PMIx_Init(&self, NULL, 0), "PMIx_Init");
  put_address(self.rank);
  for (int turn = 0; turn <= fences; ++turn) {
    fence(turn == 0, moments + 2 * turn);
    if (turn == 0) {
      get_address_of_rank_0(&self);
    }
  }
  printf("{\"rank\":%u,\"begun\":%.9f,\"fences\":[", self.rank, begun);
  for (int turn = 0; turn <= fences; ++turn) {
    printf("%s[%.9f,%.9f]", turn == 0 ? "" : ",", moments[2 * turn], moments[2 * turn + 1]);
  }
  printf("]}\n");
  require(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
