#include "tests/trainer/distributed/group_member.h"

#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "tests/trainer/distributed/collective_checks.h"

namespace rollcall::process_group {

using testing_support::tensor_of;
using testing_support::tensor_of_rank;

bool full_sweep() {
  const char* sweep = std::getenv("ROLLCALL_TEST_SWEEP");
  return sweep != nullptr && std::string_view(sweep) == "full";
}

void expect_equal(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  if (!torch::equal(got, expected)) {
    throw std::runtime_error(what + ": wrong values");
  }
}

/// Few where many ranks share few cores.
static bool is_large(const GroupMember& place) { return place.size > 4 && !full_sweep(); }

std::vector<std::uint32_t> roots_of(const GroupMember& place) {
  std::vector<std::uint32_t> roots{0};
  for (std::uint32_t root = is_large(place) ? place.size - 1 : 1; root < place.size; ++root) {
    roots.push_back(root);
  }
  return roots;
}

std::vector<Shape> shapes_of(const GroupMember& place, const std::vector<at::ScalarType>& types, bool parts) {
  std::vector<Shape> shapes;
  const std::vector<std::int64_t> counts =
      is_large(place) ? std::vector<std::int64_t>{0, 7, 1001} : std::vector<std::int64_t>{0, 1, 7, 1001, 20011};
  for (const at::ScalarType type : types) {
    for (const std::int64_t count : counts) {
      shapes.push_back({type, count});
    }
  }
  // Long enough for halving, and for rings of several segments.
  shapes.push_back({at::kFloat, 60001});
  if (!is_large(place)) {
    shapes.push_back({at::kFloat, 700001});
  }
  if (full_sweep()) {
    const std::int64_t share = parts ? place.signed_size() : 1;
    shapes.push_back({at::kFloat, (25 << 18) / share});
    shapes.push_back({at::kFloat, (100 << 18) / share + 1});
  }
  return shapes;
}

std::vector<at::ScalarType> reduced_types() {
  return {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong};
}

std::vector<at::ScalarType> moved_types() {
  return full_sweep() ? std::vector<at::ScalarType>{at::kFloat, at::kHalf, at::kByte, at::kLong, at::kBool}
                      : std::vector<at::ScalarType>{at::kFloat, at::kByte};
}

at::Tensor all_of(const GroupMember& place, const Shape& shape) {
  Tensors all;
  for (std::uint32_t rank = 0; rank < place.size; ++rank) {
    all.push_back(tensor_of_rank({shape.type, shape.count}, rank));
  }
  return torch::cat(all);
}

Tensors room_for(const GroupMember& place, const Shape& shape) {
  Tensors room;
  for (std::uint32_t rank = 0; rank < place.size; ++rank) {
    room.push_back(tensor_of(shape, [](std::int64_t) { return 0.0; }));
  }
  return room;
}

}  // namespace rollcall::process_group
