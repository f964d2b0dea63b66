#include "launcher/cluster/node_list.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace piper::launcher {

namespace {

constexpr size_t kLongestName = 64, kLongestHost = 253;
constexpr int32_t kMostSlots = 65536;

Status list_refused(const std::string& where, const std::string& why) {
  return Status::failure("L0138", where + ": " + why);
}

bool is_name(const std::string& text, size_t longest, const char* more) {
  return !text.empty() && text.size() <= longest && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [more](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  std::string_view(more).find(c) != std::string::npos;
         });
}

template <class Number>
bool read_number(const std::string& text, Number least, Number most, Number& value) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end && value >= least && value <= most;
}

Status add(std::vector<NodeAddress>& nodes, NodeAddress node, const std::string& where) {
  for (const NodeAddress& other : nodes) {
    if (other.name == node.name) return list_refused(where, "node '" + node.name + "' is there twice");
    if (other.host == node.host && other.port == node.port)
      return list_refused(where, "nodes '" + other.name + "' and '" + node.name + "' have one address");
  }
  nodes.push_back(std::move(node));
  return {};
}

Result<std::string> output_of(const char* command) {
  FILE* const pipe = popen(command, "re");
  if (pipe == nullptr) return list_refused(command, "cannot be started");
  std::string text;
  std::array<char, 4096> piece;
  for (size_t count = 0; (count = fread(piece.data(), 1, piece.size(), pipe)) > 0;) text.append(piece.data(), count);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return list_refused(command, "it fails; is this a job of Slurm?");
  return text;
}

}  // namespace

bool read_address(const std::string& text, std::string& host, uint16_t& port) {
  const size_t colon = text.rfind(':'), bracket = text.rfind(']');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos ? text.find(':') == colon : colon == bracket + 1);
  host = has_port ? text.substr(0, colon) : text;
  if (has_port && !read_number<uint16_t>(text.substr(colon + 1), 1, 65535, port)) return false;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return is_name(host, kLongestHost, "-_.:%");
}

Result<std::vector<NodeAddress>> read_node_list(const std::string& text, const std::string& where) {
  std::vector<NodeAddress> nodes;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string here = where + ", line " + std::to_string(number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, address, slots, more;
    if (!(words >> name)) continue;
    if (!(words >> address >> slots) || words >> more) return list_refused(here, "a node is NAME ADDRESS[:PORT] SLOTS");
    NodeAddress node;
    node.name = name;
    node.port = kNodePort;
    if (!is_name(name, kLongestName, "-_."))
      return list_refused(here, "'" + name.substr(0, 100) + "' is no name of a node");
    if (!read_address(address, node.host, node.port))
      return list_refused(here, "'" + address.substr(0, 300) + "' is no ADDRESS[:PORT]");
    if (!read_number<int32_t>(slots, 1, kMostSlots, node.slots))
      return list_refused(here, "'" + slots.substr(0, 100) + "' is no number of slots");
    PIPER_RETURN_IF_ERROR(add(nodes, std::move(node), here));
  }
  if (nodes.empty()) return list_refused(where, "there is no node in it");
  return nodes;
}

Result<std::vector<NodeAddress>> slurm_node_list(uint16_t port, int32_t slots) {
  const char* const variable = std::getenv("SLURM_JOB_NODELIST");
  if (variable == nullptr || *variable == '\0')
    return list_refused("SLURM_JOB_NODELIST", "is not set: this is no job of Slurm");
  PIPER_ASSIGN(const std::string text, output_of("scontrol show hostnames \"$SLURM_JOB_NODELIST\""));
  std::vector<NodeAddress> nodes;
  std::istringstream names(text);
  for (std::string name; names >> name;) {
    if (!is_name(name, kLongestName, "-_.")) return list_refused("scontrol show hostnames", "says '" + name + "'");
    PIPER_RETURN_IF_ERROR(add(nodes, {name, name, port, slots}, "scontrol show hostnames"));
  }
  if (nodes.empty()) return list_refused("scontrol show hostnames", "says nothing");
  return nodes;
}

}  // namespace piper::launcher
