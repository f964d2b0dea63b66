// The text form of the lay-out of state. What follows from the accumulators (uses of a parameter, members of a team)
// is not held.
#include <ostream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/module_sections.h"

namespace piper::ir {
namespace {

constexpr std::string_view kKeptWords[] = {"whole", "part"};

void print_bucket(const Bucket& b, size_t index, std::ostream& out) {
  const auto kept = [](Kept how) { return kKeptWords[static_cast<size_t>(how)]; };
  out << "  bucket " << index << " " << string_literal(b.name) << " group " << id_text(b.group) << " teams "
      << id_text(b.teams) << " of " << b.team_size;
  if (b.across.valid()) out << " across " << id_text(b.across);
  out << " accumulators " << ranges_text(b.accumulators) << " bytes " << b.bytes << " moments " << kept(b.moments)
      << " gradients " << kept(b.gradients) << " parameters " << kept(b.parameters) << " residency "
      << kResidencyWords[static_cast<size_t>(b.residency)] << " prefetch " << b.prefetch << " stream " << b.stream
      << " gather " << b.gather_stream;
  if (b.dtype != DType::kF32) out << " dtype " << dtype_name(b.dtype);
  if (b.working) out << " working " << dtype_name(*b.working);
  if (b.matrices) out << " matrices";
  out << prov_text(b.prov) << "\n";
}

class StateParser {
 public:
  StateParser(ModuleReader& in, Module& module) : in_(in), module_(module), state_(module.state) {}

  Status run() {
    if (module_.variants.empty()) return in_.fail("state is of a model, whose variant must stand before");
    state_.parameter_uses.resize(module_.graph().parameters().size());
    return in_.block([&] { return entry(); });
  }

 private:
  Status entry() {
    const Token name = in_.token();
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (name.is_word("accumulator")) return accumulator();
    if (name.is_word("bucket")) return bucket();
    if (name.is_word("gather")) return gather();
    if (name.is_word("clear")) return clear();
    if (name.is_word("owners")) return owners();
    return in_.fail(name, "expected accumulator, bucket, gather, clear, owners or '}'");
  }

  Status accumulator() {
    PIPER_RETURN_IF_ERROR(in_.numbered(state_.accumulators.size(), "accumulators"));
    Accumulator a;
    PIPER_RETURN_IF_ERROR(in_.want_word("parameter"));
    const Token at = in_.token();
    PIPER_ASSIGN(a.parameter, in_.uint32("a parameter"));
    if (a.parameter >= state_.parameter_uses.size()) return in_.fail(at, "the model has no such parameter");
    PIPER_RETURN_IF_ERROR(in_.field("chunks", a.chunks, "a chunk"));
    if (a.chunks.empty()) return in_.fail("expected a chunk");
    a.chunk = a.chunks[0];
    PIPER_RETURN_IF_ERROR(in_.field("group", a.group, "a group"));
    PIPER_RETURN_IF_ERROR(in_.want_word("bucket"));
    PIPER_ASSIGN(a.bucket, in_.id_or_none<BucketId>("a bucket"));
    PIPER_RETURN_IF_ERROR(in_.field("offset", a.offset));
    PIPER_RETURN_IF_ERROR(in_.field("bytes", a.bytes));
    a.use = static_cast<uint32_t>(state_.parameter_uses[a.parameter].size());
    state_.parameter_uses[a.parameter].push_back(AccumulatorId(state_.accumulators.size()));
    state_.accumulators.push_back(std::move(a));
    return {};
  }

  Status bucket() {
    PIPER_RETURN_IF_ERROR(in_.numbered(state_.buckets.size(), "buckets"));
    Bucket b;
    PIPER_ASSIGN(b.name, in_.string());
    PIPER_RETURN_IF_ERROR(in_.field("group", b.group, "a group"));
    PIPER_RETURN_IF_ERROR(in_.field("teams", b.teams, "teams"));
    PIPER_RETURN_IF_ERROR(in_.field("of", b.team_size));
    PIPER_ASSIGN(const bool again, in_.takes("across"));
    if (again) {
      PIPER_ASSIGN(b.across, in_.id_or_none<TeamsId>("teams"));
    }
    PIPER_RETURN_IF_ERROR(in_.field("accumulators", b.accumulators, "an accumulator"));
    PIPER_RETURN_IF_ERROR(in_.field("bytes", b.bytes));
    PIPER_RETURN_IF_ERROR(in_.field("moments", b.moments, kKeptWords));
    PIPER_RETURN_IF_ERROR(in_.field("gradients", b.gradients, kKeptWords));
    PIPER_RETURN_IF_ERROR(in_.field("parameters", b.parameters, kKeptWords));
    PIPER_RETURN_IF_ERROR(in_.field("residency", b.residency, kResidencyWords));
    PIPER_RETURN_IF_ERROR(in_.field("prefetch", b.prefetch, "a number of computes"));
    PIPER_RETURN_IF_ERROR(in_.field("stream", b.stream, "a stream"));
    PIPER_RETURN_IF_ERROR(in_.field("gather", b.gather_stream, "a stream"));
    PIPER_ASSIGN(const bool typed, in_.takes("dtype"));
    if (typed) {
      PIPER_ASSIGN(b.dtype, in_.dtype());
    }
    PIPER_ASSIGN(const bool copied, in_.takes("working"));
    if (copied) {
      PIPER_ASSIGN(b.working, in_.dtype());
    }
    PIPER_ASSIGN(b.matrices, in_.takes("matrices"));
    PIPER_ASSIGN(b.prov, in_.by());
    state_.buckets.push_back(std::move(b));
    return {};
  }

  // Which gather a reader has its parameters of a bucket from.
  Status gather() {
    BucketId bucket;
    NodeId reader;
    PIPER_RETURN_IF_ERROR(in_.field("bucket", bucket, "a bucket"));
    PIPER_RETURN_IF_ERROR(in_.field("reader", reader, "a node"));
    PIPER_RETURN_IF_ERROR(in_.want_word("from"));
    const Token at = in_.token();
    PIPER_ASSIGN(const NodeId node, in_.id<NodeId>("a node"));
    if (!state_.gathers.emplace(std::pair(bucket, reader), node).second)
      return in_.fail(at, "the reader has its parameters already");
    return {};
  }

  Status clear() {
    Clear clear;
    NodeId before;
    PIPER_RETURN_IF_ERROR(in_.field("bucket", clear.bucket, "a bucket"));
    PIPER_RETURN_IF_ERROR(in_.field("microbatch", clear.microbatch, "a microbatch"));
    PIPER_RETURN_IF_ERROR(in_.field("before", before, "a node"));
    state_.clears[before].push_back(clear);
    return {};
  }

  Status owners() {
    const auto rank = [&]() -> Result<int32_t> {
      PIPER_ASSIGN(const int64_t rank, in_.integer_in(-1, INT32_MAX, "a rank"));
      return static_cast<int32_t>(rank);
    };
    PIPER_RETURN_IF_ERROR(in_.want_word("parameters"));
    PIPER_ASSIGN(state_.parameter_owner, in_.repeated<int32_t>(rank));
    PIPER_RETURN_IF_ERROR(in_.want_word("buffers"));
    PIPER_ASSIGN(state_.buffer_owner, in_.repeated<int32_t>(rank));
    std::vector<uint32_t> unread;
    PIPER_RETURN_IF_ERROR(in_.field("unread", unread, "a parameter"));
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

Status parse_state_section(ModuleReader& in, Module& module) { return StateParser(in, module).run(); }

}  // namespace piper::ir
