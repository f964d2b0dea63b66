// Where a query attends to a key, as plans say it: a predicate over their places (form_text.h), of axes `q` and `k`,
// which may read vectors of the sample: `q - k >= 0` is causal attention, `q - k >= 0 & r0[k] - r0[q] = 0` that of
// documents packed into a sample. It is the attribute `attends` of attention, whose operand `mask` then holds the
// vectors, i64 [batch or 1, 1, vectors, places].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/base/status.h"
#include "schemas/forms/form.h"

namespace piper::form {

struct Attends {
  Form where;  // axis 0 the query, axis 1 the key; null: everywhere
  int64_t queries = 0, keys = 0;
  int64_t vectors = 0;  // that it may read: 0 to vectors - 1
  int64_t places = 0;   // of each vector
};

std::string attends_text(const Form& where, int64_t queries, int64_t keys);
// Fails, without a code, where the text is no predicate, has no program (form_program.h), or may read past a vector.
Result<Attends> parse_attends(std::string_view text, int64_t queries, int64_t keys, int64_t vectors, int64_t places);

// Keys, [first, last) of them, to which queries may attend at all.
struct KeyRange {
  int64_t first = 0, last = 0;
};
// The keys of queries first to last - 1; narrow, not always the narrowest. Empty: first = last.
KeyRange keys_of(const Attends& attends, int64_t first_query, int64_t last_query);

// low <= key - query <= high wherever it attends; the widest where nothing says more.
struct Band {
  int64_t low = 0, high = 0;
};
Band band_of(const Attends& attends);
// What it says beyond its band; the number 1: nothing.
Form within_band(const Attends& attends);
bool is_band(const Attends& attends);

// The part of all pairs that kernels compute, 0 to 1: blocks that it leaves out count nothing, blocks that it cuts
// half.
double computed_share(const Attends& attends);

}  // namespace piper::form
