#include "compiler/frontend/aten/running_statistics.h"

namespace piper::frontend::aten {
namespace {

bool keeps_statistics(const ProgramCall& c) {
  const std::string& t = c.call.target;
  return t.find("batch_norm") != std::string::npos || t.find("instance_norm") != std::string::npos;
}

}  // namespace

std::set<std::string> running_statistics(const Program& program) {
  std::set<std::string> out;
  for (const ProgramCall& c : program.calls) {
    if (!keeps_statistics(c) || c.call.args.size() < 6) continue;
    const bool training = (c.call.args[5].kind == Item::Kind::kBool && c.call.args[5].flag) ||
                          c.call.target.find("batch_norm_with_update") != std::string::npos;
    for (size_t i : {3, 4})
      if (training && c.call.args[i].kind == Item::Kind::kRef) out.insert(c.call.args[i].text);
  }
  return out;
}

bool counts_batches(const std::string& buffer) { return buffer.substr(buffer.rfind('.') + 1) == "num_batches_tracked"; }

bool is_made_by_batch_norm(const Program& program, const std::string& value) {
  const auto made = program.producer.find(value);
  if (made == program.producer.end()) return value.rfind("getitem", 0) == 0;
  const ProgramCall& call = program.calls[made->second];
  if (call.call.target.find("getitem") == std::string::npos || call.refs.empty()) return keeps_statistics(call);
  return is_made_by_batch_norm(program, call.refs[0]);
}

}  // namespace piper::frontend::aten
