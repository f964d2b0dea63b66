#include "compiler/machine/load_machine.h"

#include <algorithm>
#include <filesystem>

#include "compiler/strategy/value.h"
#include "compiler/strategy/value_reader.h"
#include "schemas/plan/file_bytes.h"

namespace piper::machine {
namespace {

using strategy::MapReader;
using strategy::ReadContext;
using strategy::Value;
using timeline::Machine;

constexpr const char* kWholeFiles = "strategies/targets/ has whole files to begin with";
constexpr int64_t kMostOfANode = 1 << 16;

// Above 0, or from 0 on.
double positive(ReadContext& context, MapReader& reader, const char* key, bool or_zero = false) {
  const Value* value = reader.require(key, kWholeFiles);
  if (value == nullptr) return 0;
  const std::string what = std::string("'") + key + "'";
  const auto number = read_number(context, *value, what);
  if (number && (*number < 0 || (*number == 0 && !or_zero)))
    context.diags.error("P0207", value->span) << what << " must " << (or_zero ? "not be below 0" : "be above 0");
  return number.value_or(0);
}

int32_t count_of(ReadContext& context, const Value* value, const char* key, int32_t otherwise, int64_t least) {
  if (value == nullptr) return otherwise;
  return static_cast<int32_t>(
      read_int(context, *value, std::string("'") + key + "'", least, kMostOfANode).value_or(otherwise));
}

void read_flops(ReadContext& context, const Value* value, Machine& out) {
  if (value == nullptr) return;
  MapReader reader(context, *value, "'flops'");
  for (const DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    const std::string name(dtype_name(type));
    if (type == DType::kF32 || reader.get(name) != nullptr)
      out.flops[static_cast<size_t>(type)] = positive(context, reader, name.c_str());
  }
  reader.finish();
}

void read_efficiency(ReadContext& context, const Value* value, Machine& out) {
  if (value == nullptr) return;
  MapReader reader(context, *value, "'efficiency'");
  const auto part = [&](const char* key) {
    const double number = positive(context, reader, key);
    if (number > 1)
      context.diags.error("P0207", reader.get(key)->span) << "'" << key << "' is a part of the peak, at most 1";
    return number;
  };
  out.product_efficiency = part("product");
  out.grouped_efficiency = part("grouped_product");
  out.attention_efficiency = part("attention");
  out.memory_efficiency = part("memory");
  reader.finish();
}

timeline::LinkLevel read_level(ReadContext& context, const Value* value, const std::string& what, int32_t ranks) {
  timeline::LinkLevel level;
  level.ports = ranks;
  if (value == nullptr) return level;
  MapReader reader(context, *value, what);
  level.latency_us = positive(context, reader, "latency_us", true);
  level.bytes_per_second = positive(context, reader, "bytes_per_second");
  if (const Value* ports = reader.get("ports_per_node")) {
    level.ports = count_of(context, ports, "ports_per_node", ranks, 1);
    if (level.ports > ranks)
      context.diags.error("P0207", ports->span) << "a node of " << ranks << " ranks uses at most as many ports";
  }
  reader.finish();
  return level;
}

timeline::Algorithm read_algorithm(ReadContext& context, const Value& value) {
  timeline::Algorithm algorithm;
  MapReader reader(context, value, "an algorithm of 'collectives'");
  if (const Value* shape = reader.require("shape", kWholeFiles)) {
    const std::string name = read_string(context, *shape, "'shape'").value_or("ring");
    if (name != "ring" && name != "tree")
      context.diags.error("P0207", shape->span) << "'shape' is 'ring' or 'tree', not '" << name << "'";
    if (name == "tree") algorithm.shape = timeline::Algorithm::Shape::kTree;
  }
  algorithm.start_us = positive(context, reader, "start_us", true);
  algorithm.inside_us = positive(context, reader, "inside_us", true);
  algorithm.between_us = positive(context, reader, "between_us", true);
  algorithm.bandwidth = positive(context, reader, "bandwidth");
  if (algorithm.bandwidth > 1)
    context.diags.error("P0207", reader.get("bandwidth")->span) << "'bandwidth' is a part of the links', at most 1";
  reader.finish();
  return algorithm;
}

void read_collectives(ReadContext& context, const Value& value, Machine& out) {
  if (value.kind == Value::Kind::kList) {
    for (const Value& item : value.items) out.algorithms.push_back(read_algorithm(context, item));
    if (std::none_of(out.algorithms.begin(), out.algorithms.end(),
                     [](const auto& a) { return a.shape == timeline::Algorithm::Shape::kRing; }))
      context.diags.error("P0207", value.span) << "'collectives' needs a ring, by which gathers go";
    return;
  }
  const std::string name = read_string(context, value, "'collectives'").value_or("rings");
  if (name != "rings" && name != "direct")
    context.diags.error("P0207", value.span)
        << "'collectives' are 'rings', 'direct' or a list of algorithms, not '" << name << "'";
  if (name == "direct") out.collectives = timeline::Collectives::kDirect;
}

void read_multiprocessors(ReadContext& context, const Value& value, Machine& out) {
  MapReader reader(context, value, "'multiprocessors'");
  out.multiprocessors = count_of(context, reader.require("of_device", kWholeFiles), "of_device", 0, 1);
  const Value* taken = reader.require("of_a_transfer", kWholeFiles);
  out.of_a_transfer = count_of(context, taken, "of_a_transfer", 0, 1);
  if (taken != nullptr && out.of_a_transfer >= out.multiprocessors)
    context.diags.error("P0207", taken->span) << "a transfer leaves its device at least one multiprocessor";
  reader.finish();
}

void read_nine_of_ten(ReadContext& context, const Value& value, Machine& out) {
  std::vector<double> ends;
  if (value.kind == Value::Kind::kList)
    for (const Value& item : value.items) ends.push_back(read_number(context, item, "'nine_of_ten'").value_or(0));
  if (ends.size() == 2 && ends[0] > 0 && ends[0] <= ends[1]) out.nine_of_ten = {ends[0], ends[1]};
  else
    context.diags.error("P0207", value.span)
        << "'nine_of_ten' is [least, most]: how many times the predicted time published runs took";
}

plan::DeviceKind read_device(ReadContext& context, const Value& value, std::optional<plan::DeviceKind> wanted) {
  const std::string name = read_string(context, value, "'device'").value_or("cpu");
  if (name != "cpu" && name != "cuda")
    context.diags.error("P0207", value.span) << "'device' is 'cpu' or 'cuda', not '" << name << "'";
  const plan::DeviceKind device = name == "cuda" ? plan::DeviceKind::kCuda : plan::DeviceKind::kCpu;
  if (wanted && device != *wanted)
    context.diags.error("P0250", value.span).help("name a target of that device, or compile for this one's: --device")
        << "the target is of " << name << ", and the plans are of " << (name == "cuda" ? "cpu" : "cuda");
  return device;
}

Machine read_machine(ReadContext& context, const Value& root, std::optional<plan::DeviceKind> wanted) {
  Machine machine;
  MapReader reader(context, root, "the machine");
  if (const Value* name = reader.require("name", kWholeFiles))
    machine.name = read_string(context, *name, "'name'").value_or("");
  if (const Value* device = reader.require("device", kWholeFiles))
    machine.device = read_device(context, *device, wanted);
  machine.ranks_per_node = count_of(context, reader.require("ranks_per_node", kWholeFiles), "ranks_per_node", 1, 1);
  machine.cores = count_of(context, reader.get("cores"), "cores", 0, 1);
  read_flops(context, reader.require("flops", kWholeFiles), machine);
  machine.memory_bytes = positive(context, reader, "memory_bytes");
  machine.memory_bytes_per_second = positive(context, reader, "memory_bytes_per_second");
  if (const Value* core = reader.get("core_bytes_per_second")) {
    machine.core_bytes_per_second = positive(context, reader, "core_bytes_per_second");
    if (machine.cores == 0 || machine.core_bytes_per_second > machine.memory_bytes_per_second)
      context.diags.error("P0207", core->span)
          << "'core_bytes_per_second' is what one of 'cores' has of 'memory_bytes_per_second', at most all";
  }
  read_efficiency(context, reader.require("efficiency", kWholeFiles), machine);
  machine.kernel_us = positive(context, reader, "kernel_us", true);
  machine.host_us = positive(context, reader, "host_us", true);
  machine.inside =
      read_level(context, reader.require("inside_node", kWholeFiles), "'inside_node'", machine.ranks_per_node);
  machine.between =
      read_level(context, reader.require("between_nodes", kWholeFiles), "'between_nodes'", machine.ranks_per_node);
  if (const Value* collectives = reader.get("collectives")) read_collectives(context, *collectives, machine);
  if (const Value* multiprocessors = reader.get("multiprocessors"))
    read_multiprocessors(context, *multiprocessors, machine);
  if (const Value* range = reader.get("nine_of_ten")) read_nine_of_ten(context, *range, machine);
  reader.finish();
  return machine;
}

}  // namespace

namespace {

namespace fs = std::filesystem;

// Those that come with piper: where it is installed in share/, in a build of the sources beside them; "" where neither
// is there.
fs::path folder_of_targets() {
  std::error_code error;
  const fs::path programs = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* from : {"../share/piper/strategies/targets", "../../../strategies/targets"})
    if (const fs::path folder = programs / from; fs::is_directory(folder, error)) return folder;
  return {};
}

std::string names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  if (!folder.empty())
    for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator(); at.increment(error))
      if (at->path().extension() == ".yaml") names.push_back(at->path().stem().string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// A file goes before a name.
std::string file_of(const std::string& path) {
  std::error_code error;
  if (path.find('/') != std::string::npos || fs::exists(path, error)) return path;
  const fs::path known = folder_of_targets() / (path + ".yaml");
  return fs::exists(known, error) ? known.lexically_normal().string() : path;
}

}  // namespace

Result<Machine> load_machine(const std::string& path, diag::Diagnostics& diags,
                             std::optional<plan::DeviceKind> wanted) {
  const std::string file = file_of(path);
  auto mapped = plan::map_file(file);
  if (!mapped.ok()) {
    const std::string names = names_in(folder_of_targets());
    return diags.error("P0101").help(names.empty() ? "check the path given to --target"
                                                   : "--target takes a file, or one of " + names)
           << mapped.error().message;
  }
  const size_t errors_before = diags.num_errors();
  const std::string text(mapped->text());
  PIPER_ASSIGN(const Value root, strategy::read_yaml(diags.add_file(file, text), text, 0, diags));
  ReadContext context{diags};
  Machine machine = read_machine(context, root, wanted);
  if (diags.num_errors() > errors_before) return Status::reported("P0207");
  return machine;
}

}  // namespace piper::machine
