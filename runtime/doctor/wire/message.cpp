#include "runtime/doctor/wire/message.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

namespace rollcall::network {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Address, text, ipv4, loopback, link_local)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ResolvedName, name, addresses, error)
}  // namespace rollcall::network

namespace rollcall::rendezvous {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Endpoint, host, port)
}  // namespace rollcall::rendezvous

namespace rollcall::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NameFacts, own, head, reverse_address, reverse_name,
                                                reverse_name_leads_back)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(InterfaceFacts, name, up, loopback, megabits)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(InterfaceUse, setting, value, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Device, name, numa, active, gigabits)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(FolderFacts, path, error, free_bytes, total_bytes, free_inodes,
                                                total_inodes, purge_warning)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(VenvFacts, path, version, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Versions, rollcall, slurm, kernel, glibc, pmix)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NodeFacts, names, interfaces, interface_uses, route_interface, gpus,
                                                adapters, slurm_gpus, scratch, venv, versions, shm_bytes, cores,
                                                bench_program)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HeadFacts, endpoint, error, used)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TaskFacts, rank, local_rank, node_rank, host, cores, locked_memory,
                                                resolve_error, warnings, environment_set, head, ring_port,
                                                ring_addresses, first_on_node, node)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Greeting, step, rank, probe)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Request, what, index, size, neighbours)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, operation, bytes, seconds, gigabytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Benchmark, ranks, error, rows)

namespace {

template <typename Message>
std::string dump(const Message& message) {
  return nlohmann::json(message).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename Message>
std::optional<Message> parse(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<Message>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_json_text(const TaskFacts& facts) {
  return nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<TaskFacts> task_facts_from_json(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<TaskFacts>();
  } catch (const std::exception& error) {
    return fail("doctor", "", std::string("a rank's report cannot be read: ") + error.what(),
                "the same version of rollcall on all nodes", ExitCode::Mismatch);
  }
}

std::string to_text(const Greeting& greeting) { return dump(greeting); }
std::optional<Greeting> parse_greeting(std::string_view text) { return parse<Greeting>(text); }
std::string to_text(const Request& request) { return dump(request); }
std::optional<Request> parse_request(std::string_view text) { return parse<Request>(text); }
std::string to_text(const Benchmark& benchmark) { return dump(benchmark); }

Benchmark parse_benchmark(std::string_view text) {
  return parse<Benchmark>(text).value_or(Benchmark{0, "a rank's answer cannot be read", {}});
}

}  // namespace rollcall::doctor
