#include "tests/trainer/distributed/group_member.h"

namespace rollcall::process_group {
namespace {

using testing_support::tensor_of;
using testing_support::tensor_of_rank;
using testing_support::value_at;

/// Each rank sends to the next rank before any rank receives, twice with the same tag and once with another.
void check_ring_of_messages(const GroupMember& place) {
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
    Tensors received = room_for(GroupMember{nullptr, 0, 3}, shape);
    for (const std::size_t number : {2U, 0U, 1U}) {  // tags may be received in another order
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

void check_receive_from_anybody(const GroupMember& place) {
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
void check_messages_run_beside_collectives(const GroupMember& place) {
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

}  // namespace

void check_messages(const GroupMember& place) {
  check_ring_of_messages(place);
  check_receive_from_anybody(place);
  check_messages_run_beside_collectives(place);
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

}  // namespace rollcall::process_group
