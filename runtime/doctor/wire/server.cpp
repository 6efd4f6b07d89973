#include "runtime/doctor/wire/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "runtime/doctor/wire/message.h"

namespace rollcall::doctor {
namespace {

/// A rank whose connection broke may come again on another one: it gives up an endpoint that is slow to answer.
constexpr std::chrono::seconds kGrace{2};

// What strangers may hold, as at the rendezvous (rendezvous/admission.cpp).
constexpr std::chrono::seconds kPatience{5};    ///< for a newcomer to say who it is
constexpr std::size_t kLongestGreeting = 4096;  ///< bytes that are no whole greeting yet

constexpr const char* kGone = "its connection ended: the process was killed or failed";

}  // namespace

Server::Server(std::vector<rendezvous::Listener> listeners, std::string step, std::uint32_t world_size)
    : listeners_(std::move(listeners)), step_(std::move(step)), world_size_(world_size) {
  for (const rendezvous::Listener& listener : listeners_) {
    fcntl(listener.descriptor(), F_SETFL, fcntl(listener.descriptor(), F_GETFL) | O_NONBLOCK);
  }
}

void Server::accept_waiting() {
  for (const rendezvous::Listener& listener : listeners_) {
    while (true) {
      const int descriptor = accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      const bool full = descriptor < 0 && (errno == EMFILE || errno == ENFILE);
      if (full && !newcomers_.empty()) {
        newcomers_.erase(newcomers_.begin());
      } else if (descriptor < 0) {
        break;
      } else {
        newcomers_.push_back({Socket(descriptor), Clock::now() + kPatience});
      }
    }
  }
}

void Server::greet(Socket& newcomer, const std::string& text) {
  const std::optional<Greeting> greeting = parse_greeting(text);
  Socket client = std::move(newcomer);
  if (!greeting || greeting->step != step_ || greeting->rank == 0 || greeting->rank >= world_size_) {
    return;
  }
  // A few bytes into an empty socket buffer: this does not wait.
  const bool told = client.send_frame(to_text(Greeting{step_, 0, greeting->probe}), Clock::now()).has_value();
  if (told && !greeting->probe) {
    losses_.erase(greeting->rank);
    clients_.insert_or_assign(greeting->rank, std::move(client));
  }
}

void Server::hear_newcomers(std::map<std::uint32_t, std::string>& reports) {
  for (auto& [newcomer, until] : newcomers_) {
    const bool alive = newcomer.take_arrived();
    if (const std::optional<std::string> text = newcomer.frames().next()) {
      greet(newcomer, *text);
    } else if (!alive || newcomer.frames().broken() || newcomer.frames().size() > kLongestGreeting) {
      newcomer = Socket();
    }
  }
  std::erase_if(newcomers_, [now = Clock::now()](const Newcomer& newcomer) {
    return !newcomer.socket.is_open() || newcomer.until < now;
  });
  hear_clients(reports);
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
  for (const Newcomer& newcomer : newcomers_) {
    waiting.push_back({accepting ? newcomer.socket.descriptor() : -1, POLLIN, 0});
  }
  for (const auto& [rank, socket] : clients_) {
    waiting.push_back({socket.descriptor(), POLLIN, 0});
  }
  poll(waiting.data(), waiting.size(), rendezvous::milliseconds_until(deadline));
}

bool Server::all_accounted_for(const std::map<std::uint32_t, std::string>& reports) const {
  std::size_t silent = 0;
  for (const auto& [rank, reason] : losses_) {
    silent += reports.contains(rank) ? 0 : 1;
  }
  const bool given_up = silent == 0 || Clock::now() > last_loss_ + kGrace;
  return reports.size() + silent + 1 >= world_size_ && given_up;
}

std::map<std::uint32_t, std::string> Server::gather(Clock::time_point deadline) {
  std::map<std::uint32_t, std::string> reports;
  while (!all_accounted_for(reports) && Clock::now() < deadline) {
    const bool in_grace = Clock::now() < last_loss_ + kGrace;
    wait(in_grace ? std::min(deadline, last_loss_ + kGrace) : deadline, true);
    accept_waiting();
    hear_newcomers(reports);
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
