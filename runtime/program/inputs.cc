#include "runtime/program/inputs.h"

#include <algorithm>
#include <cstdio>

#include "runtime/data/data_digest.h"
#include "schemas/verify/verify.h"

namespace piper::program {
namespace {

// `ranks` of the bundle are read. With rank 0 among them the whole bundle is read and proved, once for all processes:
// that they run the same bundle is checked by its digest. What is not asked for is then dropped.
Result<plan::Bundle> read_plans(const plan::OpenBundle& opened, const std::vector<int32_t>& ranks) {
  const bool proves = ranks.empty() || std::find(ranks.begin(), ranks.end(), 0) != ranks.end();
  PIPER_ASSIGN(auto bundle, plan::read_bundle(opened, proves ? std::vector<int32_t>{} : ranks));
  if (!proves) return bundle;
  if (auto proof = verify::verify(bundle); !proof.ok()) return proof.take_status();
  if (!ranks.empty()) {
    auto& plans = bundle.ranks;
    plans.erase(std::remove_if(plans.begin(), plans.end(),
                               [&](const plan::RankPlan& plan) {
                                 return std::find(ranks.begin(), ranks.end(), plan.rank) == ranks.end();
                               }),
                plans.end());
    plans.shrink_to_fit();
  }
  return bundle;
}

// What checkpoints say of the run; R0703 where the one that it goes on from says something else.
Status check_identity(const data::DataOptions& data, const Inputs& inputs, exec::Session& session) {
  PIPER_ASSIGN(const std::string digest, data::data_digest(data));
  const bool shuffled = inputs.data->sampling() == data::Sampling::kShuffled;
  session.identity = {
      session.bundle_digest, data.seed, {digest, inputs.data->num_samples(), shuffled ? "shuffled" : "sequential"}};
  session.storage = inputs.start.storage.get();
  session.writer = inputs.start.writer;
  if (!inputs.start.from) return {};
  session.resume = &*inputs.start.from;
  if (const int64_t step = session.resume->manifest().step; step > session.options.steps)
    return Status::failure("R0703", "the checkpoint is of step " + std::to_string(step) +
                                        ", and this run ends with step " + std::to_string(session.options.steps) +
                                        ": ask for more --steps, or for an earlier one with --resume=exact:STEP");
  const checkpoint::DataIdentity& before = session.resume->manifest().data;
  if (before == session.identity.data) return {};
  const auto text = [](const checkpoint::DataIdentity& d) {
    return std::to_string(d.samples) + " samples, " + d.sampling + ", SHA-256 " + d.sha256.substr(0, 12);
  };
  return Status::failure("R0703", "the checkpoint is of another training: its data set has " + text(before) +
                                      "; this run's has " + text(session.identity.data));
}

// But for the seed, which a checkpoint may say.
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
  session.bundle_digest = opened.digest;
  const plan::Manifest& manifest = inputs.bundle.manifest;
  PIPER_ASSIGN(inputs.weights, checkpoint::WeightSource::open(opened.directory, flags.load, manifest));

  data::DataOptions data = data_options(flags, manifest.run);
  data.seed = flags.seed.value_or(manifest.run.seed);
  if (inputs.start.from) {
    const uint64_t before = inputs.start.from->manifest().seed;
    if (flags.seed && *flags.seed != before)
      return Status::failure("R0703", "the checkpoint is of another training: its seed is " + std::to_string(before));
    data.seed = before;
  }
  PIPER_ASSIGN(inputs.data, data::DataSource::open(data, manifest));

  exec::SessionOptions& options = session.options;
  options.seed = data.seed;
  options.steps =
      flags.steps.value_or(manifest.run.steps > 0 ? manifest.run.steps : inputs.data->steps_per_epoch(manifest.batch));
  session.bundle = &inputs.bundle;
  session.weights = &*inputs.weights;
  session.data = inputs.data.get();
  return flags.checkpoints.empty() ? Status() : check_identity(data, inputs, session);
}

}  // namespace piper::program
