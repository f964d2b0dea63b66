#include "schemas/forms/attends.h"

#include <algorithm>

#include "schemas/forms/form_program.h"
#include "schemas/forms/form_text.h"

namespace piper::form {
namespace {

using Kind = FormNode::Kind;

std::vector<NamedAxis> axes_of(int64_t queries, int64_t keys) { return {{"q", queries}, {"k", keys}}; }

// Whether every read is of a vector that there is, at a place that it has.
bool reads_within(const Form& x, int64_t vectors, int64_t places) {
  if (x->kind == Kind::kRead && (x->number >= vectors || x->operands[0]->least < 0 || x->operands[0]->most >= places))
    return false;
  const auto within = [&](const Form& part) { return reads_within(part, vectors, places); };
  return std::all_of(x->operands.begin(), x->operands.end(), within) &&
         std::all_of(x->terms.begin(), x->terms.end(), [&](const FormNode::Term& term) { return within(term.form); });
}

// The parts that are all true where it attends.
std::vector<Form> parts_of(const Form& where) {
  if (where->kind == Kind::kAll) return where->operands;
  return {where};
}

Band widest(const Attends& a) { return {1 - a.queries, a.keys - 1}; }
// What a part says of the band, if it says that alone: number + sign * (key - query) >= 0.
bool narrow(Band& band, const Form& part) {
  if (part->kind != Kind::kNotNegative) return false;
  const Form& x = part->operands[0];
  if (x->kind != Kind::kSum || x->terms.size() != 2) return false;
  const auto &first = x->terms[0], &second = x->terms[1];
  if (first.form->kind != Kind::kAxis || second.form->kind != Kind::kAxis || first.factor != -second.factor)
    return false;
  const int64_t of_key = first.form->number == 1 ? first.factor : second.factor;
  if (of_key == -1) band.high = std::min(band.high, x->number);
  else if (of_key == 1) band.low = std::max(band.low, -x->number);
  else return false;
  return true;
}

Bounds in_block(const Attends& a, int64_t first_query, int64_t last_query, int64_t first_key, int64_t last_key) {
  return bounds(a.where, {{first_query, last_query - 1}, {first_key, last_key - 1}});
}

}  // namespace

std::string attends_text(const Form& where, int64_t queries, int64_t keys) {
  return to_text(where, axes_of(queries, keys));
}

Result<Attends> parse_attends(std::string_view text, int64_t queries, int64_t keys, int64_t vectors, int64_t places) {
  PIPER_ASSIGN(const Form where, parse(text, axes_of(queries, keys)));
  const auto fail = [&](const char* why) { return Status::failure("", "'" + std::string(text) + "' " + why); };
  if (!where->is_predicate()) return fail("is no predicate");
  if (!reads_within(where, vectors, places)) return fail("reads past its vectors");
  if (!program_of(where)) return fail("has too many parts");
  return Attends{where, queries, keys, vectors, places};
}

KeyRange keys_of(const Attends& a, int64_t first_query, int64_t last_query) {
  constexpr int64_t kBlock = 32;
  KeyRange range{a.keys, 0};
  for (int64_t key = 0; key < a.keys; key += kBlock) {
    const int64_t end = std::min(key + kBlock, a.keys);
    if (in_block(a, first_query, last_query, key, end).most == 0) continue;
    range.first = std::min(range.first, key);
    range.last = end;
  }
  if (range.first >= range.last) range = {0, 0};
  return range;
}

Band band_of(const Attends& a) {
  Band band = widest(a);
  for (const Form& part : parts_of(a.where)) narrow(band, part);
  return band;
}

Form within_band(const Attends& a) {
  std::vector<Form> others;
  for (const Form& part : parts_of(a.where))
    if (Band any = widest(a); !narrow(any, part)) others.push_back(part);
  return all(std::move(others));
}

bool is_band(const Attends& a) { return within_band(a)->is_number(); }

double computed_share(const Attends& a) {
  if (a.queries == 0 || a.keys == 0) return 0;
  constexpr int64_t kBlocks = 64;
  const int64_t rows = (a.queries + kBlocks - 1) / kBlocks, columns = (a.keys + kBlocks - 1) / kBlocks;
  double computed = 0;
  for (int64_t query = 0; query < a.queries; query += rows)
    for (int64_t key = 0; key < a.keys; key += columns) {
      const int64_t last_query = std::min(query + rows, a.queries), last_key = std::min(key + columns, a.keys);
      const Bounds b = in_block(a, query, last_query, key, last_key);
      const auto pairs = static_cast<double>((last_query - query) * (last_key - key));
      computed += pairs * (b.least == 1 ? 1 : b.most == 1 ? 0.5 : 0);
    }
  return computed / (static_cast<double>(a.queries) * static_cast<double>(a.keys));
}

}  // namespace piper::form
