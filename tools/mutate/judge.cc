#include "tools/mutate/judge.h"

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/safetensors.h"
#include "schemas/verify/verify.h"

namespace piper::mutate {
namespace {

namespace fs = std::filesystem;
using namespace plan;

// Sums in another order: what three steps of a tiny model make of it.
constexpr double kRounding = 1e-4;
constexpr int64_t kSamples = 48;
constexpr size_t kTokens = 19;  // of the models in tests/models

// Samples for every input of the bundle, whatever they mean.
Status write_data(const Bundle& bundle, const std::string& path) {
  Random random(1);
  std::vector<TensorToWrite> tensors;
  std::vector<std::string> bytes(bundle.manifest.inputs.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const InputDecl& input = bundle.manifest.inputs[i];
    TensorToWrite tensor{input.name, input.dtype, input.sample_shape, {}, 0};
    if (input.batched) tensor.shape.insert(tensor.shape.begin(), kSamples);
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    for (int64_t k = 0; k < count; ++k) {
      const auto put = [&](auto value) { bytes[i].append(reinterpret_cast<const char*>(&value), sizeof(value)); };
      if (input.dtype == DType::kI64) put(static_cast<int64_t>(random.below(kTokens)));
      else if (input.dtype == DType::kF32) put(static_cast<float>(random.below(2001)) / 1000 - 1);
      else return Status::failure("", "no samples of type " + std::string(dtype_name(input.dtype)));
    }
    tensor.bytes = static_cast<int64_t>(bytes[i].size());
    tensor.produce = [&text = bytes[i]](const auto& write) {
      return write(text.data(), static_cast<int64_t>(text.size()));
    };
    tensors.push_back(std::move(tensor));
  }
  return write_safetensors(path, tensors);
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Result<Numbers> read_numbers(const std::string& log, const std::string& weights) {
  Numbers numbers;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("step")) continue;
    if (entry.contains("eval_loss")) {
      numbers.evaluated.push_back(entry["eval_loss"].is_number() ? entry["eval_loss"].get<double>() : std::nan(""));
      continue;
    }
    const auto number = [&](const char* key) {
      return entry.contains(key) && entry[key].is_number() ? entry[key].get<double>() : std::nan("");
    };
    numbers.losses.push_back(number("loss"));
    numbers.grad_norms.push_back(number("grad_norm"));
  }
  PIPER_ASSIGN(const auto file, SafetensorsFile::open(weights));
  for (const auto& [name, tensor] : file.tensors()) {
    numbers.weights[name].assign(reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes));
    if (tensor.dtype != DType::kF32) continue;
    auto& values = numbers.values[name];
    values.resize(static_cast<size_t>(tensor.bytes) / sizeof(float));
    std::memcpy(values.data(), tensor.data, static_cast<size_t>(tensor.bytes));
  }
  return numbers;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool close(double a, double b) { return same(a, b) || std::fabs(a - b) <= kRounding * (1 + std::fabs(b)); }

// What differs, or "".
std::string difference(const Numbers& expected, const Numbers& found, bool rounding) {
  const auto equal = [&](double a, double b) { return rounding ? close(a, b) : same(a, b); };
  if (expected.losses.size() != found.losses.size()) return "another number of steps";
  for (size_t i = 0; i < found.losses.size(); ++i) {
    const std::string step = " of step " + std::to_string(i + 1) + ": ";
    if (!equal(found.losses[i], expected.losses[i]))
      return "the loss" + step + std::to_string(found.losses[i]) + ", not " + std::to_string(expected.losses[i]);
    if (!equal(found.grad_norms[i], expected.grad_norms[i])) return "the gradients' norm" + step + "another";
  }
  // Orders of sums are known of the training alone.
  if (!std::equal(expected.evaluated.begin(), expected.evaluated.end(), found.evaluated.begin(), found.evaluated.end(),
                  close))
    return "what it evaluates";
  if (expected.weights.size() != found.weights.size()) return "other tensors are saved";
  for (const auto& [name, bytes] : expected.weights) {
    const auto other = found.weights.find(name);
    if (other == found.weights.end()) return name + " is not saved";
    if (other->second == bytes) continue;
    const auto a = expected.values.find(name), b = found.values.find(name);
    bool near =
        rounding && a != expected.values.end() && b != found.values.end() && a->second.size() == b->second.size();
    for (size_t i = 0; near && i < a->second.size(); ++i)
      near = close(static_cast<double>(a->second[i]), static_cast<double>(b->second[i]));
    if (!near) return "the weights of " + name;
  }
  return "";
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame: return "same text";
    case Verdict::kRefused: return "refused";
    case Verdict::kAtLoad: return "at load";
    case Verdict::kHarmless: return "harmless";
    case Verdict::kWrong: return "WRONG";
  }
  return "";
}

Result<Judge> Judge::make(const Subject& subject, const Trainer& trainer, const Options& options) {
  Judge judge;
  judge.trainer_ = &trainer;
  judge.options_ = options;
  judge.beside_ = subject.directory() + ".";
  PIPER_RETURN_IF_ERROR(write_data(subject.whole(), judge.beside_ + "data.safetensors"));
  PIPER_ASSIGN(Ran ran, judge.run(subject));
  if (ran.end != End::kDone) return Status::failure("", subject.name() + " does not train: " + ran.said);
  judge.expected_ = std::move(ran.numbers);
  PIPER_ASSIGN(const auto proved, verify::verify(subject.whole()));
  if (!(subject.changed() == Changed::kTraining ? proved.equality : proved.evaluations.front()).whole())
    return Status::failure("", subject.name() + " is not proved as a whole: a change of what is not would be accepted");
  judge.sum_order_ = proved.sum_order;
  return judge;
}

Result<Judge::Ran> Judge::run(const Subject& subject) const {
  const std::string log = beside_ + "log.jsonl", weights = beside_ + "weights.safetensors", said = beside_ + "said";
  std::error_code ignored;
  fs::remove(log, ignored);
  fs::remove(weights, ignored);
  const std::string data = beside_ + "data.safetensors";
  std::vector<std::string> arguments{subject.directory(),
                                     "--data",
                                     data,
                                     "--steps",
                                     std::to_string(options_.steps),
                                     "--threads",
                                     "1",
                                     "--comm",
                                     "local",
                                     "--log",
                                     log,
                                     "--save",
                                     weights,
                                     "--timeout",
                                     "10"};
  if (subject.whole().manifest.eval) arguments.insert(arguments.end(), {"--eval-data", data});
  PIPER_ASSIGN(const int status, trainer_->run(arguments, said, options_.timeout_s));
  Ran ran;
  ran.said = slurp(said);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    PIPER_ASSIGN(ran.numbers, read_numbers(log, weights));
    return ran;
  }
  // A step that was done is one line of the log.
  const bool error = WIFEXITED(status) && WEXITSTATUS(status) < 64;
  ran.end = error && slurp(log).find("\"step\"") == std::string::npos ? End::kRefused : End::kFailed;
  return ran;
}

Result<Judgement> Judge::judge(Subject& subject, const Draft& draft, bool reorders_sums) {
  const Texts texts = draft.texts.empty() ? print_texts(draft.bundle) : draft.texts;
  std::string changes;
  for (const auto& [path, text] : texts)
    if (const auto own = subject.texts().find(path); own == subject.texts().end() || own->second != text)
      changes.append(path).append(1, '\0').append(text).append(1, '\0');
  if (changes.empty() && texts.size() == subject.texts().size()) return Judgement{Verdict::kSame, ""};
  changes.append(reorders_sums ? "reordered" : "");
  const auto [known, is_new] = known_.try_emplace(sha256(changes));
  if (is_new) {
    PIPER_ASSIGN(known->second, judge_texts(subject, texts, reorders_sums));
  }
  return known->second;
}

Result<Judgement> Judge::judge_texts(Subject& subject, const Texts& texts, bool reorders_sums) const {
  PIPER_RETURN_IF_ERROR(subject.place(texts));
  const auto read = read_bundle(subject.directory());
  if (!read.ok()) return Judgement{Verdict::kRefused, read.error().code + " " + read.error().message};
  const auto proved = verify::verify(*read);
  if (!proved.ok()) return Judgement{Verdict::kRefused, proved.error().code + " " + proved.error().message};
  const bool rounds = reorders_sums || proved->sum_order != sum_order_;
  for (int turn = 0; turn < options_.turns; ++turn) {
    PIPER_ASSIGN(const Ran ran, run(subject));
    if (ran.end == End::kRefused) return Judgement{Verdict::kAtLoad, ran.said};
    std::string wrong = ran.end == End::kFailed ? ran.said : difference(expected_, ran.numbers, rounds);
    if (ran.end == End::kFailed && wrong.empty()) wrong = "it crashes, or never ends";
    if (!wrong.empty()) return Judgement{Verdict::kWrong, wrong};
  }
  return Judgement{Verdict::kHarmless, ""};
}

}  // namespace piper::mutate
