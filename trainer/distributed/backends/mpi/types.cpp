#include "trainer/distributed/backends/mpi/types.h"

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "trainer/distributed/backends/mpi/world.h"

namespace rollcall::process_group::mpi {
namespace {

template <ElementType kElement, Reduction kReduction>
void combine(void* source, void* target, int* count, MPI_Datatype* /*type*/) {
  (*combine_function(kElement, kReduction))(target, source, static_cast<std::size_t>(*count));
}

template <ElementType kElement>
MPI_User_function* function_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
      return &combine<kElement, Reduction::Sum>;
    case Reduction::Product:
      return &combine<kElement, Reduction::Product>;
    case Reduction::Min:
      return &combine<kElement, Reduction::Min>;
    case Reduction::Max:
      return &combine<kElement, Reduction::Max>;
    case Reduction::BitAnd:
      return &combine<kElement, Reduction::BitAnd>;
    case Reduction::BitOr:
      return &combine<kElement, Reduction::BitOr>;
    case Reduction::BitXor:
      break;
  }
  return &combine<kElement, Reduction::BitXor>;
}

/// Null where MPI knows the type.
MPI_User_function* own_function(ElementType element, Reduction reduction) {
  switch (element) {
    case ElementType::Float16:
      return function_of<ElementType::Float16>(reduction);
    case ElementType::BFloat16:
      return function_of<ElementType::BFloat16>(reduction);
    case ElementType::Bool:
      return function_of<ElementType::Bool>(reduction);
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
      return MPI_UINT16_T;  // what an operation of ours is told
    case ElementType::Int8:
      return MPI_INT8_T;
    case ElementType::UInt8:
    case ElementType::Bool:
      return MPI_UINT8_T;
    case ElementType::Int16:
      return MPI_INT16_T;
    case ElementType::Int32:
      return MPI_INT32_T;
    case ElementType::Int64:
      return MPI_INT64_T;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op operation_of_mpi(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
      return MPI_SUM;
    case Reduction::Product:
      return MPI_PROD;
    case Reduction::Min:
      return MPI_MIN;
    case Reduction::Max:
      return MPI_MAX;
    case Reduction::BitAnd:
      return MPI_BAND;
    case Reduction::BitOr:
      return MPI_BOR;
    case Reduction::BitXor:
      break;
  }
  return MPI_BXOR;
}

}  // namespace

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

Result<Reducing> reducing(ElementType element, Reduction reduction) {
  static std::map<std::pair<ElementType, Reduction>, MPI_Op> own;
  MPI_User_function* const function = own_function(element, reduction);
  if (function == nullptr) {
    return Reducing{type_of(element), operation_of_mpi(reduction)};
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

}  // namespace rollcall::process_group::mpi
