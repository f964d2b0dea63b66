// How values of an expert part look on a rank that holds some of the experts: which factor of which axis is the experts
// (it shrinks from E to E/D), and where the tokens of the D members of the group lie beside each other (a factor D is
// put there). One transfer rule per operator family says how marks pass through an op. Used by find_expert_parts alone;
// it edits nothing.
//
// Axes are merged and split by reshape, so a mark is a factor of an axis: extent = outer x E x inner for experts;
// extent = outer x rest for tokens, and on the rank outer x D x rest, the sources in position order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace piper::experts {

struct ExpertFactor {
  int64_t axis = -1, outer = 1, inner = 1;
  bool present() const { return axis >= 0; }
  friend auto operator<=>(const ExpertFactor&, const ExpertFactor&) = default;
};
struct TokenCut {
  int64_t axis = -1, outer = 1, rest = 1;
  bool present() const { return axis >= 0; }
  friend auto operator<=>(const TokenCut&, const TokenCut&) = default;
};
struct ExpertMark {
  ExpertFactor expert;  // absent: rows in the order of experts, see find_grouped_parts.h
  TokenCut token;       // absent: the same for all sources (made of weights alone)
  friend auto operator<=>(const ExpertMark&, const ExpertMark&) = default;
};

// The shape on a rank: the experts' axis divided by `devices`, the tokens' axis multiplied.
std::vector<int64_t> local_shape(std::vector<int64_t> shape, const ExpertMark& mark, int64_t devices);
// The mark after the same elements, row-major, take another shape; nullopt where a factor would be torn apart.
std::optional<ExpertMark> reshaped(const ExpertMark& mark, int64_t experts, const std::vector<int64_t>& from,
                                   const std::vector<int64_t>& to);

// What an op wants of an operand that no expert made.
struct OperandWish {
  ExpertMark mark;             // it is exchanged so that it looks like this
  std::vector<int64_t> shape;  // after being broadcast, where that is needed first; else its own
};
struct ExpertTransfer {
  enum class Kind : uint8_t {
    kStops,    // the op cannot work on a part of the experts or on the tokens of several sources
    kFollows,  // results have `results`
    kSums,     // contracts the experts: each rank makes its experts' share of the one result
  };
  Kind kind = Kind::kStops;
  std::vector<ExpertMark> results;                 // [result]; of kSums without an expert factor
  std::vector<std::optional<OperandWish>> wishes;  // [operand]; nullopt: it is read as it is
};
struct ExpertRules {
  const ir::Graph& graph;
  int64_t experts;                        // E
  const std::vector<bool>& same_for_all;  // [value] depends on no input: the same on every rank
};
// marks[i]: of operand i where experts made it, else nullptr. At least one is not null.
ExpertTransfer transfer(const ExpertRules& rules, const ir::Op& op, const std::vector<const ExpertMark*>& marks);

}  // namespace piper::experts
