#include "compiler/frontend/aten/program.h"

namespace piper::frontend::aten {

Status index_calls(Program& program) {
  program.producer.clear();
  for (size_t i = 0; i < program.calls.size(); ++i) {
    ProgramCall& c = program.calls[i];
    c.refs.clear();
    for (const Item& x : c.call.args) collect_refs(x, c.refs);
    for (const auto& [key, x] : c.call.kwargs) collect_refs(x, c.refs);
    for (const auto& [name, index] : c.results) program.producer.emplace(name, i);
  }
  std::unordered_map<std::string, size_t> owner;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const std::string& name = program.calls[i].call.name;
    if (!owner.emplace(name, i).second)
      return Status::failure("P0304", "two different calls are named '%" + name + "': the file must have been edited");
    program.producer[name] = i;
  }
  return Status();
}

std::vector<size_t> live_order(const Program& program) {
  const size_t n = program.calls.size();
  std::vector<std::vector<size_t>> needs(n);
  for (size_t i = 0; i < n; ++i)
    for (const std::string& name : program.calls[i].refs) {
      const auto found = program.producer.find(name);
      if (found != program.producer.end() && found->second != i) needs[i].push_back(found->second);
    }
  std::vector<bool> live(n, false), placed(n, false), entered(n, false);
  std::vector<size_t> work;
  for (const std::string& name : program.outputs)
    if (const auto found = program.producer.find(name); found != program.producer.end()) work.push_back(found->second);
  while (!work.empty()) {
    const size_t i = work.back();
    work.pop_back();
    if (live[i]) continue;
    live[i] = true;
    work.insert(work.end(), needs[i].begin(), needs[i].end());
  }
  std::vector<size_t> order;
  for (size_t start = 0; start < n; ++start) {
    if (!live[start] || placed[start]) continue;
    work.assign(1, start);
    while (!work.empty()) {
      const size_t i = work.back();
      if (placed[i] || entered[i]) {  // everything it needs is placed, or is on the stack in a cycle
        work.pop_back();
        if (!placed[i]) {
          placed[i] = true;
          order.push_back(i);
        }
        continue;
      }
      entered[i] = true;
      for (size_t need : needs[i])
        if (!placed[need] && !entered[need]) work.push_back(need);
    }
  }
  return order;
}

std::string describe_call(const ProgramCall& c) {
  std::string out = "'" + c.call.name + "' (" + c.call.target;
  out += c.module.empty() ? ", root module" : ", module " + c.module;
  return out + (c.line.empty() ? ")" : ", " + c.line + ")");
}

}  // namespace piper::frontend::aten
