// A model of what many_agents.cpp measures, for more agents than a host can hold and for a network that this host has
// not: one coordinator and N agents in SimGrid (libsimgrid-dev, Debian's 3.32; apt-get install libsimgrid-dev).
//
//   simulated_agents AGENTS [--network] [--join-us=85 ...]    (--help names all parameters)
//
// Prints as JSON the seconds until all agents are in a generation, from the loss of one until all others were told, and
// until they are in the next; processor time of the coordinator; the most bytes that it had given to connections and
// that had not arrived. simulate.py fits the parameters to what scale.py measured.
//
// What it follows: an agent connects and says Join; once all have, the coordinator gives each the list of all nodes
// (World) and Begin, one agent after the other, and each confirms. When one is lost all others are told to Stop, say
// Stopped, and get the next World and Begin. The coordinator is one thread, which does one thing at a time.
//
// What it leaves out:
// - Agents stand together in batches (--batches): a batch sends and gets as many bytes as its agents, in one flow, and
//   costs the coordinator as many messages, but all of a batch arrives at the same time.
// - Flows share links fairly and at once: no slow start, no loss, no queues in switches.
// - Heartbeats take a constant share of the coordinator's processor, instead of a moment each.
// - Memory costs nothing, however much waits to be sent. There are no workers, as in many_agents.
// - Bytes cost the same whether they come by the loopback or over a network, and nothing else grows with the square of
//   the agents: what a look through all of them takes is counted as bytes.
#include <fmt/format.h>
#include <xbt/log.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <vector>

namespace {

namespace po = boost::program_options;
namespace s4u = simgrid::s4u;

constexpr double kSpeed = 1e9;  ///< of a processor in SimGrid's unit: a second of its time is so much work

struct Parameters {
  std::size_t agents = 0;
  std::size_t batches = 0;
  bool network = false;
  double connect_us = 0;
  double join_us = 0;
  double message_us = 0;
  double agent_us = 0;
  double byte_ns = 0;
  double slowdown = 0;
  double node_bytes = 0;
  double world_growth = 0;
  double message_bytes = 0;
  double gbits = 0;
  double switch_gbits = 0;
  double latency_us = 0;
  double heartbeat_seconds = 0;
  double detect_seconds = 0;
};

struct Message {
  enum class Kind { Join, Lost, Alive, Stopped, World, Stop };
  Kind kind;
  std::size_t batch = 0;
  double bytes = 0;
};

/// What many_agents would print.
struct Figures {
  double joined = 0;
  double told = 0;
  double next_generation = 0;
  double processor = 0;  ///< seconds of the coordinator's, without heartbeats
  double queued = 0;     ///< bytes that the coordinator has sent and that have not arrived
  double queued_most = 0;
};

void send(s4u::Mailbox* to, const Message& message) {
  to->put_init(new Message(message), static_cast<std::uint64_t>(message.bytes))->detach();
}

/// The platform, and all that happens on it.
class Simulation {
 public:
  explicit Simulation(const Parameters& parameters) : is_(parameters), in_batch_(std::min(is_.agents, is_.batches)) {
    for (std::size_t agent = 0; agent < is_.agents; ++agent) {
      ++in_batch_[agent % in_batch_.size()];
    }
  }

  /// Of the coordinator's processor, what heartbeats take: each quarter of the time limit one to and one of each agent.
  [[nodiscard]] double heartbeat_share() const {
    return 2 * static_cast<double>(is_.agents) * is_.message_us * is_.slowdown * 1e-6 / (is_.heartbeat_seconds / 4);
  }

  Figures run(s4u::Engine& engine) {
    build();
    s4u::Actor::create("coordinator", coordinator_host_, [this] { coordinate(); })->daemonize();
    if (is_.network) {
      for (std::size_t batch = 0; batch < in_batch_.size(); ++batch) {
        s4u::Actor::create("agents", hosts_[batch], [this, batch] { be_agents(batch, batch + 1); })->daemonize();
      }
    } else {
      s4u::Actor::create("agents", hosts_[0], [this] { be_agents(0, in_batch_.size()); })->daemonize();
    }
    s4u::Actor::create("watch", coordinator_host_, [this] { watch(); });
    engine.run();
    return figures_;
  }

 private:
  /// Over a network: the coordinator's link, then a switch that each batch is behind. Else two processes of one host,
  /// of which each has a core, and bytes cost what they cost the processors.
  void build() {
    s4u::NetZone* const zone = s4u::create_star_zone("cluster");
    const double switch_bandwidth = is_.network ? is_.switch_gbits * 1e9 / 8 : 1e15;
    coordinator_host_ = zone->create_host("coordinator", speed() * (1 - heartbeat_share()));
    connect(zone, coordinator_host_, is_.network ? is_.gbits * 1e9 / 8 : 1e15);
    for (std::size_t batch = 0; batch < (is_.network ? in_batch_.size() : 1); ++batch) {
      hosts_.push_back(zone->create_host(fmt::format("agents{}", batch), speed()));
      connect(zone, hosts_.back(), switch_bandwidth);
    }
    zone->seal();
  }

  void connect(s4u::NetZone* zone, const s4u::Host* host, double bandwidth) const {
    const auto* const link = zone->create_split_duplex_link(host->get_name(), bandwidth);
    link->get_link_up()->set_latency(is_.latency_us * 1e-6 / 2);
    link->get_link_down()->set_latency(is_.latency_us * 1e-6 / 2);
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {{link, s4u::LinkInRoute::Direction::UP}}, true);
  }

  [[nodiscard]] double speed() const { return kSpeed / is_.slowdown; }

  static void work(double microseconds) { s4u::this_actor::execute(microseconds * 1e-6 * kSpeed); }

  // ---- the coordinator

  void coordinate() {
    inbox_->set_receiver(s4u::Actor::self());
    std::size_t here = 0;
    std::size_t stopped = 0;
    for (;;) {
      const auto message = inbox_->get_unique<Message>();
      const std::size_t number = in_batch_[message->batch];
      switch (message->kind) {
        case Message::Kind::Join:
          spend(number, is_.join_us);
          here += number;
          if (here == is_.agents) {
            order(Message::Kind::World, 1);
          }
          break;
        case Message::Kind::Lost:
          spend(1, is_.message_us);
          order(Message::Kind::Stop, 0);
          break;
        case Message::Kind::Stopped:
          spend(number, is_.message_us);
          stopped += number;
          if (stopped == agents_) {
            order(Message::Kind::World, is_.world_growth);
          }
          break;
        default:
          spend(number, is_.message_us);
      }
    }
  }

  /// Tells all agents the same; `worlds`: how many lists of all nodes are in it.
  void order(Message::Kind kind, double worlds) {
    const double bytes = is_.message_bytes + worlds * is_.node_bytes * static_cast<double>(is_.agents);
    for (std::size_t batch = 0; batch < in_batch_.size(); ++batch) {
      if (in_batch_[batch] == 0) {
        continue;
      }
      spend(in_batch_[batch], is_.message_us + bytes * is_.byte_ns * 1e-3);
      const Message message{kind, batch, bytes * static_cast<double>(in_batch_[batch])};
      figures_.queued += message.bytes;
      figures_.queued_most = std::max(figures_.queued_most, figures_.queued);
      send(mailbox_of(batch), message);
    }
  }

  void spend(std::size_t times, double microseconds) {
    figures_.processor += static_cast<double>(times) * microseconds * 1e-6;
    work(static_cast<double>(times) * microseconds);
  }

  // ---- the agents

  /// One process: of a batch of them in a network, which all do the same at the same time; on one host of all agents.
  void be_agents(std::size_t first, std::size_t end) {
    s4u::Mailbox* const mailbox = mailbox_of(first);
    mailbox->set_receiver(s4u::Actor::self());
    for (std::size_t batch = first; batch < end; ++batch) {
      work(is_.connect_us * process_has(batch));
      s4u::this_actor::sleep_for(is_.network ? 2 * is_.latency_us * 1e-6 : 0);  // a connection is there after one round
      answer(Message::Kind::Join, batch);
    }
    for (;;) {
      const auto message = mailbox->get_unique<Message>();
      const double bytes = message->bytes / static_cast<double>(in_batch_[message->batch]);
      figures_.queued -= message->bytes;
      work((is_.agent_us + bytes * is_.byte_ns * 1e-3) * process_has(message->batch));
      reached_ += in_batch_[message->batch];
      answer(message->kind == Message::Kind::Stop ? Message::Kind::Stopped : Message::Kind::Alive, message->batch);
      if (reached_ == agents_) {
        all_reached_->release();
      }
    }
  }

  /// Of a batch's agents, how many one process has to do the work of.
  [[nodiscard]] double process_has(std::size_t batch) const {
    return is_.network ? 1 : static_cast<double>(in_batch_[batch]);
  }

  /// What many_agents measures, and does: the last agent ends, and the coordinator learns of it after a while.
  void watch() {
    figures_.joined = when_all_are_reached();
    --in_batch_[(is_.agents - 1) % in_batch_.size()];
    --agents_;
    s4u::this_actor::sleep_for(is_.detect_seconds);
    send(inbox_, {Message::Kind::Lost});
    figures_.told = when_all_are_reached() - figures_.joined;
    figures_.next_generation = when_all_are_reached() - figures_.joined;
  }

  double when_all_are_reached() {
    all_reached_->acquire();
    reached_ = 0;
    return s4u::Engine::get_clock();
  }

  void answer(Message::Kind kind, std::size_t batch) {
    send(inbox_, {kind, batch, is_.message_bytes * static_cast<double>(in_batch_[batch])});
  }

  [[nodiscard]] s4u::Mailbox* mailbox_of(std::size_t batch) const {
    return s4u::Mailbox::by_name(fmt::format("agents{}", is_.network ? batch : 0));
  }

  Parameters is_;
  std::vector<std::size_t> in_batch_;
  s4u::Host* coordinator_host_ = nullptr;
  std::vector<s4u::Host*> hosts_;
  s4u::Mailbox* inbox_ = s4u::Mailbox::by_name("coordinator");
  std::size_t agents_ = is_.agents;  ///< that are left
  std::size_t reached_ = 0;          ///< by what the coordinator is saying to all
  s4u::SemaphorePtr all_reached_ = s4u::Semaphore::create(0);
  Figures figures_;
};

po::options_description table(Parameters& parameters) {
  po::options_description all("parameters");
  auto number = [&all](const char* name, double& value, double otherwise, const char* help) {
    all.add_options()(name, po::value(&value)->default_value(otherwise), help);
  };
  all.add_options()("help", "this");
  all.add_options()("agents", po::value(&parameters.agents), "how many; also without its name");
  all.add_options()("batches", po::value(&parameters.batches)->default_value(256), "in which agents stand together");
  all.add_options()("network", po::bool_switch(&parameters.network), "not all on one host");
  number("connect-us", parameters.connect_us, 60, "an agent's processor: to connect and say Join");
  number("join-us", parameters.join_us, 85, "the coordinator's: a new connection and its Join");
  number("message-us", parameters.message_us, 12, "the coordinator's: a short message that is sent or read");
  number("agent-us", parameters.agent_us, 20, "an agent's: to be told something and to answer");
  number("byte-ns", parameters.byte_ns, 1, "either's: a byte that is sent or read");
  number("slowdown", parameters.slowdown, 1,
         "times as long as its processor time all of this takes, since others use the processors");
  number("node-bytes", parameters.node_bytes, 8.3, "of the list of all nodes, packed");
  number("world-growth", parameters.world_growth, 2,
         "lists in one message after a change, when the one before is told, too");
  number("message-bytes", parameters.message_bytes, 300, "of a short message");
  number("gbits", parameters.gbits, 100, "of the coordinator's link, with --network");
  number("switch-gbits", parameters.switch_gbits, 400, "of each batch's switch, with --network");
  number("latency-us", parameters.latency_us, 10, "one way");
  number("heartbeat-seconds", parameters.heartbeat_seconds, 20, "heartbeat_timeout, which is 2 s unless it is set");
  number("detect-seconds", parameters.detect_seconds, 0, "until a loss is seen; 0: by the end of its connection");
  return all;
}

int simulate(int argc, char** argv) {
  Parameters parameters;
  const po::options_description options = table(parameters);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv)
                .options(options)
                .positional(po::positional_options_description().add("agents", 1))
                .run(),
            values);
  po::notify(values);
  if (values.contains("help") || parameters.agents < 2 || parameters.batches < 1) {
    std::cerr << "usage: simulated_agents AGENTS [--PARAMETER=VALUE...]\n" << options;
    return values.contains("help") ? 0 : 64;
  }
  xbt_log_control_set("root.threshold:error");
  s4u::Engine engine("simulated_agents");
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/TCP-gamma:0");  // a batch is many connections: no one window limits it
  Simulation simulation(parameters);
  if (simulation.heartbeat_share() >= 1) {
    fmt::print(stderr, "{} agents: heartbeats alone take {:.1f} of the coordinator's processor\n", parameters.agents,
               simulation.heartbeat_share());
    return 1;
  }
  const Figures figures = simulation.run(engine);
  fmt::print(
      "{{\"joined_seconds\":{:.6f},\"told_seconds\":{:.6f},\"next_generation_seconds\":{:.6f},"
      "\"coordinator_cpu_seconds\":{:.6f},\"coordinator_queued_mib\":{:.1f},\"heartbeat_share\":{:.4f}}}\n",
      figures.joined, figures.told, figures.next_generation,
      figures.processor + simulation.heartbeat_share() / parameters.slowdown * s4u::Engine::get_clock(),
      figures.queued_most / 0x100000, simulation.heartbeat_share());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return simulate(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "simulated_agents: {}\n", error.what());
    return 64;
  }
}
