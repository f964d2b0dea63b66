#include "schemas/plan/chunk_names.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace piper::plan {
namespace {

constexpr std::string_view kGradient = "grad ", kLocalBatch = ".b", kMicrobatch = " m", kRecomputing = "-recomputing";

std::optional<int64_t> number(std::string_view digits) {
  int64_t value = 0;
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// "PP0.EP1.B" -> "PP0.EP1" and "B".
std::optional<std::pair<std::string, std::string>> chunk_and_pass(std::string_view text) {
  const size_t point = text.rfind('.');
  if (point == std::string_view::npos || point == 0 || !is_pass_word(text.substr(point + 1))) return std::nullopt;
  return std::pair{std::string(text.substr(0, point)), std::string(text.substr(point + 1))};
}

}  // namespace

bool is_pass_word(std::string_view word) {
  for (const std::string_view known : {"C", "N", "F", "B", "BI", "BW"})
    if (word == known) return true;
  return false;
}

std::string program_name(const ChunkProgram& program) {
  return program.chunk + "." + program.pass + std::string(program.recomputing ? kRecomputing : "") +
         std::string(kLocalBatch) + std::to_string(program.local_batch);
}

std::optional<ChunkProgram> chunk_program(std::string_view name) {
  const size_t end = name.rfind(kLocalBatch);
  if (end == std::string_view::npos) return std::nullopt;
  const auto samples = number(name.substr(end + kLocalBatch.size()));
  name = name.substr(0, end);
  const bool recomputing =
      name.size() > kRecomputing.size() && name.substr(name.size() - kRecomputing.size()) == kRecomputing;
  if (recomputing) name.remove_suffix(kRecomputing.size());
  const auto parts = chunk_and_pass(name);
  if (!parts || !samples) return std::nullopt;
  return ChunkProgram{parts->first, parts->second, *samples, recomputing};
}

std::string run_name(const ChunkRun& run) {
  std::string name = run.chunk + "." + run.pass;
  if (run.microbatch) name += std::string(kMicrobatch) + std::to_string(*run.microbatch);
  return name;
}

std::optional<ChunkRun> chunk_run(std::string_view name) {
  ChunkRun run;
  if (const size_t end = name.rfind(kMicrobatch); end != std::string_view::npos) {
    run.microbatch = number(name.substr(end + kMicrobatch.size()));
    if (run.microbatch) name = name.substr(0, end);
  }
  const auto parts = chunk_and_pass(name);
  if (!parts) return std::nullopt;
  run.chunk = parts->first;
  run.pass = parts->second;
  return run;
}

std::vector<TagValue> tags_of_chunk(std::string_view chunk) {
  std::vector<TagValue> tags;
  chunk = chunk.substr(0, chunk.find('/'));
  for (size_t begin = 0; begin < chunk.size();) {
    const size_t end = std::min(chunk.find('.', begin), chunk.size());
    size_t digits = end;
    while (digits > begin && chunk[digits - 1] >= '0' && chunk[digits - 1] <= '9') --digits;
    if (digits > begin && digits < end)
      tags.push_back(
          {std::string(chunk.substr(begin, digits - begin)), std::string(chunk.substr(digits, end - digits))});
    begin = end + 1;
  }
  return tags;
}

std::string gradient_slot_name(std::string_view tensor) { return std::string(kGradient) + std::string(tensor); }

std::optional<std::string_view> tensor_of_gradient_slot(std::string_view slot) {
  if (slot.substr(0, kGradient.size()) != kGradient) return std::nullopt;
  return slot.substr(kGradient.size());
}

std::string term_slot_name(size_t term, size_t terms) { return terms == 1 ? "loss" : "loss " + std::to_string(term); }
std::string count_slot_name(size_t term, size_t terms) { return term_slot_name(term, terms) + " count"; }

}  // namespace piper::plan
