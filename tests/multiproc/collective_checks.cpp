#include "tests/multiproc/collective_checks.h"

#include <cstdlib>
#include <string_view>

#include "tests/multiproc/collective_cases.h"

namespace rollcall::process_group {
namespace {

using c10d::ReduceOp;
using testing_support::reduced;
using testing_support::Shape;
using testing_support::tensor_of;
using testing_support::tensor_of_rank;
using testing_support::value_at;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

bool full_sweep() {
  const char* sweep = std::getenv("ROLLCALL_TEST_SWEEP");
  return sweep != nullptr && std::string_view(sweep) == "full";
}

/// What a back end cannot do, as docs/backends.md says.
struct Limits {
  bool strided = true;  ///< takes tensors that are not contiguous
  bool int16 = true;    ///< reduces 16-bit integers
  bool reduce_scatter_lists = true;
  bool all_to_all_lists = true;  ///< of tensors of several sizes
};

Limits limits_of(const std::string& backend) {
  if (backend == "gloo") {
    return {.strided = false, .int16 = false, .reduce_scatter_lists = true, .all_to_all_lists = false};
  }
  return {};
}

/// One rank's view of the group under test.
struct Place {
  Group group;
  std::uint32_t rank;
  std::uint32_t size;
  Limits limits;

  [[nodiscard]] std::int64_t signed_size() const { return static_cast<std::int64_t>(size); }
};

/// Throws with what was compared.
void expect_equal(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  if (!torch::equal(got, expected)) {
    throw std::runtime_error(what + ": wrong values");
  }
}

/// Few where many ranks share few cores.
bool is_large(const Place& place) { return place.size > 4 && !full_sweep(); }

std::vector<std::uint32_t> roots_of(const Place& place) {
  std::vector<std::uint32_t> roots{0};
  for (std::uint32_t root = is_large(place) ? place.size - 1 : 1; root < place.size; ++root) {
    roots.push_back(root);
  }
  return roots;
}

std::vector<Shape> shapes_of(const Place& place, const std::vector<at::ScalarType>& types) {
  std::vector<Shape> shapes;
  const std::vector<std::int64_t> counts =
      is_large(place) ? std::vector<std::int64_t>{0, 7, 1001} : std::vector<std::int64_t>{0, 1, 7, 1001, 20011};
  for (const at::ScalarType type : types) {
    for (const std::int64_t count : counts) {
      shapes.push_back({type, count});
    }
    if (place.limits.strided) {
      shapes.push_back({type, 1001, true});
    }
  }
  // Long enough for halving, and for rings of several segments.
  shapes.push_back({at::kFloat, 60001});
  if (!is_large(place)) {
    shapes.push_back({at::kFloat, 700001});
  }
  if (full_sweep()) {
    shapes.push_back({at::kFloat, 25 << 18});
    shapes.push_back({at::kFloat, (100 << 18) + 1});
  }
  return shapes;
}

std::vector<at::ScalarType> reduced_types(const Place& place) {
  std::vector<at::ScalarType> types{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                                    at::kByte,  at::kInt,    at::kLong, at::kBool};
  if (place.limits.int16) {
    types.push_back(at::kShort);
  }
  return types;
}

std::vector<at::ScalarType> moved_types() {
  return full_sweep() ? std::vector<at::ScalarType>{at::kFloat, at::kHalf, at::kByte, at::kLong, at::kBool}
                      : std::vector<at::ScalarType>{at::kFloat, at::kByte};
}

void check_all_reduce(const Place& place) {
  for (const Shape& shape : shapes_of(place, reduced_types(place))) {
    for (const ReduceOp::RedOpType operation : testing_support::reductions_of(shape.type)) {
      c10d::AllreduceOptions options;
      options.reduceOp = operation;
      Tensors tensors{tensor_of_rank(shape, place.rank)};
      place.group->allreduce(tensors, options)->wait();
      expect_equal(tensors[0], reduced(operation, shape, place.size),
                   "all_reduce " + std::to_string(operation) + " of " + text(shape));
    }
  }
}

void check_reduce(const Place& place) {
  for (const Shape& shape : shapes_of(place, {at::kFloat, at::kLong})) {
    for (const std::uint32_t root : roots_of(place)) {
      c10d::ReduceOptions options;
      options.rootRank = root;
      Tensors tensors{tensor_of_rank(shape, place.rank)};
      place.group->reduce(tensors, options)->wait();
      if (place.rank == root) {
        expect_equal(tensors[0], reduced(ReduceOp::SUM, shape, place.size), "reduce of " + text(shape));
      }
    }
  }
}

void check_broadcast(const Place& place) {
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

/// Everybody's tensor of `shape`, one after the other.
at::Tensor all_of(const Place& place, const Shape& shape) {
  Tensors all;
  for (std::uint32_t rank = 0; rank < place.size; ++rank) {
    all.push_back(tensor_of_rank({shape.type, shape.count}, rank));
  }
  return torch::cat(all);
}

/// As many empty tensors like `shape` as there are ranks.
Tensors room_for(const Place& place, const Shape& shape) {
  Tensors room;
  for (std::uint32_t rank = 0; rank < place.size; ++rank) {
    room.push_back(tensor_of(shape, [](std::int64_t) { return 0.0; }));
  }
  return room;
}

void check_all_gather(const Place& place) {
  for (const Shape& shape : shapes_of(place, moved_types())) {
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

void check_gather(const Place& place) {
  for (const Shape& shape : shapes_of(place, moved_types())) {
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

void check_scatter(const Place& place) {
  for (const Shape& shape : shapes_of(place, moved_types())) {
    c10d::ScatterOptions options;
    options.rootRank = place.size / 2;
    TensorLists inputs;
    if (place.rank == options.rootRank) {
      inputs.emplace_back();
      for (std::uint32_t rank = 0; rank < place.size; ++rank) {
        inputs[0].push_back(tensor_of_rank(shape, rank));
      }
    }
    Tensors outputs{tensor_of(shape, [](std::int64_t) { return 0.0; })};
    place.group->scatter(outputs, inputs, options)->wait();
    expect_equal(outputs[0], tensor_of_rank({shape.type, shape.count}, place.rank), "scatter of " + text(shape));
  }
}

void check_reduce_scatter(const Place& place) {
  for (const Shape& shape : shapes_of(place, {at::kFloat, at::kBFloat16, at::kLong})) {
    const at::Tensor expected = reduced(ReduceOp::SUM, shape, place.size, place.rank * shape.count);
    const Shape whole{shape.type, shape.count * place.signed_size(), shape.strided};
    at::Tensor input = tensor_of_rank(whole, place.rank);
    at::Tensor output = tensor_of(shape, [](std::int64_t) { return 0.0; });
    place.group->reduce_scatter_single(output, input)->wait();
    expect_equal(output, expected, "reduce_scatter_single of " + text(shape));
    expect_equal(input, tensor_of_rank({whole.type, whole.count}, place.rank), "the input of reduce_scatter_single");
    if (place.limits.reduce_scatter_lists) {
      Tensors outputs{torch::zeros({shape.count}, shape.type)};
      TensorLists inputs{Tensors()};
      for (std::uint32_t rank = 0; rank < place.size; ++rank) {
        inputs[0].push_back(input.narrow(0, rank * shape.count, shape.count).contiguous());
      }
      place.group->reduce_scatter(outputs, inputs)->wait();
      expect_equal(outputs[0], expected, "reduce_scatter of " + text(shape));
    }
  }
}

/// How many elements rank `from` sends rank `to`; some pairs none.
std::int64_t uneven(std::uint32_t from, std::uint32_t to, std::int64_t count) { return (from * 2 + to) % 3 * count; }

/// What rank `from` sends rank `to`.
at::Tensor piece(std::uint32_t from, std::uint32_t to, const Shape& shape) {
  return tensor_of({shape.type, uneven(from, to, shape.count)},
                   [&](std::int64_t i) { return value_at(from * 16 + to, i); });
}

void check_all_to_all(const Place& place) {
  for (const Shape& shape : shapes_of(place, moved_types())) {
    if (shape.strided) {
      continue;
    }
    Tensors sent, expected, received;
    std::vector<std::int64_t> sent_rows, received_rows;
    for (std::uint32_t other = 0; other < place.size; ++other) {
      sent.push_back(piece(place.rank, other, shape));
      expected.push_back(piece(other, place.rank, shape));
      received.push_back(torch::zeros_like(expected.back()));
      sent_rows.push_back(sent.back().numel());
      received_rows.push_back(expected.back().numel());
    }
    at::Tensor input = torch::cat(sent);
    at::Tensor output = torch::zeros_like(torch::cat(expected));
    place.group->all_to_all_single(output, input, received_rows, sent_rows)->wait();
    expect_equal(output, torch::cat(expected), "all_to_all_single of " + text(shape));
    if (place.limits.all_to_all_lists) {
      place.group->alltoall(received, sent)->wait();
      expect_equal(torch::cat(received), torch::cat(expected), "all_to_all of " + text(shape));
    }
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

/// Everybody sends to the right neighbour before anybody receives, twice with the same tag and once with another.
void check_messages(const Place& place) {
  if (place.size == 1) {
    return;
  }
  const int right = static_cast<int>((place.rank + 1) % place.size);
  const int left = static_cast<int>((place.rank + place.size - 1) % place.size);
  for (const Shape& shape : shapes_of(place, {at::kFloat, at::kByte})) {
    std::vector<c10::intrusive_ptr<c10d::Work>> pending;
    Tensors sent;  // what is under way stays
    for (const int tag : {3, 3, 4}) {
      sent.push_back(tensor_of(
          shape, [&](std::int64_t i) { return value_at(place.rank + static_cast<std::uint32_t>(sent.size()), i); }));
      Tensors one{sent.back()};
      pending.push_back(place.group->send(one, right, tag));
    }
    Tensors received = room_for(Place{nullptr, 0, 3, {}}, shape);
    for (const std::size_t number : {2, 0, 1}) {  // tags may be received in another order
      Tensors one{received[number]};
      pending.push_back(place.group->recv(one, left, number == 2 ? 4 : 3));
    }
    for (const auto& work : pending) {
      work->wait();
    }
    for (std::uint32_t number = 0; number < 3; ++number) {
      const auto from = static_cast<std::uint32_t>(left) + number;
      expect_equal(received[number], tensor_of_rank({shape.type, shape.count}, from), "message of " + text(shape));
    }
  }
}

void check_receive_from_anybody(const Place& place) {
  if (place.rank != 0) {
    Tensors mine{torch::full({5}, static_cast<double>(place.rank))};
    place.group->send(mine, 0, 9)->wait();
    return;
  }
  std::vector<bool> heard(place.size, false);
  for (std::uint32_t i = 1; i < place.size; ++i) {
    Tensors any{torch::zeros({5})};
    const auto work = place.group->recvAnysource(any, 9);
    work->wait();
    const auto source = static_cast<std::size_t>(work->sourceRank());
    MULTIPROC_CHECK(source > 0 && !heard.at(source));
    MULTIPROC_CHECK(any[0].eq(static_cast<double>(source)).all().item<bool>());
    heard[source] = true;
  }
}

/// A message that is only sent after a collective, and received by a call before it.
void check_messages_run_beside_collectives(const Place& place) {
  if (place.size == 1) {
    return;
  }
  Tensors received{torch::zeros({100000})};
  c10::intrusive_ptr<c10d::Work> receiving;
  if (place.rank == 0) {
    receiving = place.group->recv(received, 1, 5);
  }
  Tensors sum{torch::ones({100000})};
  place.group->allreduce(sum)->wait();
  if (place.rank == 1) {
    Tensors sent{torch::full({100000}, 3.0)};
    place.group->send(sent, 0, 5)->wait();
  }
  if (place.rank == 0) {
    receiving->wait();
    MULTIPROC_CHECK(received[0].eq(3.0).all().item<bool>());
  }
}

/// Many collectives at once, waited for in turned order.
void check_overlap(const Place& place) {
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

void check_every_collective(const Group& group, const std::string& backend) {
  const Place place{group, static_cast<std::uint32_t>(group->getRank()), static_cast<std::uint32_t>(group->getSize()),
                    limits_of(backend)};
  check_all_reduce(place);
  check_reduce(place);
  check_broadcast(place);
  check_all_gather(place);
  check_gather(place);
  check_scatter(place);
  check_reduce_scatter(place);
  check_all_to_all(place);
  check_messages(place);
  check_receive_from_anybody(place);
  check_messages_run_beside_collectives(place);
  check_overlap(place);
  place.group->barrier()->wait();
}

}  // namespace rollcall::process_group
