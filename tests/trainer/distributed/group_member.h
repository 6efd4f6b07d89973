#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/trainer/distributed/collective_cases.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::process_group {

using testing_support::Shape;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

/// One rank's view of the group under test.
struct GroupMember {
  Group group;
  std::uint32_t rank;
  std::uint32_t size;

  [[nodiscard]] std::int64_t signed_size() const { return static_cast<std::int64_t>(size); }
};

/// Throws with what was compared.
void expect_equal(const at::Tensor& got, const at::Tensor& expected, const std::string& what);

[[nodiscard]] std::vector<std::uint32_t> roots_of(const GroupMember& place);
/// `parts`: of a tensor for each rank, so that the longest of all ranks together are the longest.
[[nodiscard]] std::vector<Shape> shapes_of(const GroupMember& place, const std::vector<at::ScalarType>& types,
                                           bool parts = false);
[[nodiscard]] std::vector<at::ScalarType> reduced_types();
[[nodiscard]] std::vector<at::ScalarType> moved_types();

/// Everybody's tensor of `shape`, one after the other.
[[nodiscard]] at::Tensor all_of(const GroupMember& place, const Shape& shape);
/// As many empty tensors like `shape` as there are ranks.
[[nodiscard]] Tensors room_for(const GroupMember& place, const Shape& shape);

}  // namespace rollcall::process_group
