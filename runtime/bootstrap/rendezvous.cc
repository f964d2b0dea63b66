#include "runtime/bootstrap/rendezvous.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "schemas/launch/variables.h"

namespace piper::bootstrap {

namespace {

constexpr const char* kLoopback = "127.0.0.1";

Status wrong(const std::string& name, const std::string& value, const std::string& what) {
  return Status::failure("R0105", "the environment variable " + name + " is '" + value.substr(0, 300) + "', " + what);
}

struct Variable {
  const char* name = "";
  std::string value;
};

// The first of these that is set and not empty.
std::optional<Variable> first_of(const GetVariable& get, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto value = get(name); value && !value->empty()) return Variable{name, std::move(*value)};
  return std::nullopt;
}

Result<Variable> required(const GetVariable& get, std::initializer_list<const char*> names, Launcher launcher) {
  if (auto variable = first_of(get, names)) return std::move(*variable);
  return Status::failure("R0105", "the environment variable " + std::string(*names.begin()) +
                                      " is not set: the ranks of a launch by " + std::string(launcher_name(launcher)) +
                                      " meet where it says");
}

Result<uint64_t> number(const Variable& variable, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  const char* const end = variable.value.data() + variable.value.size();
  const auto read = std::from_chars(variable.value.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < least || value > most)
    return wrong(variable.name, variable.value,
                 "not a number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

Result<int32_t> attempt_of(const GetVariable& get, const char* name) {
  const auto variable = first_of(get, {name});
  if (!variable) return 0;
  PIPER_ASSIGN(const uint64_t attempt, number(*variable, 0, INT32_MAX));
  return static_cast<int32_t>(attempt);
}

Result<std::string> host_of(const Variable& variable) {
  const bool fits =
      variable.value.size() <= 253 && std::all_of(variable.value.begin(), variable.value.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == ':' ||
               c == '%';  // the last two for IPv6
      });
  if (!fits) return wrong(variable.name, variable.value, "not a host's name or address");
  return variable.value;
}

// What both launchers understand: an address that somebody has chosen.
Status read_master(const GetVariable& get, Launcher launcher, hal::StoreAddress& address) {
  PIPER_ASSIGN(const Variable host, required(get, {"MASTER_ADDR"}, launcher));
  PIPER_ASSIGN(address.host, host_of(host));
  PIPER_ASSIGN(const Variable port, required(get, {"MASTER_PORT"}, launcher));
  PIPER_ASSIGN(const uint64_t value, number(port, 1, 65535));
  address.port = static_cast<uint16_t>(value);
  return {};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.compare(0, 4, "127.") == 0;
}

Result<hal::StoreAddress> of_torchrun(const RankEnvironment& environment, const GetVariable& get) {
  hal::StoreAddress address;
  PIPER_RETURN_IF_ERROR(read_master(get, environment.launcher, address));
  if (const auto id = first_of(get, {"TORCHELASTIC_RUN_ID"})) {
    if (id->value.size() > hal::StoreAddress::kMaxRunIdBytes || id->value.find('\n') != std::string::npos)
      return wrong(id->name, id->value,
                   "not one line of at most " + std::to_string(hal::StoreAddress::kMaxRunIdBytes) + " bytes");
    address.run_id = id->value;
  }
  PIPER_ASSIGN(address.attempt, attempt_of(get, "TORCHELASTIC_RESTART_COUNT"));
  address.served_by_launcher = get("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (const auto local = first_of(get, {"LOCAL_WORLD_SIZE"})) {
    PIPER_ASSIGN(const uint64_t here, number(*local, 1, static_cast<uint64_t>(environment.size)));
    address.several_nodes = here < static_cast<uint64_t>(environment.size);
  } else {
    address.several_nodes = !is_loopback(address.host);
  }
  if (!address.several_nodes && !address.served_by_launcher) address.host = kLoopback;
  if (const auto socket = first_of(get, {launch::kStoreSocket}); socket && environment.rank == 0) {
    PIPER_ASSIGN(const uint64_t descriptor, number(*socket, 0, INT32_MAX));
    address.listening = static_cast<int>(descriptor);
  }
  return address;
}

Result<hal::StoreAddress> of_slurm(const GetVariable& get) {
  hal::StoreAddress address;
  PIPER_ASSIGN(const Variable job, required(get, {"SLURM_JOB_ID", "SLURM_JOBID"}, Launcher::kSlurm));
  PIPER_ASSIGN(const Variable step, required(get, {"SLURM_STEP_ID", "SLURM_STEPID"}, Launcher::kSlurm));
  PIPER_ASSIGN(const uint64_t job_id, number(job, 0, UINT32_MAX));
  PIPER_ASSIGN(const uint64_t step_id, number(step, 0, UINT32_MAX));
  address.run_id = "slurm." + std::to_string(job_id) + "." + std::to_string(step_id);
  PIPER_ASSIGN(address.attempt, attempt_of(get, "SLURM_RESTART_COUNT"));
  PIPER_ASSIGN(const Variable list,
               required(get, {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}, Launcher::kSlurm));
  PIPER_ASSIGN(const NodeList nodes, read_node_list(list.name, list.value));
  address.several_nodes = nodes.several;
  if (first_of(get, {"MASTER_ADDR"}) && first_of(get, {"MASTER_PORT"})) {
    PIPER_RETURN_IF_ERROR(read_master(get, Launcher::kSlurm, address));
  } else {
    address.host = nodes.first;
    // Jobs that follow each other lie far apart, so that the steps of one do not meet the next one's.
    address.port = static_cast<uint16_t>(kFirstPort + (job_id * 131 + step_id) % kPorts);
  }
  if (!address.several_nodes) address.host = kLoopback;
  return address;
}

// Reads the bracket that begins at `at`: "[03-05,9]". Its first number as it is written; `at` is then after it.
std::optional<std::string> read_bracket(const std::string& text, size_t& at, bool& several) {
  const size_t end = text.find(']', at);
  if (end == std::string::npos) return std::nullopt;
  std::string first;
  size_t begin = at + 1;
  while (begin <= end) {
    const size_t comma = std::min(text.find(',', begin), end);
    const std::string range = text.substr(begin, comma - begin);
    const size_t dash = range.find('-');
    const std::string low = range.substr(0, dash), high = dash == std::string::npos ? low : range.substr(dash + 1);
    uint64_t low_value = 0, high_value = 0;
    for (const auto& [digits, value] : {std::pair{&low, &low_value}, std::pair{&high, &high_value}}) {
      const auto read = std::from_chars(digits->data(), digits->data() + digits->size(), *value);
      if (read.ec != std::errc() || read.ptr != digits->data() + digits->size()) return std::nullopt;
    }
    if (low_value > high_value) return std::nullopt;
    if (first.empty()) first = low;
    else several = true;
    several = several || low_value < high_value;
    begin = comma + 1;
  }
  at = end + 1;
  return first;
}

}  // namespace

Result<NodeList> read_node_list(const char* name, const std::string& text) {
  const auto no_list = [&] { return wrong(name, text, "not a list of nodes such as gpu[03-05,9],login1"); };
  NodeList list;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[') {
      const auto number = read_bracket(text, at, list.several);
      if (!number) return no_list();
      list.first += *number;
    } else if (c == ',') {
      if (at + 1 == text.size()) return no_list();
      list.several = true;
      break;  // the hosts after that are never asked for
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.') {
      list.first += c;
      ++at;
    } else {
      return no_list();
    }
  }
  if (list.first.empty()) return no_list();
  return list;
}

Result<hal::StoreAddress> read_rendezvous(const RankEnvironment& environment, const GetVariable& get) {
  switch (environment.launcher) {
    case Launcher::kTorchrun:
    case Launcher::kPiperLaunch: return of_torchrun(environment, get);
    case Launcher::kSlurm: return of_slurm(get);
    case Launcher::kNone:
    case Launcher::kOpenMpi:
    case Launcher::kPmi: break;
  }
  return Status::failure(
      "R0103", std::string(launcher_name(environment.launcher)) +
                   " gives no address at which processes meet without MPI; piper-launch, torchrun and srun do");
}

Result<int32_t> read_local_rank(const RankEnvironment& environment, const GetVariable& get) {
  constexpr const char *kTorch = "LOCAL_RANK", *kSlurm = "SLURM_LOCALID", *kOpenMpi = "OMPI_COMM_WORLD_LOCAL_RANK",
                       *kMpi = "MPI_LOCALRANKID";
  std::optional<Variable> variable;
  switch (environment.launcher) {
    case Launcher::kTorchrun:
    case Launcher::kPiperLaunch: variable = first_of(get, {kTorch, kSlurm}); break;
    case Launcher::kSlurm: variable = first_of(get, {kSlurm, kTorch}); break;
    case Launcher::kOpenMpi: variable = first_of(get, {kOpenMpi, kTorch}); break;
    case Launcher::kPmi: variable = first_of(get, {kMpi, kSlurm, kTorch}); break;
    case Launcher::kNone: break;
  }
  if (variable) {
    const int32_t last = environment.size > 0 ? environment.size - 1 : INT32_MAX;  // 0: MPI will tell
    PIPER_ASSIGN(const uint64_t rank, number(*variable, 0, static_cast<uint64_t>(last)));
    return static_cast<int32_t>(rank);
  }
  if (environment.size == 1) return 0;
  return Status::failure("R0105", std::string("none of the environment variables ") + kTorch + ", " + kSlurm + ", " +
                                      kOpenMpi + " and " + kMpi +
                                      " is set: nothing says which of its node's devices is this rank's");
}

int ranks_of_node(const GetVariable& get) {
  const auto variable = first_of(get, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"});
  return variable ? std::max(0, std::atoi(variable->value.c_str())) : 0;
}

}  // namespace piper::bootstrap
