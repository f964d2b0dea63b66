#include "runtime/program/inputs.h"

#include <algorithm>
#include <cstdio>

#include "runtime/data/data_digest.h"
#include "runtime/hal/gpu_environment.h"
#include "runtime/program/banner.h"
#include "runtime/program/draw_weights.h"
#include "schemas/plan/communicator_uses.h"
#include "schemas/verify/verify.h"

namespace piper::program {
namespace {

// Whether a step of every rank here, and of its evaluation, is a single graph where it is one at all.
bool one_graph(const plan::Bundle& bundle) {
  const auto counts = [](const plan::Bundle& part) {
    return std::any_of(part.ranks.begin(), part.ranks.end(), &plan::counts_rows);
  };
  return !counts(bundle) && std::none_of(bundle.evaluation.begin(), bundle.evaluation.end(), counts);
}

// Whether the process of these ranks does what is done once for all.
bool of_all_ranks(const std::vector<int32_t>& ranks) {
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), 0) != ranks.end();
}

void tell_missing(const std::string& load, const checkpoint::WeightSource& weights) {
  if (weights.missing().empty()) return;
  std::string names;
  for (const std::string& name : weights.missing()) names += (names.empty() ? "" : ", ") + name;
  std::fprintf(stderr, "piper-run: note: %zu tensors that '%s' lacks begin as in the model that was compiled: %s\n",
               weights.missing().size(), load.c_str(), names.c_str());
}

void keep_ranks(plan::Bundle& bundle, const std::vector<int32_t>& ranks) {
  std::erase_if(bundle.ranks, [&](const plan::RankPlan& plan) {
    return std::find(ranks.begin(), ranks.end(), plan.rank) == ranks.end();
  });
  bundle.ranks.shrink_to_fit();
}

// `ranks` of the bundle are read. With rank 0 among them the whole bundle is read and proved, once for all processes:
// that they run the same bundle is checked by its digest. What is not asked for is then dropped.
Result<plan::Bundle> read_plans(const plan::OpenBundle& opened, const std::vector<int32_t>& ranks) {
  const bool proves = of_all_ranks(ranks);
  PIPER_ASSIGN(auto bundle, plan::read_bundle(opened, proves ? std::vector<int32_t>{} : ranks));
  if (!proves) return bundle;
  if (auto proof = verify::verify(bundle); !proof.ok()) return proof.take_status();
  if (ranks.empty()) return bundle;
  keep_ranks(bundle, ranks);
  for (plan::Bundle& evaluation : bundle.evaluation) keep_ranks(evaluation, ranks);
  return bundle;
}

// What the run begins with. A checkpoint has all weights: a run that continues from one needs no other file, which may
// be gone by then. `speaks`: this process says so.
Result<checkpoint::WeightSource> open_weights(const Flags& flags, const std::string& bundle,
                                              const plan::Manifest& manifest, bool resumes, bool speaks) {
  auto weights = checkpoint::WeightSource::open(bundle, flags.load, manifest, {flags.adapters, flags.missing});
  if (weights.ok() || !resumes || (flags.load.empty() && flags.adapters.empty())) return weights;
  if (speaks)
    std::fprintf(stderr, "piper-run: note: the run continues from a checkpoint without files of weights: %s\n",
                 weights.error().message.c_str());
  return checkpoint::WeightSource::open(bundle, "", manifest);
}

// What checkpoints say of the run; R0703 where the one that it goes on from says something else.
Status check_identity(const Flags& flags, const data::DataOptions& data, const Inputs& inputs, bool speaks,
                      exec::Session& session) {
  PIPER_ASSIGN(const std::string digest, data::data_digest(data));
  const bool shuffled = inputs.data->sampling() == data::Sampling::kShuffled;
  session.identity = {
      session.bundle_digest, data.seed, {digest, inputs.data->num_samples(), shuffled ? "shuffled" : "sequential"}};
  session.storage = inputs.start.storage.get();
  session.checkpoint_folder = flags.checkpoints;
  session.writer = inputs.start.writer;
  if (!inputs.start.from) return {};
  if (const int64_t step = session.resume->manifest().step; step > session.options.steps)
    return Status::failure("R0703", "the checkpoint is of step " + std::to_string(step) +
                                        ", and this run ends with step " + std::to_string(session.options.steps) +
                                        ": ask for more --steps, or for an earlier one with --resume=exact:STEP");
  const checkpoint::DataIdentity& before = session.resume->manifest().data;
  if (before == session.identity.data) return {};
  const auto text = [](const checkpoint::DataIdentity& d) {
    return std::to_string(d.samples) + " samples, " + d.sampling + ", SHA-256 " + d.sha256.substr(0, 12);
  };
  if (flags.new_data) {
    if (speaks)
      std::fprintf(stderr, "piper-run: note: the run continues with new data: %s; the checkpoint's were %s\n",
                   text(session.identity.data).c_str(), text(before).c_str());
    return {};
  }
  return Status::failure("R0703", "the checkpoint is of another training: its data set has " + text(before) +
                                      "; this run's has " + text(session.identity.data) +
                                      "; --new-data keeps weights and moments and continues with these");
}

// Except for the seed, which a checkpoint may give.
data::DataOptions data_options(const Flags& flags, const plan::RunDefaults& run) {
  data::DataOptions data;
  data.path = flags.data;
  if (flags.data.empty() && run.data.size() == 1 && run.data[0].weight == 0) {
    data.path = run.data[0].path;
    data.at = run.data[0].at;
  } else if (flags.data.empty()) {
    data.mix = run.data;
  }
  data.token_dtype = flags.token_dtype;
  data.document_end = run.document_end;
  const std::string& sampling = flags.sampling.empty() ? run.sampling : flags.sampling;
  if (!sampling.empty())
    data.sampling = sampling == "shuffled" ? data::Sampling::kShuffled : data::Sampling::kSequential;
  return data;
}

// What is evaluated on what, where anything is: the strategy says so, flags win. `compares`: with other processes.
Status read_evaluation(const Flags& flags, bool compares, Inputs& inputs, exec::Session& session) {
  const plan::Manifest& manifest = inputs.bundle.manifest;
  const bool asked =
      flags.eval_only || flags.eval_every || flags.eval_batches || !flags.eval_data.empty() || !flags.save_best.empty();
  if (!manifest.eval && asked)
    return Status::failure("R0212", "the plan has no evaluation: compile it with `eval` in the strategy");
  const std::string& path = flags.eval_data.empty() && manifest.eval ? manifest.eval->data : flags.eval_data;
  if (path.empty() && asked) return Status::failure("R0212", "there are no data to evaluate on: give --eval-data");
  if (path.empty()) {
    inputs.bundle.evaluation.clear();
    return {};
  }
  data::DataOptions data;
  data.path = path;
  data.token_dtype = flags.token_dtype;
  data.document_end = manifest.run.document_end;
  data.sampling = data::Sampling::kSequential;
  PIPER_ASSIGN(inputs.eval_data, data::DataSource::open(data, inputs.bundle.evaluation.at(0).manifest));
  if (compares || !flags.save_best.empty()) {
    PIPER_ASSIGN(session.evaluation.data_digest, data::quick_data_digest(data));
  }
  const int64_t samples = inputs.eval_data->num_samples(), whole = samples / manifest.batch;
  const int64_t batches = flags.eval_batches.value_or(manifest.eval->batches);
  if (whole == 0 || batches > whole)
    return Status::failure("R0211", "an evaluation takes " + std::to_string(std::max<int64_t>(batches, 1)) +
                                        " batches of " + std::to_string(manifest.batch) + " samples, and '" + path +
                                        "' has " + std::to_string(samples) + " samples");
  session.evaluation.data = inputs.eval_data.get();
  session.evaluation.every = flags.eval_every.value_or(manifest.eval->every);
  session.evaluation.batches = batches > 0 ? batches : whole;
  session.evaluation.alone = flags.eval_only;
  session.evaluation.perplexity = manifest.eval->perplexity;
  session.evaluation.save_best = flags.save_best;
  return {};
}

}  // namespace

Status choose_start(const Flags& flags, hal::ControlChannel* control, const hal::WaitControl& wait, Inputs& inputs) {
  if (flags.checkpoints.empty()) return {};
  checkpoint::StartOptions options{flags.checkpoints, flags.resume, flags.exact, flags.keep};
  PIPER_ASSIGN(inputs.start, checkpoint::choose_start(options, control, wait, [](const std::string& damaged) {
                 std::fprintf(stderr, "piper-run: warning[R0705]: a checkpoint is passed over: %s\n", damaged.c_str());
               }));
  return {};
}

Status read_inputs(const Flags& flags, const plan::OpenBundle& opened, const std::vector<int32_t>& ranks,
                   Inputs& inputs, exec::Session& session) {
  PIPER_ASSIGN(inputs.bundle, read_plans(opened, ranks));
  if (flags.device == "cuda") hal::set_nccl_graph_mixing(one_graph(inputs.bundle));
  session.directory = opened.directory;
  session.bundle_digest = opened.digest;
  const plan::Manifest& manifest = inputs.bundle.manifest;
  const bool speaks = of_all_ranks(ranks);
  PIPER_ASSIGN(inputs.weights, open_weights(flags, opened.directory, manifest, inputs.start.from.has_value(), speaks));
  if (speaks && !inputs.start.from) tell_missing(flags.load, *inputs.weights);

  const bool compares = !ranks.empty();
  PIPER_RETURN_IF_ERROR(read_evaluation(flags, compares, inputs, session));
  data::DataOptions data = data_options(flags, manifest.run);
  // Without training, its data are nobody's.
  if (flags.eval_only) {
    data.path = flags.eval_data.empty() ? manifest.eval->data : flags.eval_data;
    data.at.clear();
    data.mix.clear();
  }
  data.seed = flags.seed.value_or(manifest.run.seed);
  if (inputs.start.from) {
    const uint64_t before = inputs.start.from->manifest().seed;
    if (flags.seed && *flags.seed != before && !flags.eval_only)
      return Status::failure("R0703", "the checkpoint is of another training: its seed is " + std::to_string(before));
    data.seed = before;
  }
  PIPER_ASSIGN(inputs.data, data::DataSource::open(data, manifest));
  if (!flags.init.empty()) {
    inputs.weights->replace(draw_weights(manifest, parse_init(flags.init).value_or(0), data.seed));
  }

  if (compares) {
    PIPER_ASSIGN(session.data_digest, data::quick_data_digest(data));
    // What is loaded means nothing to a run that continues from a checkpoint.
    if (!inputs.start.from) session.weights_digest = inputs.weights->quick_digest();
  }

  exec::SessionOptions& options = session.options;
  options.seed = data.seed;
  options.steps =
      flags.steps.value_or(manifest.run.steps > 0 ? manifest.run.steps : inputs.data->steps_per_epoch(manifest.batch));
  session.bundle = &inputs.bundle;
  session.weights = &*inputs.weights;
  session.data = inputs.data.get();
  if (inputs.start.from) session.resume = &*inputs.start.from;
  if (flags.eval_only) {
    options.steps = session.resume == nullptr ? 0 : session.resume->manifest().step;
  } else if (!flags.checkpoints.empty()) {
    PIPER_RETURN_IF_ERROR(check_identity(flags, data, inputs, speaks, session));
  }
  if (ranks.empty() || std::find(ranks.begin(), ranks.end(), 0) != ranks.end())
    for (const std::string& line : banner(flags, inputs, session))
      std::fprintf(stderr, "piper-run: %s\n", line.c_str());
  return {};
}

}  // namespace piper::program
