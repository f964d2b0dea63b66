// `piper-plan bisect A B`: the first value, in the order in which data flow, that two runs do not have in common. Runs
// of one bundle are compared place by place. Those of two bundles of a model are compared by names: a value is that of
// an operator, pass and samples, whoever computed it; where they cut the batch in other pieces, what the pieces add up
// to is compared.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <tuple>

#include "schemas/digest/digest_file.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {
namespace {

using digest::Statistic;
using digest::ValueName;
using digest::ValueRecord;

// Roundings that are independent of each other add up as the square root of their number (Higham and Mary 2019, "A new
// approach to probabilistic rounding error analysis"): sums of n elements may differ by sqrt(n) times what one may.
bool alike(const Statistic& a, const Statistic& b, double elements, double tolerance) {
  if (a.digest == b.digest) return true;
  if (tolerance == 0 || a.not_finite != b.not_finite) return false;
  const double one = tolerance * std::max(a.largest, b.largest);
  return std::abs(a.largest - b.largest) <= one && std::abs(a.sum - b.sum) <= one * std::sqrt(std::max(elements, 1.0));
}

double elements(const ValueName& name) {
  double count = 1;
  for (const int64_t extent : name.shape) count *= static_cast<double>(extent);
  return count;
}

std::string words(const Statistic& s) {
  char text[160];
  std::snprintf(text, sizeof text, "digest %s, sum %.9g, largest magnitude %.9g", digest::digest_text(s.digest).c_str(),
                s.sum, s.largest);
  return text + (s.not_finite > 0 ? ", " + std::to_string(s.not_finite) + " not finite" : std::string());
}

std::string shape_text(const ValueName& name) {
  std::string text = std::string(dtype_name(name.dtype)) + "[";
  for (size_t i = 0; i < name.shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(name.shape[i]);
  return text + "]";
}

// On which rank, in which call, for which samples.
std::string place(const ValueName& name) {
  std::string text = "rank " + std::to_string(name.rank) + ", instruction " + std::to_string(name.instruction);
  if (name.call >= 0) text += ", call " + std::to_string(name.call) + ", output " + std::to_string(name.output);
  if (!name.chunk.empty()) text += ", " + name.chunk + "." + name.pass;
  if (name.samples > 0)
    text += " on samples " + std::to_string(name.first_sample) + " to " +
            std::to_string(name.first_sample + name.samples - 1);
  if (!name.at.empty()) text += " (" + name.at + ")";
  return text;
}

std::string operator_text(const ValueName& name) {
  return name.kernel + " of " + name.value + (name.line.empty() ? "" : " at " + name.line);
}

struct Comparison {
  int64_t equal = 0, different = 0, left_out = 0;
  std::string first;  // what the first difference is; "" without one

  void differs(int64_t step, const ValueRecord& a, const ValueRecord& b, const Statistic& in_a, const Statistic& in_b,
               const std::string& note) {
    if (different++ > 0) return;
    first = "step " + std::to_string(step) + ": " + operator_text(a.name) + ", " + shape_text(a.name) + note + "\n";
    first += "  A: " + words(in_a) + "; " + place(a.name) + "\n";
    first += "  B: " + words(in_b) + "; " + place(b.name) + "\n";
  }
};

// For two runs of one bundle.
void compare_places(const std::vector<ValueRecord>& a, const std::vector<ValueRecord>& b, double tolerance,
                    Comparison& result) {
  const auto key = [](const ValueRecord& r) {
    return std::tuple(r.step, r.name.rank, r.name.instruction, r.name.call, r.name.output);
  };
  std::map<decltype(key(a[0])), const ValueRecord*> in_b;
  for (const ValueRecord& record : b) in_b.emplace(key(record), &record);
  for (const ValueRecord& record : a) {
    const auto found = in_b.find(key(record));
    if (found == in_b.end()) {
      ++result.left_out;
      continue;
    }
    const ValueRecord& other = *found->second;
    if (alike(record.statistic, other.statistic, elements(record.name), tolerance)) ++result.equal;
    else result.differs(record.step, record, other, record.statistic, other.statistic, "");
    in_b.erase(found);
  }
  result.left_out += static_cast<int64_t>(in_b.size());
}

// What a value is in every strategy. B, BI and BW are parts of one backward.
using Name = std::tuple<int64_t, std::string, std::string, int32_t, int32_t, char>;
Name name_of(const ValueRecord& record) {
  const ValueName& n = record.name;
  return {record.step, n.value, n.kernel, n.nth, n.output, n.pass.empty() ? ' ' : n.pass[0]};
}

// The pieces of a value, by first sample. `twice`: two of them are of the same samples, and nothing distinguishes
// them.
struct Pieces {
  std::map<int64_t, const ValueRecord*> by_sample;
  bool twice = false;

  bool same_cut(const Pieces& other) const {
    return std::equal(by_sample.begin(), by_sample.end(), other.by_sample.begin(), other.by_sample.end(),
                      [](const auto& x, const auto& y) {
                        return x.first == y.first && x.second->name.samples == y.second->name.samples;
                      });
  }
  // From the first sample of the batch to the last.
  bool whole(int64_t batch) const {
    int64_t at = 0;
    for (const auto& [first, record] : by_sample) {
      if (first != at) return false;
      at += record->name.samples;
    }
    return at == batch;
  }
  Statistic total() const {
    Statistic sum;
    for (const auto& [first, record] : by_sample) {
      sum.sum += record->statistic.sum;
      sum.largest = std::max(sum.largest, record->statistic.largest);
      sum.not_finite += record->statistic.not_finite;
    }
    return sum;
  }
};

// A running sum depends on the order of microbatches, buckets and messages on the strategy, and where a value has
// several readers, on it depends which two of their gradients are added first: what is made of the whole sum is
// compared.
bool has_a_name(const ValueRecord& record) {
  const ValueName& name = record.name;
  const bool adds_gradients = name.kernel == "add" && !name.pass.empty() && name.pass[0] == 'B';
  return name.call >= 0 && name.first_sample >= 0 && !name.sums && !adds_gradients;
}

std::map<Name, Pieces> by_name(const std::vector<ValueRecord>& records) {
  std::map<Name, Pieces> named;
  for (const ValueRecord& record : records) {
    if (!has_a_name(record)) continue;
    Pieces& pieces = named[name_of(record)];
    pieces.twice = !pieces.by_sample.emplace(record.name.first_sample, &record).second || pieces.twice;
  }
  return named;
}

// Whether what is added over the pieces of a batch is the same thing: elements of samples, not one result a piece.
bool adds_up(const Pieces& a, const Pieces& b) {
  double in_a = 0, in_b = 0;
  for (const auto& [first, record] : a.by_sample) in_a += elements(record->name);
  for (const auto& [first, record] : b.by_sample) in_b += elements(record->name);
  return in_a == in_b;
}

// For runs of two bundles.
void compare_names(const digest::DigestFile& a, const digest::DigestFile& b, double tolerance, Comparison& result) {
  const std::map<Name, Pieces> in_a = by_name(a.values), in_b = by_name(b.values);
  for (const ValueRecord& record : a.values) {
    if (!has_a_name(record)) continue;
    const Pieces& mine = in_a.at(name_of(record));
    const auto found = in_b.find(name_of(record));
    if (found == in_b.end() || mine.twice || found->second.twice) {
      ++result.left_out;
      continue;
    }
    const Pieces& theirs = found->second;
    if (mine.same_cut(theirs)) {
      const ValueRecord& other = *theirs.by_sample.at(record.name.first_sample);
      if (other.name.shape != record.name.shape || other.name.dtype != record.name.dtype) ++result.left_out;
      else if (alike(record.statistic, other.statistic, elements(record.name), tolerance)) ++result.equal;
      else result.differs(record.step, record, other, record.statistic, other.statistic, "");
      continue;
    }
    if (mine.by_sample.begin()->second != &record) continue;  // once for all pieces
    if (tolerance == 0 || !mine.whole(a.header.batch) || !theirs.whole(b.header.batch) || !adds_up(mine, theirs)) {
      ++result.left_out;
      continue;
    }
    Statistic sum = mine.total(), other = theirs.total();
    other.digest = sum.digest + 1;  // digests do not add up
    if (alike(sum, other, elements(record.name) * static_cast<double>(mine.by_sample.size()), tolerance))
      ++result.equal;
    else
      result.differs(record.step, record, *theirs.by_sample.begin()->second, sum, other,
                     ", all samples of the step together");
  }
}

// A file, or the files of a folder, in the order of their names: steps of one run, or of runs of one bundle.
Result<digest::DigestFile> read_digests(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return digest::read_digest_file(path);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) files.push_back(entry.path().string());
  if (error || files.empty()) return Status::failure("R0812", "the folder '" + path + "' has no file of digests");
  std::sort(files.begin(), files.end());
  digest::DigestFile all;
  for (const std::string& file : files) {
    PIPER_ASSIGN(digest::DigestFile one, digest::read_digest_file(file));
    if (file == files.front()) all.header = one.header;
    if (one.header.plan != all.header.plan)
      return Status::failure("R0813", "'" + file + "' is of another bundle than '" + files.front() + "'");
    all.values.insert(all.values.end(), std::make_move_iterator(one.values.begin()),
                      std::make_move_iterator(one.values.end()));
  }
  return all;
}

}  // namespace

Result<Difference> bisect(const std::string& a, const std::string& b, double tolerance) {
  PIPER_ASSIGN(const digest::DigestFile in_a, read_digests(a));
  PIPER_ASSIGN(const digest::DigestFile in_b, read_digests(b));
  const bool one_bundle = in_a.header.plan == in_b.header.plan;
  Comparison result;
  if (one_bundle) compare_places(in_a.values, in_b.values, tolerance, result);
  else if (in_a.header.batch != in_b.header.batch)
    return Status::failure("R0813", "a step of '" + a + "' has " + std::to_string(in_a.header.batch) +
                                        " samples, one of '" + b + "' has " + std::to_string(in_b.header.batch));
  else compare_names(in_a, in_b, tolerance, result);
  if (result.equal + result.different == 0)
    return Status::failure("R0813", "'" + a + "' and '" + b + "' have no value in common");
  std::string text = result.different > 0 ? "the first difference is in " + result.first : "no difference\n";
  text += std::to_string(result.equal) + " values are equal, " + std::to_string(result.different) + " differ, " +
          std::to_string(result.left_out) + " are not compared" +
          (one_bundle ? "\n" : " (two bundles: by operator, pass and samples)\n");
  return Difference{std::move(text), result.different > 0};
}

}  // namespace piper::tools
