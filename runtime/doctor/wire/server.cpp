#include "runtime/doctor/wire/server.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/doctor/wire/message.h"

namespace rollcall::doctor {
namespace {

/// A rank whose connection broke may come again on another one: it gives up an endpoint that is slow to answer.
constexpr std::chrono::seconds kGrace{2};

constexpr const char* kGone = "its connection ended: the process was killed or failed";

}  // namespace

Server::Server(std::vector<rendezvous::Listener> listeners, const rendezvous::Secret& secret, std::uint32_t world_size)
    : listeners_(std::move(listeners)),
      world_size_(world_size),
      newcomers_({secret, kDoctor}, kLongestGreeting, world_size) {
  raise_open_files_limit();
  for (const rendezvous::Listener& listener : listeners_) {
    fcntl(listener.descriptor(), F_SETFL, fcntl(listener.descriptor(), F_GETFL) | O_NONBLOCK);
  }
}

void Server::greet(Socket client, const std::string& text) {
  const std::optional<Greeting> greeting = parse_greeting(text);
  if (!greeting || greeting->rank == 0 || greeting->rank >= world_size_) {
    return;
  }
  // A few bytes into an empty socket buffer: this does not wait.
  const bool told = client.send_frame(to_text(Greeting{0, greeting->probe}), Clock::now()).has_value();
  if (told && !greeting->probe) {
    losses_.erase(greeting->rank);
    clients_.insert_or_assign(greeting->rank, std::move(client));
  }
}

void Server::hear_newcomers() {
  for (const rendezvous::Listener& listener : listeners_) {
    // What keeps it from accepting shows as ranks that are missing at the deadline.
    (void)newcomers_.turn(listener.descriptor(),
                          [this](Socket newcomer, const std::string& text) { greet(std::move(newcomer), text); });
  }
}

void Server::hear_clients(std::map<std::uint32_t, std::string>& answers) {
  for (auto client = clients_.begin(); client != clients_.end();) {
    auto& [rank, socket] = *client;
    const bool alive = socket.take_arrived();
    if (std::optional<std::string> text = socket.frames().next()) {
      answers.insert_or_assign(rank, *std::move(text));
    }
    if (!alive || socket.frames().broken()) {
      losses_.insert_or_assign(rank, kGone);
      last_loss_ = Clock::now();
      client = clients_.erase(client);
    } else {
      ++client;
    }
  }
}

void Server::wait(Clock::time_point deadline, bool accepting) const {
  std::vector<pollfd> waiting;
  for (const rendezvous::Listener& listener : listeners_) {
    waiting.push_back({accepting ? listener.descriptor() : -1, POLLIN, 0});
  }
  if (accepting) {
    newcomers_.add_to(waiting);
  }
  for (const auto& [rank, socket] : clients_) {
    waiting.push_back({socket.descriptor(), POLLIN, 0});
  }
  poll(waiting.data(), waiting.size(), rendezvous::milliseconds_until(deadline));
}

bool Server::all_accounted_for(const std::map<std::uint32_t, std::string>& reports) const {
  std::size_t silent = 0;
  for (const auto& [rank, reason] : losses_) {
    silent += reports.contains(rank) ? 0U : 1U;
  }
  const bool given_up = silent == 0 || Clock::now() > last_loss_ + kGrace;
  return reports.size() + silent + 1 >= world_size_ && given_up;
}

std::map<std::uint32_t, std::string> Server::gather(Clock::time_point deadline) {
  std::map<std::uint32_t, std::string> reports;
  while (!all_accounted_for(reports) && Clock::now() < deadline) {
    const bool in_grace = Clock::now() < last_loss_ + kGrace;
    wait(in_grace ? std::min(deadline, last_loss_ + kGrace) : deadline, true);
    hear_newcomers();
    hear_clients(reports);
  }
  return reports;
}

void Server::tell(const std::map<std::uint32_t, std::string>& texts, Clock::time_point deadline) {
  for (const auto& [rank, text] : texts) {
    const auto client = clients_.find(rank);
    if (client != clients_.end() && !client->second.send_frame(text, deadline)) {
      losses_.insert_or_assign(rank, kGone);
      clients_.erase(client);
    }
  }
}

std::map<std::uint32_t, std::string> Server::ask(const std::map<std::uint32_t, std::string>& texts,
                                                 Clock::time_point deadline, const std::function<void()>& meanwhile) {
  tell(texts, deadline);
  if (meanwhile) {
    meanwhile();
  }
  std::map<std::uint32_t, std::string> answers;
  const auto awaited = [&] {
    return std::ranges::any_of(
        texts, [&](const auto& entry) { return clients_.contains(entry.first) && !answers.contains(entry.first); });
  };
  while (awaited() && Clock::now() < deadline) {
    wait(deadline, false);
    hear_clients(answers);
  }
  for (const auto& [rank, text] : texts) {
    if (clients_.contains(rank) && !answers.contains(rank)) {
      losses_.insert_or_assign(rank, "it did not answer in time");
    }
  }
  return answers;
}

}  // namespace rollcall::doctor
