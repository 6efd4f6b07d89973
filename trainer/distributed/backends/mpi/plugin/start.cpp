#include "trainer/distributed/backends/mpi/plugin/engine.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "trainer/distributed/backends/mpi/plugin/world.h"

namespace rollcall::process_group::mpi {
namespace {

template <ElementType kElement, Reduction kReduction>
void combine(void* source, void* target, int* count, MPI_Datatype* /*type*/) {
  combine_function(kElement, kReduction)(target, source, static_cast<std::size_t>(*count));
}

template <ElementType kElement>
MPI_User_function* function_of(Reduction reduction) {
  return reduction == Reduction::Sum ? &combine<kElement, Reduction::Sum> : &combine<kElement, Reduction::Max>;
}

/// Returns the function for a type that MPI lacks; null if MPI has the type.
MPI_User_function* own_function(ElementType element, Reduction reduction) {
  switch (element) {
    case ElementType::Float16:
      return function_of<ElementType::Float16>(reduction);
    case ElementType::BFloat16:
      return function_of<ElementType::BFloat16>(reduction);
    default:
      return nullptr;
  }
}

MPI_Datatype type_of(ElementType element) {
  switch (element) {
    case ElementType::Float32:
      return MPI_FLOAT;
    case ElementType::Float64:
      return MPI_DOUBLE;
    case ElementType::Float16:
    case ElementType::BFloat16:
      return MPI_UINT16_T;  // the type that our operations get
    case ElementType::Int32:
      return MPI_INT32_T;
    case ElementType::Int64:
      break;
  }
  return MPI_INT64_T;
}

/// How elements are combined. MPI's own operations where MPI knows the type; operations of ours, which call
/// combine_function(), for half precision.
struct Reducing {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op operation = MPI_OP_NULL;
};

/// Returns an MPI type of that size, for elements that are only moved; unset for sizes other than 1, 2, 4, 8 and 16.
std::optional<MPI_Datatype> movable_type(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    case 8:
      return MPI_UINT64_T;
    case 16:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return std::nullopt;
  }
}

/// Makes each of our operations once; it exists as long as the process. Returns MPI's errors.
Result<Reducing> reducing(ElementType element, Reduction reduction) {
  static std::map<std::pair<ElementType, Reduction>, MPI_Op> own;
  MPI_User_function* const function = own_function(element, reduction);
  if (function == nullptr) {
    return Reducing{type_of(element), reduction == Reduction::Sum ? MPI_SUM : MPI_MAX};
  }
  const auto [place, is_new] = own.try_emplace({element, reduction}, MPI_OP_NULL);
  if (is_new) {
    constexpr int kCommutes = 1;
    if (const int code = MPI_Op_create(function, kCommutes, &place->second); code != MPI_SUCCESS) {
      own.erase(place);
      return failed("MPI_Op_create", code);
    }
  }
  return Reducing{type_of(element), place->second};
}

constexpr std::size_t kMostElements = std::numeric_limits<int>::max();

/// A valid address for MPI if there is nothing to move.
std::byte g_nothing_to_send{};
std::byte g_nothing_to_receive{};

const void* send_buffer(const Collective& collective) {
  return collective.input == nullptr ? &g_nothing_to_send : collective.input;
}

void* receive_buffer(const Collective& collective) {
  return collective.output == nullptr ? &g_nothing_to_receive : collective.output;
}

/// A collective's arguments for MPI.
struct Arguments {
  const Collective& collective;
  MPI_Comm communicator;
  int count = 0;  ///< elements of a part
  Reducing reducing;
  int root = 0;
  int rank = 0;
};

int start_reduction(const Arguments& arguments, MPI_Request* request) {
  void* const output = arguments.collective.output;
  const auto [type, operation] = arguments.reducing;
  if (arguments.collective.kind == CollectiveKind::AllReduce) {
    return MPI_Iallreduce(MPI_IN_PLACE, output, arguments.count, type, operation, arguments.communicator, request);
  }
  return MPI_Ireduce_scatter_block(arguments.collective.input, output, arguments.count, type, operation,
                                   arguments.communicator, request);
}

int start_copy(const Arguments& arguments, MPI_Request* request) {
  const Collective& collective = arguments.collective;
  const int count = arguments.count;
  MPI_Datatype const type = arguments.reducing.type;
  // This rank's part may be in the output already: equal buffers are an error in MPI.
  const std::byte* const place = collective.output + collective.bytes * static_cast<std::size_t>(arguments.rank);
  const bool in_place = collective.input == place;
  switch (collective.kind) {
    case CollectiveKind::AllGather:
      return MPI_Iallgather(in_place ? MPI_IN_PLACE : collective.input, count, type, collective.output, count, type,
                            arguments.communicator, request);
    case CollectiveKind::Gather:
      return MPI_Igather(collective.input, count, type, collective.output, count, type, arguments.root,
                         arguments.communicator, request);
    case CollectiveKind::AllToAll:
      return MPI_Ialltoall(collective.input, count, type, collective.output, count, type, arguments.communicator,
                           request);
    default:
      return MPI_Ibcast(collective.output, count, type, arguments.root, arguments.communicator, request);
  }
}

/// Appends each rank's `bytes` to `counts` as numbers of elements, then their offsets. Returns whether MPI can count
/// them.
bool append_counts(const std::vector<std::size_t>& bytes, std::size_t element_bytes, std::vector<int>& counts) {
  std::vector<int> offsets;
  std::size_t offset = 0;
  for (const std::size_t part : bytes) {
    offsets.push_back(static_cast<int>(offset));
    counts.push_back(static_cast<int>(part / element_bytes));
    offset += part / element_bytes;
  }
  counts.insert(counts.end(), offsets.begin(), offsets.end());
  return offset <= kMostElements;
}

int start_uneven_all_to_all(const Arguments& arguments, Started& started) {
  const Collective& collective = arguments.collective;
  const std::size_t ranks = collective.send_bytes.size();
  MPI_Datatype const type = arguments.reducing.type;
  if (!append_counts(collective.send_bytes, collective.element_bytes, started.counts) ||
      !append_counts(collective.receive_bytes, collective.element_bytes, started.counts)) {
    return MPI_ERR_COUNT;
  }
  const int* const counts = started.counts.data();
  return MPI_Ialltoallv(send_buffer(collective), counts, counts + ranks, type, receive_buffer(collective),
                        counts + 2 * ranks, counts + 3 * ranks, type, arguments.communicator, &started.request);
}

/// Returns the types of `collective`, or why there are none.
Result<Reducing> types_of(const Collective& collective) {
  if (reduces(collective.kind)) {
    return reducing(collective.element, collective.reduction);
  }
  const std::optional<MPI_Datatype> type = movable_type(collective.element_bytes);
  return type ? Result<Reducing>(Reducing{*type, MPI_OP_NULL}) : failed("an element's size", MPI_ERR_TYPE);
}

int start_any(const Arguments& arguments, Started& started) {
  const Collective& collective = arguments.collective;
  if (collective.kind == CollectiveKind::Barrier) {
    return MPI_Ibarrier(arguments.communicator, &started.request);
  }
  if (collective.kind == CollectiveKind::AllToAll && collective.parts_differ()) {
    return start_uneven_all_to_all(arguments, started);
  }
  if (collective.bytes == 0) {
    return MPI_SUCCESS;  // on all ranks
  }
  return reduces(collective.kind) ? start_reduction(arguments, &started.request)
                                  : start_copy(arguments, &started.request);
}

void note(int code, Started& started) {
  if (code != MPI_SUCCESS) {
    started.refusal = text_of(code);
  }
}

}  // namespace

void start(const Collective& collective, MPI_Comm communicator, Started& started) {
  const std::size_t count = collective.bytes / collective.element_bytes;
  if (count > kMostElements) {
    started.refusal = "has more than 2147483647 elements, the limit of MPI 3; try splitting the tensors";
    return;
  }
  const Result<Reducing> types = types_of(collective);
  if (!types) {
    started.refusal = types.error().reason;
    return;
  }
  Arguments arguments{collective, communicator, static_cast<int>(count), *types, static_cast<int>(collective.root), 0};
  MPI_Comm_rank(communicator, &arguments.rank);
  note(start_any(arguments, started), started);
}  // NOLINT(clang-analyzer-optin.mpi.MPI-Checker): the engine waits for the request

}  // namespace rollcall::process_group::mpi
