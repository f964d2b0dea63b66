// The text form of the lay-out of state. What follows from the accumulators (uses of a parameter, members of a team)
// is not held.
#include <ostream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/module_sections.h"

namespace piper::ir {
namespace {

// By position; a reader takes them in the same order.
const std::vector<std::string_view>& kept_names() {
  static const std::vector<std::string_view> names = {"whole", "part"};
  return names;
}
const std::vector<std::string_view>& residency_names() {
  static const std::vector<std::string_view> names = {"use", "microbatch", "step"};
  return names;
}

void print_bucket(const Bucket& b, size_t index, std::ostream& out) {
  const auto kept = [](Kept how) { return kept_names()[static_cast<size_t>(how)]; };
  out << "  bucket " << index << " " << quoted(b.name) << " group " << id_text(b.group) << " teams " << id_text(b.teams)
      << " of " << b.team_size << " accumulators " << ranges_text(b.accumulators) << " bytes " << b.bytes << " moments "
      << kept(b.moments) << " gradients " << kept(b.gradients) << " parameters " << kept(b.parameters) << " residency "
      << residency_names()[static_cast<size_t>(b.residency)] << " prefetch " << b.prefetch << " stream " << b.stream
      << " gather " << b.gather_stream << prov_text(b.prov) << "\n";
}

class Parser {
 public:
  Parser(ModuleReader& in, Module& module) : in_(in), module_(module), state_(module.state) {}

  Status run() {
    if (module_.variants.empty()) return in_.fail("state is of a model, whose variant must stand before");
    state_.parameter_uses.resize(module_.graph().parameters().size());
    return in_.block([&] { return entry(); });
  }

 private:
  Status entry() {
    const Token name = in_.token();
    PIPER_RETURN_IF_ERROR(in_.advance());
    const std::string& word = name.kind == TokenKind::kWord ? name.text : std::string();
    if (word == "accumulator") return accumulator();
    if (word == "bucket") return bucket();
    if (word == "gather") return gather();
    if (word == "clear") return clear();
    if (word == "owners") return owners();
    return in_.fail(name, "expected accumulator, bucket, gather, clear, owners or '}'");
  }

  Status accumulator() {
    PIPER_RETURN_IF_ERROR(in_.numbered(state_.accumulators.size(), "accumulators"));
    Accumulator a;
    PIPER_RETURN_IF_ERROR(in_.want_word("parameter"));
    const Token at = in_.token();
    PIPER_ASSIGN(a.parameter, in_.uint32("a parameter"));
    if (a.parameter >= state_.parameter_uses.size()) return in_.fail(at, "the model has no such parameter");
    PIPER_RETURN_IF_ERROR(in_.want_word("chunks"));
    PIPER_ASSIGN(a.chunks, in_.ranges<ChunkId>("a chunk"));
    if (a.chunks.empty()) return in_.fail("expected a chunk");
    a.chunk = a.chunks[0];
    PIPER_RETURN_IF_ERROR(in_.want_word("group"));
    PIPER_ASSIGN(a.group, in_.id<GroupId>("a group"));
    PIPER_RETURN_IF_ERROR(in_.want_word("bucket"));
    PIPER_ASSIGN(a.bucket, in_.id_or_none<BucketId>("a bucket"));
    PIPER_RETURN_IF_ERROR(in_.want_word("offset"));
    PIPER_ASSIGN(a.offset, in_.integer());
    PIPER_RETURN_IF_ERROR(in_.want_word("bytes"));
    PIPER_ASSIGN(a.bytes, in_.integer());
    a.use = static_cast<uint32_t>(state_.parameter_uses[a.parameter].size());
    state_.parameter_uses[a.parameter].push_back(AccumulatorId(state_.accumulators.size()));
    state_.accumulators.push_back(std::move(a));
    return {};
  }

  Result<Kept> kept(const char* of) {
    PIPER_RETURN_IF_ERROR(in_.want_word(of));
    return in_.word<Kept>(kept_names());
  }

  Status bucket() {
    PIPER_RETURN_IF_ERROR(in_.numbered(state_.buckets.size(), "buckets"));
    Bucket b;
    PIPER_ASSIGN(b.name, in_.string());
    PIPER_RETURN_IF_ERROR(in_.want_word("group"));
    PIPER_ASSIGN(b.group, in_.id<GroupId>("a group"));
    PIPER_RETURN_IF_ERROR(in_.want_word("teams"));
    PIPER_ASSIGN(b.teams, in_.id<TeamsId>("teams"));
    PIPER_RETURN_IF_ERROR(in_.want_word("of"));
    PIPER_ASSIGN(b.team_size, in_.integer());
    PIPER_RETURN_IF_ERROR(in_.want_word("accumulators"));
    PIPER_ASSIGN(b.accumulators, in_.ranges<AccumulatorId>("an accumulator"));
    PIPER_RETURN_IF_ERROR(in_.want_word("bytes"));
    PIPER_ASSIGN(b.bytes, in_.integer());
    PIPER_ASSIGN(b.moments, kept("moments"));
    PIPER_ASSIGN(b.gradients, kept("gradients"));
    PIPER_ASSIGN(b.parameters, kept("parameters"));
    PIPER_RETURN_IF_ERROR(in_.want_word("residency"));
    PIPER_ASSIGN(b.residency, in_.word<Residency>(residency_names()));
    PIPER_RETURN_IF_ERROR(in_.want_word("prefetch"));
    PIPER_ASSIGN(b.prefetch, in_.int32("a number of computes"));
    PIPER_RETURN_IF_ERROR(in_.want_word("stream"));
    PIPER_ASSIGN(b.stream, in_.uint32("a stream"));
    PIPER_RETURN_IF_ERROR(in_.want_word("gather"));
    PIPER_ASSIGN(b.gather_stream, in_.uint32("a stream"));
    PIPER_ASSIGN(b.prov, in_.by());
    state_.buckets.push_back(std::move(b));
    return {};
  }

  // Which gather a reader has its parameters of a bucket from.
  Status gather() {
    PIPER_RETURN_IF_ERROR(in_.want_word("bucket"));
    PIPER_ASSIGN(const BucketId bucket, in_.id<BucketId>("a bucket"));
    PIPER_RETURN_IF_ERROR(in_.want_word("reader"));
    PIPER_ASSIGN(const NodeId reader, in_.id<NodeId>("a node"));
    PIPER_RETURN_IF_ERROR(in_.want_word("from"));
    const Token at = in_.token();
    PIPER_ASSIGN(const NodeId node, in_.id<NodeId>("a node"));
    if (!state_.gathers.emplace(std::pair(bucket, reader), node).second)
      return in_.fail(at, "the reader has its parameters already");
    return {};
  }

  Status clear() {
    PIPER_RETURN_IF_ERROR(in_.want_word("bucket"));
    Clear clear;
    PIPER_ASSIGN(clear.bucket, in_.id<BucketId>("a bucket"));
    PIPER_RETURN_IF_ERROR(in_.want_word("microbatch"));
    PIPER_ASSIGN(clear.microbatch, in_.int32("a microbatch"));
    PIPER_RETURN_IF_ERROR(in_.want_word("before"));
    PIPER_ASSIGN(const NodeId before, in_.id<NodeId>("a node"));
    state_.clears[before].push_back(clear);
    return {};
  }

  Status owners() {
    const auto integer = [&]() -> Result<int32_t> {
      PIPER_ASSIGN(const int64_t rank, in_.integer_in(-1, INT32_MAX, "a rank"));
      return static_cast<int32_t>(rank);
    };
    PIPER_RETURN_IF_ERROR(in_.want_word("parameters"));
    PIPER_ASSIGN(state_.parameter_owner, in_.repeated<int32_t>(integer));
    PIPER_RETURN_IF_ERROR(in_.want_word("buffers"));
    PIPER_ASSIGN(state_.buffer_owner, in_.repeated<int32_t>(integer));
    PIPER_RETURN_IF_ERROR(in_.want_word("unread"));
    PIPER_ASSIGN(const std::vector<uint32_t> unread, in_.ranges<uint32_t>("a parameter"));
    state_.unread.assign(state_.parameter_owner.size(), false);
    for (uint32_t p : unread)
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
  for (size_t i = 0; i < state.accumulators.size(); ++i) {
    const Accumulator& a = state.accumulators[i];
    out << "  accumulator " << i << " parameter " << a.parameter << " chunks " << ranges_text(a.chunks) << " group "
        << id_text(a.group) << " bucket " << id_text(a.bucket) << " offset " << a.offset << " bytes " << a.bytes
        << "\n";
  }
  for (size_t b = 0; b < state.buckets.size(); ++b) print_bucket(state.buckets[b], b, out);
  for (const auto& [read, node] : state.gathers)
    out << "  gather bucket " << read.first.index << " reader " << read.second.index << " from " << node.index << "\n";
  for (const auto& [before, clears] : state.clears)
    for (const Clear& clear : clears)
      out << "  clear bucket " << clear.bucket.index << " microbatch " << clear.microbatch << " before " << before.index
          << "\n";
  if (!state.parameter_owner.empty() || !state.buffer_owner.empty()) {
    std::vector<uint32_t> unread;
    for (uint32_t p = 0; p < state.unread.size(); ++p)
      if (state.unread[p]) unread.push_back(p);
    const auto text = [](int32_t rank) { return std::to_string(rank); };
    out << "  owners parameters " << repeated_text(state.parameter_owner, text) << " buffers "
        << repeated_text(state.buffer_owner, text) << " unread " << ranges_text(unread) << "\n";
  }
  out << "}\n";
}

Status parse_state_section(ModuleReader& in, Module& module) { return Parser(in, module).run(); }

}  // namespace piper::ir
