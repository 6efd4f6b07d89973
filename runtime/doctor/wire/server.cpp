#include "runtime/doctor/wire/server.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/doctor/wire/message.h"

namespace rollcall::doctor {
namespace {

/// A rank whose connection broke may connect again through another endpoint, since it gives up a slow one.
constexpr std::chrono::seconds kGrace{2};

constexpr const char* kGone = "its connection ended: the process was killed or failed";

}  // namespace

Server::Server(std::vector<rendezvous::Listener> listeners, const rendezvous::Secret& secret, std::uint32_t world_size)
    : listeners_(std::move(listeners)), seal_{secret, kDoctor}, world_size_(world_size) {
  raise_open_files_limit();
}

void Server::greet(Socket client, const rendezvous::Hello& hello) {
  const std::uint32_t rank = hello.rank;
  if (rank == 0 || rank >= world_size_) {
    return;
  }
  // A few bytes into an empty socket buffer do not block.
  if (!client.send_frame(rendezvous::welcome(""), Clock::now()) || hello.role == kProbe) {
    return;
  }
  drop(rank);
  losses_.erase(rank);
  loop_.watch(client.descriptor(), [this, rank] { receive(rank); });
  clients_.emplace(rank, std::move(client));
  receive(rank);  // data that arrived with its hello
}

void Server::receive(std::uint32_t rank) {
  Socket& client = clients_.at(rank);
  const bool alive = client.take_arrived();
  if (std::optional<std::string> text = client.frames().next()) {
    received_.insert_or_assign(rank, *std::move(text));
  }
  if (!alive || client.frames().broken()) {
    lose(rank);
    last_loss_ = Clock::now();
  }
}

void Server::drop(std::uint32_t rank) {
  if (const auto client = clients_.find(rank); client != clients_.end()) {
    loop_.forget(client->second.descriptor());
    clients_.erase(client);
  }
}

void Server::lose(std::uint32_t rank) {
  losses_.insert_or_assign(rank, kGone);
  drop(rank);
}

bool Server::all_accounted_for() const {
  const auto silent = static_cast<std::size_t>(
      std::ranges::count_if(losses_, [&](const auto& loss) { return !received_.contains(loss.first); }));
  const bool given_up = silent == 0 || Clock::now() > last_loss_ + kGrace;
  return received_.size() + silent + 1 >= world_size_ && given_up;
}

std::map<std::uint32_t, std::string> Server::gather(Clock::time_point deadline) {
  rendezvous::PendingConnections pending(
      loop_, seal_, world_size_,
      [this](Socket client, const rendezvous::Hello& hello) { greet(std::move(client), hello); },
      [this](const rendezvous::RejectedPeer& stranger) { last_rejected_ = to_text(stranger); });
  for (const rendezvous::Listener& listener : listeners_) {
    pending.listen(listener.descriptor());
  }
  // Problems of accepting appear as ranks that are missing at the deadline.
  while (!all_accounted_for() && Clock::now() < deadline) {
    const bool in_grace = Clock::now() < last_loss_ + kGrace;
    loop_.wait(in_grace ? std::min(deadline, last_loss_ + kGrace) : deadline);
    pending.tick(Clock::now());
  }
  return std::exchange(received_, {});
}

void Server::send(const std::map<std::uint32_t, std::string>& texts, Clock::time_point deadline) {
  for (const auto& [rank, text] : texts) {
    const auto client = clients_.find(rank);
    if (client != clients_.end() && !client->second.send_frame(text, deadline)) {
      lose(rank);
    }
  }
}

std::map<std::uint32_t, std::string> Server::ask(const std::map<std::uint32_t, std::string>& texts,
                                                 Clock::time_point deadline, const std::function<void()>& meanwhile) {
  received_.clear();
  send(texts, deadline);
  if (meanwhile) {
    meanwhile();
  }
  const auto is_awaited = [&](const auto& entry) {
    return clients_.contains(entry.first) && !received_.contains(entry.first);
  };
  while (std::ranges::any_of(texts, is_awaited) && Clock::now() < deadline) {
    loop_.wait(deadline);
  }
  for (const auto& entry : texts) {
    if (is_awaited(entry)) {
      losses_.insert_or_assign(entry.first, "it did not answer in time");
    }
  }
  return std::exchange(received_, {});
}

}  // namespace rollcall::doctor
