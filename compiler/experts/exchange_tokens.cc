#include "compiler/experts/exchange_tokens.h"

#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::experts {
namespace {

using ir::Shape;
using ir::ValueId;

// A factor of an axis. Every axis is split so far that the D of the experts and the D of the sources stand alone.
enum class Atom : uint8_t { kPlain, kOwners, kSources };
struct Atoms {
  std::vector<Atom> kinds;
  Shape extents;
  void add(Atom kind, int64_t extent) {
    if (kind == Atom::kPlain && extent == 1) return;
    kinds.push_back(kind);
    extents.push_back(extent);
  }
};

// owners: the axis of experts holds all of them, D x E/D, else only E/D. sources: D is before the tokens.
Atoms split(const Shape& shape, const ExpertMark& mark, int64_t experts, int64_t devices, bool owners, bool sources) {
  Atoms atoms;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool has_experts = mark.expert.axis == static_cast<int64_t>(d),
               has_tokens = mark.token.axis == static_cast<int64_t>(d);
    const auto put_sources = [&] {
      if (sources) atoms.add(Atom::kSources, devices);
    };
    const auto put_experts = [&](int64_t outer, int64_t inner) {
      atoms.add(Atom::kPlain, outer);
      if (owners) atoms.add(Atom::kOwners, devices);
      atoms.add(Atom::kPlain, experts / devices * inner);
    };
    const int64_t inner = mark.expert.inner, rest = mark.token.rest;
    if (!has_experts && !has_tokens) {
      atoms.add(Atom::kPlain, shape[d]);
    } else if (!has_tokens) {
      put_experts(mark.expert.outer, inner);
    } else if (!has_experts) {
      atoms.add(Atom::kPlain, mark.token.outer);
      put_sources();
      atoms.add(Atom::kPlain, rest);
    } else if (rest >= inner * experts) {  // tokens outside of the experts
      PIPER_CHECK(rest % (inner * experts) == 0, "tokens and experts cut each other");
      atoms.add(Atom::kPlain, mark.token.outer);
      put_sources();
      put_experts(rest / (inner * experts), inner);
    } else {
      PIPER_CHECK(inner % rest == 0, "tokens and experts cut each other");
      put_experts(mark.expert.outer, inner / rest);
      put_sources();
      atoms.add(Atom::kPlain, rest);
    }
  }
  return atoms;
}

size_t position(const Atoms& atoms, Atom kind) {
  size_t at = 0;
  while (at < atoms.kinds.size() && atoms.kinds[at] != kind) ++at;
  return at;
}

ValueId to_front(ir::GraphBuilder& b, ValueId v, const Atoms& atoms, Atom kind) {
  const size_t at = position(atoms, kind);
  std::vector<int64_t> dims{static_cast<int64_t>(at)};
  for (size_t d = 0; d < atoms.kinds.size(); ++d)
    if (d != at) dims.push_back(static_cast<int64_t>(d));
  return b.permute(b.reshape(v, atoms.extents), dims);
}

ValueId from_front(ir::GraphBuilder& b, ValueId v, const Atoms& atoms, Atom kind) {
  const size_t at = position(atoms, kind);
  Shape front{atoms.extents[at]};
  std::vector<int64_t> dims;
  for (size_t d = 0; d < atoms.kinds.size(); ++d) {
    if (d != at) front.push_back(atoms.extents[d]);
    dims.push_back(d < at ? static_cast<int64_t>(d) + 1 : d == at ? 0 : static_cast<int64_t>(d));
  }
  return b.permute(b.reshape(v, front), dims);
}

Shape behind(int64_t devices, Shape shape) {
  shape.insert(shape.begin(), devices);
  return shape;
}

}  // namespace

ValueId TokenExchange::parts_by_expert(ValueId v, const ExpertMark& mark) {
  const Shape shape = b_.type(v).shape;
  if (!mark.expert.present()) return b_.expand(b_.unsqueeze(v, 0), behind(devices_, shape));
  const Atoms atoms = split(shape, mark, experts_, devices_, true, false);
  return b_.reshape(to_front(b_, v, atoms, Atom::kOwners),
                    behind(devices_, local_shape(shape, {mark.expert, {}}, devices_)));
}

ValueId TokenExchange::join_tokens(ValueId received, const ExpertMark& mark, const Shape& shape) {
  const Atoms atoms = split(shape, mark, experts_, devices_, false, true);
  return b_.reshape(from_front(b_, received, atoms, Atom::kSources), local_shape(shape, mark, devices_));
}

ValueId TokenExchange::parts_by_source(ValueId local, const ExpertMark& mark, const Shape& shape) {
  const Atoms atoms = split(shape, mark, experts_, devices_, false, true);
  return b_.reshape(to_front(b_, local, atoms, Atom::kSources),
                    behind(devices_, local_shape(shape, {mark.expert, {}}, devices_)));
}

ValueId TokenExchange::join_experts(ValueId received, const ExpertMark& mark, const Shape& shape) {
  const Atoms atoms = split(shape, {mark.expert, {}}, experts_, devices_, true, false);
  return b_.reshape(from_front(b_, received, atoms, Atom::kOwners), shape);
}

}  // namespace piper::experts
