#include "tests/trainer/distributed/collective_checks.h"

#include <unistd.h>

#include "tests/trainer/distributed/group_member.h"
#include "trainer/libtorch_version.h"

namespace rollcall::process_group {
namespace {

using c10d::ReduceOp;
using testing_support::reduced;
using testing_support::tensor_of;
using testing_support::tensor_of_rank;
using testing_support::value_at;

void check_all_reduce(const GroupMember& place) {
  for (const Shape& shape : shapes_of(place, reduced_types())) {
    for (const ReduceOp::RedOpType operation : {ReduceOp::SUM, ReduceOp::MAX}) {
      c10d::AllreduceOptions options;
      options.reduceOp = operation;
      Tensors tensors{tensor_of_rank(shape, place.rank)};
      place.group->allreduce(tensors, options)->wait();
      expect_equal(tensors[0], reduced(operation, shape, place.size),
                   "all_reduce " + std::to_string(operation) + " of " + text(shape));
    }
  }
}

void check_broadcast(const GroupMember& place) {
  for (const Shape& shape : shapes_of(place, moved_types())) {
    for (const std::uint32_t root : roots_of(place)) {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      Tensors tensors{tensor_of_rank(shape, place.rank)};
      place.group->broadcast(tensors, options)->wait();
      expect_equal(tensors[0], tensor_of_rank({shape.type, shape.count}, root), "broadcast of " + text(shape));
    }
  }
}

void check_all_gather(const GroupMember& place) {
  for (const Shape& shape : shapes_of(place, moved_types(), true)) {
    at::Tensor input = tensor_of_rank(shape, place.rank);
    at::Tensor output = torch::zeros({shape.count * place.signed_size()}, shape.type);
    place.group->all_gather_single(output, input)->wait();
    expect_equal(output, all_of(place, shape), "all_gather_single of " + text(shape));
    Tensors inputs{input};
    TensorLists outputs{room_for(place, shape)};
    place.group->allgather(outputs, inputs)->wait();
    expect_equal(torch::cat(outputs[0]), all_of(place, shape), "all_gather of " + text(shape));
  }
}

void check_gather(const GroupMember& place) {
  for (const Shape& shape : shapes_of(place, moved_types(), true)) {
    c10d::GatherOptions options;
    options.rootRank = place.size - 1;
    const bool root = place.rank == place.size - 1;
    Tensors inputs{tensor_of_rank(shape, place.rank)};
    TensorLists outputs;
    if (root) {
      outputs.push_back(room_for(place, shape));
    }
    place.group->gather(outputs, inputs, options)->wait();
    if (root) {
      expect_equal(torch::cat(outputs[0]), all_of(place, shape), "gather of " + text(shape));
    }
  }
}

void check_reduce_scatter(const GroupMember& place) {
  for (const Shape& shape : shapes_of(place, {at::kFloat, at::kBFloat16, at::kLong}, true)) {
    const at::Tensor expected = reduced(ReduceOp::SUM, shape, place.size, place.rank * shape.count);
    const Shape whole{shape.type, shape.count * place.signed_size()};
    at::Tensor input = tensor_of_rank(whole, place.rank);
    at::Tensor output = tensor_of(shape, [](std::int64_t) { return 0.0; });
    place.group->reduce_scatter_single(output, input)->wait();
    expect_equal(output, expected, "reduce_scatter_single of " + text(shape));
    expect_equal(input, tensor_of_rank({whole.type, whole.count}, place.rank), "the input of reduce_scatter_single");
  }
}

/// How many elements rank `from` sends rank `to`; some pairs none.
std::int64_t uneven(std::uint32_t from, std::uint32_t to, std::int64_t count) { return (from * 2 + to) % 3 * count; }

/// What rank `from` sends rank `to`.
at::Tensor piece(std::uint32_t from, std::uint32_t to, const Shape& shape) {
  return tensor_of({shape.type, uneven(from, to, shape.count)},
                   [&](std::int64_t i) { return value_at(from * 16 + to, i); });
}

void check_all_to_all(const GroupMember& place) {
  for (const Shape& shape : shapes_of(place, moved_types(), true)) {
    Tensors sent, expected;
    std::vector<std::int64_t> sent_rows, received_rows;
    for (std::uint32_t other = 0; other < place.size; ++other) {
      sent.push_back(piece(place.rank, other, shape));
      expected.push_back(piece(other, place.rank, shape));
      sent_rows.push_back(sent.back().numel());
      received_rows.push_back(expected.back().numel());
    }
    at::Tensor input = torch::cat(sent);
    at::Tensor output = torch::zeros_like(torch::cat(expected));
    place.group->all_to_all_single(output, input, received_rows, sent_rows)->wait();
    expect_equal(output, torch::cat(expected), "all_to_all_single of " + text(shape));
    std::vector<std::int64_t> even;
    at::Tensor whole = tensor_of_rank({shape.type, shape.count * place.signed_size()}, place.rank);
    at::Tensor turned = torch::zeros_like(whole);
    place.group->all_to_all_single(turned, whole, even, even)->wait();
    for (std::uint32_t other = 0; other < place.size; ++other) {
      const at::Tensor from = tensor_of_rank({shape.type, shape.count * place.signed_size()}, other);
      expect_equal(turned.narrow(0, other * shape.count, shape.count),
                   from.narrow(0, place.rank * shape.count, shape.count), "all_to_all_single of " + text(shape));
    }
  }
}

/// Many collectives at once, waited for in turned order.
void check_overlap(const GroupMember& place) {
  TensorLists tensors;
  std::vector<c10::intrusive_ptr<c10d::Work>> pending;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back({torch::full({1 + i * 997}, static_cast<double>(i + static_cast<int>(place.rank)))});
    pending.push_back(place.group->allreduce(tensors.back()));
  }
  for (int i = 19; i >= 0; --i) {
    pending[static_cast<std::size_t>(i)]->wait();
    const double sum = static_cast<double>(place.size) * (i + (place.size - 1) / 2.0);
    MULTIPROC_CHECK(tensors[static_cast<std::size_t>(i)][0].eq(sum).all().item<bool>());
  }
}

}  // namespace

void check_every_collective(const Group& group) {
  const GroupMember place{group, static_cast<std::uint32_t>(group->getRank()),
                          static_cast<std::uint32_t>(group->getSize())};
  if (full_sweep()) {
    constexpr unsigned int kOneHour = 3600;
    alarm(kOneHour);  // in place of the time that a test's rank has
  }
  check_all_reduce(place);
  check_broadcast(place);
  check_all_gather(place);
  check_gather(place);
  check_reduce_scatter(place);
  check_all_to_all(place);
  check_overlap(place);
  place.group->barrier()->wait();
}

}  // namespace rollcall::process_group
