// The text form of the lay-out of state. What follows from the accumulators (uses of a parameter, members of a team)
// is not held.
#include <ostream>

#include "compiler/ir/section_fields.h"

namespace piper::ir {

inline Words words_of(Kept) {
  static constexpr std::string_view kWords[] = {"whole", "part"};
  return kWords;
}

void fields(auto& v, Of<Accumulator> auto& a) {
  v("parameter", a.parameter, "a parameter");
  v("chunks", a.chunks);
  v("group", a.group);
  v("bucket", OrNone{a.bucket});
  v("offset", a.offset);
  v("bytes", a.bytes);
}
void fields(auto& v, Of<Bucket> auto& b) {
  v("", b.name);
  v("group", b.group);
  v("teams", b.teams);
  v("of", b.team_size);
  v.optional("across", b.across, {});
  v("accumulators", b.accumulators);
  v("bytes", b.bytes);
  v("moments", b.moments);
  v("gradients", b.gradients);
  v("parameters", b.parameters);
  v("residency", b.residency);
  v("prefetch", b.prefetch, "a number of computes");
  v("stream", b.stream, "a stream");
  v("gather", b.gather_stream, "a stream");
  v.optional("dtype", b.dtype, DType::kF32);
  v("working", b.working);
  v.flag("cut", b.cut);
  v.flag("share", b.share);
  v.flag("matrices", b.matrices);
  v.optional("by", b.prov, {});
}
// Which gather a reader has its parameters of a bucket from.
struct GatherLine {
  BucketId bucket;
  NodeId reader, from;
};
void fields(auto& v, Of<GatherLine> auto& gather) {
  v("bucket", gather.bucket);
  v("reader", gather.reader);
  v("from", gather.from);
}
struct ClearLine {
  Clear clear;
  NodeId before;
};
void fields(auto& v, Of<ClearLine> auto& line) {
  v("bucket", line.clear.bucket);
  v("microbatch", line.clear.microbatch, "a microbatch");
  v("before", line.before);
}
struct Owners {
  std::vector<int32_t> parameters, buffers;
  std::vector<uint32_t> unread;
};
void fields(auto& v, Of<Owners> auto& owners) {
  v("parameters", Repeated{owners.parameters}, "a rank");
  v("buffers", Repeated{owners.buffers}, "a rank");
  v("unread", owners.unread, "a parameter");
}

namespace {

class StateParser {
 public:
  StateParser(ModuleReader& in, Module& module) : in_(in), module_(module), state_(module.state) {}

  Status run() {
    if (module_.variants.empty()) return in_.fail("state belongs to a model, whose variant must come before it");
    state_.parameter_uses.resize(module_.graph().parameters().size());
    return in_.block([&] { return entry(); });
  }

 private:
  Status entry() {
    const Token name = in_.token();
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (name.is_word("accumulator")) {
      PIPER_RETURN_IF_ERROR(read_next(module_, in_, state_.accumulators, "accumulators"));
      return place(name, state_.accumulators.back());
    }
    if (name.is_word("bucket")) return read_next(module_, in_, state_.buckets, "buckets");
    if (name.is_word("gather")) {
      GatherLine gather;
      PIPER_RETURN_IF_ERROR(read_line(module_, in_, gather));
      const bool first = state_.gathers.emplace(std::pair(gather.bucket, gather.reader), gather.from).second;
      return first ? Status() : in_.fail(name, "the reader has its parameters already");
    }
    if (name.is_word("clear")) {
      ClearLine line;
      PIPER_RETURN_IF_ERROR(read_line(module_, in_, line));
      state_.clears[line.before].push_back(line.clear);
      return {};
    }
    if (name.is_word("owners")) return owners();
    return in_.fail(name, "expected accumulator, bucket, gather, clear, owners or '}'");
  }

  Status place(const Token& at, Accumulator& a) {
    if (a.parameter >= state_.parameter_uses.size()) return in_.fail(at, "the model has no such parameter");
    if (a.chunks.empty()) return in_.fail(at, "expected a chunk");
    a.chunk = a.chunks[0];
    a.use = static_cast<uint32_t>(state_.parameter_uses[a.parameter].size());
    state_.parameter_uses[a.parameter].push_back(AccumulatorId(state_.accumulators.size() - 1));
    return {};
  }

  Status owners() {
    Owners owners;
    PIPER_RETURN_IF_ERROR(read_line(module_, in_, owners));
    state_.parameter_owner = std::move(owners.parameters);
    state_.buffer_owner = std::move(owners.buffers);
    state_.unread.assign(state_.parameter_owner.size(), false);
    for (uint32_t p : owners.unread)
      if (p < state_.unread.size()) state_.unread[p] = true;
      else return in_.fail("parameter " + std::to_string(p) + " has no owner");
    return {};
  }

  ModuleReader& in_;
  const Module& module_;
  StateLayout& state_;
};

}  // namespace

void print_state_section(const Module& module, std::ostream& out) {
  const StateLayout& state = module.state;
  if (state.parameter_uses.empty()) return;
  out << "state {\n";
  write_table(module, out, "  accumulator", state.accumulators);
  write_table(module, out, "  bucket", state.buckets);
  for (const auto& [read, node] : state.gathers)
    write_line(module, out, "  gather", GatherLine{read.first, read.second, node});
  for (const auto& [before, clears] : state.clears)
    for (const Clear& clear : clears) write_line(module, out, "  clear", ClearLine{clear, before});
  if (!state.parameter_owner.empty() || !state.buffer_owner.empty()) {
    Owners owners{state.parameter_owner, state.buffer_owner, {}};
    for (uint32_t p = 0; p < state.unread.size(); ++p)
      if (state.unread[p]) owners.unread.push_back(p);
    write_line(module, out, "  owners", owners);
  }
  out << "}\n";
}

Status parse_state_section(ModuleReader& in, Module& module) { return StateParser(in, module).run(); }

}  // namespace piper::ir
