#include "compiler/driver/compile.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <optional>
#include <ostream>
#include <sstream>

#include "compiler/directives/directive_table.h"
#include "compiler/driver/compilation.h"
#include "compiler/driver/emit_plans.h"
#include "compiler/driver/make_reference.h"
#include "compiler/driver/print_dag.h"
#include "compiler/driver/prove_wider.h"
#include "compiler/driver/reproducer.h"
#include "compiler/driver/run_pipeline.h"
#include "compiler/driver/summary.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/loader.h"
#include "schemas/base/parallel.h"
#include "schemas/verify/verify.h"

namespace piper::driver {

namespace {

// What the compilation takes from the options, and a strategy's own table, once strategy and model are there.
Status finish_loading(const CompileOptions& options, Compilation& c, diag::Diagnostics& diags) {
  if (!c.strategy.optimizer) {
    auto error = diags.error("P0238");
    error << "the strategy has no optimizer";
    error.help("add optimizer: {adamw: {lr: 3.0e-4}}, or use --set optimizer.sgd.lr=0.1");
    return error;
  }
  if (c.strategy.schedule && !c.strategy.schedule->csv.empty()) {
    const size_t slash = options.strategy.find_last_of('/');
    PIPER_ASSIGN(c.table,
                 read_schedule_table(*c.strategy.schedule,
                                     slash == std::string::npos ? "" : options.strategy.substr(0, slash), diags));
    c.strategy.schedule->microbatches = microbatches_of(*c.table);
  }
  if (options.emit == Emit::kReference) {
    leave_one_device(c.strategy);
    c.table.reset();
  }
  c.target = options.target;
  c.target.ranks_per_node = c.strategy.ranks_per_node;
  c.reference = options.reference;
  c.packs = options.packs;
  for (const strategy::StreamConfig& stream : c.strategy.streams)
    if (c.target.device == plan::DeviceKind::kCpu)
      diags.remark("resources of stream '" + stream.name + "' have no effect on CPU ranks", stream.span);
  return Status();
}

}  // namespace

Status load(const CompileOptions& options, Compilation& c, diag::Diagnostics& diags) {
  Status strategy_read, model_read;
  diag::Diagnostics of_model;
  parallel_invoke(
      [&] {
        auto model = frontend::open_model(options.model, options.route, of_model);
        if (model.ok()) c.model = std::move(model).value();
        else model_read = model.take_status();
      },
      [&] {
        auto strategy = strategy::load_strategy(options.strategy, options.overrides, directives::all_specs(), diags);
        if (strategy.ok()) c.strategy = std::move(strategy).value();
        else strategy_read = strategy.take_status();
      });
  PIPER_RETURN_IF_ERROR(std::move(strategy_read));
  diags.append(std::move(of_model));
  PIPER_RETURN_IF_ERROR(std::move(model_read));
  PIPER_RETURN_IF_ERROR(finish_loading(options, c, diags));
  c.digests = Ahead<Digests>([&c] { return Digests{c.model->sha256(), c.strategy.sha256()}; });
  if (c.reference && options.stop_after.empty()) begin_reference(c, diags);
  return Status();
}

namespace {

void print_expansion(const Compilation& c, Expand expand, std::ostream& out, diag::Diagnostics& diags) {
  if (expand == Expand::kCsv) {
    if (!c.strategy.schedule) diags.warning("P0233") << "there is no table to print: the strategy has no schedule";
    out << strategy::print_csv(c.schedule.table);
  } else if (expand == Expand::kYaml) {
    const bool none = !c.strategy.schedule && c.strategy.directives.empty();
    out << (none ? "directives: []\n" : "directives:\n");
    if (c.strategy.schedule) out << "  - {op: split, num_microbatches: " << c.module.step.num_microbatches << "}\n";
    for (const auto* list :
         {&c.strategy.directives, &c.schedule.placement, &c.schedule.replication, &c.schedule.orders})
      for (const strategy::Directive& directive : *list) out << "  - " << strategy::to_string(directive) << "\n";
  }
}

void print_asked(const Compilation& c, const CompileOptions& options, std::string_view phase, std::ostream& out,
                 diag::Diagnostics& diags) {
  if (phase == "place") print_expansion(c, options.expand, out, diags);
  if (phase == "differentiate" && options.emit == Emit::kGraph) out << ir::print(c.module.graph());
  if (phase == "order" && options.emit == Emit::kDag) print_dag(c.module, out);
  if (phase == "emit" && options.emit == Emit::kPlan) out << print_plans(c.emitted.bundle);
}

// The independent checker reads only the bundle. A bundle that it refutes is a bug of the compiler, not of the
// strategy. The manifest then says how much of it is proved to be the model.
Status verify(plan::Bundle& bundle, std::string& unproved) {
  const auto report = verify::verify(bundle);
  PIPER_CHECK(report.ok(), "the emitted plan was refuted: [", report.error().code, "] ", report.error().message);
  unproved = verify::not_proved(report->equality);
  for (const verify::EqualityReport& evaluation : report->evaluations)
    if (const std::string line = verify::not_proved(evaluation); unproved.empty() && !line.empty())
      unproved = "of the evaluation, " + line;
  bundle.manifest.proved = report->equality.proved;
  for (size_t i = 0; i < bundle.evaluation.size(); ++i)
    bundle.evaluation[i].manifest.proved = report->evaluations[i].proved;
  return Status();
}

// Weights can be left out of a bundle, and not made up.
Status check_weights(const CompileOptions& options, const emit::Emitted& emitted, diag::Diagnostics& diags) {
  if (options.output.empty() || options.weights == plan::WeightMode::kNone) return Status();
  for (const plan::WeightTensor& tensor : emitted.parameters) {
    const bool empty = std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
    if (!tensor.file.empty() || tensor.data != nullptr || empty) continue;
    auto error = diags.error("P0613");
    error << "the model was exported without weights: '" << tensor.name << "' has no values";
    error.help("add --weights none, and start with piper-run --load FILE or --init normal:0.02");
    return error;
  }
  return Status();
}

// The proof runs beside the writing where there is one.
Status verify_and_write(const CompileOptions& options, Compilation& c, AskedStep asked, const diag::Diagnostics& diags,
                        std::string& unproved) {
  emit::Emitted& emitted = c.emitted;
  const auto proof = [&] {
    PIPER_RETURN_IF_ERROR(verify(emitted.bundle, unproved));
    if (!unproved.empty() && proves_wider(c, std::move(asked), diags))
      unproved += ". With two samples in each piece, everything is proved";
    return Status();
  };
  if (options.output.empty() || options.stop_after == "verify") return proof();
  return plan::write_bundle(options.output, emitted.bundle, emitted.parameters, emitted.constants, options.weights,
                            proof);
}

template <class Work>
Status timed(const char* name, bool told, std::ostream& err, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  PIPER_RETURN_IF_ERROR(work());
  if (told)
    err << std::left << std::setw(24) << name
        << std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() << " ms\n";
  return Status();
}

#ifdef PIPER_VERIFY_EACH
constexpr bool kVerifiesAlways = true;
#else
constexpr bool kVerifiesAlways = false;
#endif

Result<Outcome> run(const CompileOptions& options, Compilation& c, diag::Diagnostics& diags, std::ostream& out,
                    std::ostream& err) {
  PIPER_RETURN_IF_ERROR(timed("load", options.time_phases, err, [&] { return load(options, c, diags); }));
  if (options.stop_after == "load") return Outcome::kMade;
  AskedStep asked{c.strategy, c.table};
  const FrameOptions frame{options.stop_after, options.print_ir_after, options.time_phases,
                           options.verify_each || kVerifiesAlways, options.fail_in};
  bool stopped = false;
  PIPER_RETURN_IF_ERROR(run_pipeline(
      c, frame, diags, err, [&](std::string_view phase) { print_asked(c, options, phase, out, diags); }, stopped));
  if (stopped) return Outcome::kMade;
  if (options.checkpoints) count_snapshots(c.emitted.bundle);
  PIPER_RETURN_IF_ERROR(check_memory(c.emitted.bundle, options.memory_limit, diags));
  PIPER_RETURN_IF_ERROR(check_weights(options, c.emitted, diags));
  const char* last = options.output.empty() ? "verify" : "write";
  std::string unproved;
  PIPER_RETURN_IF_ERROR(timed(last, options.time_phases, err,
                              [&] { return verify_and_write(options, c, std::move(asked), diags, unproved); }));
  if (c.reference && !unproved.empty())
    err << "note: " << unproved << (c.no_reference.empty() ? "" : ": " + c.no_reference) << "\n";
  const bool prints = options.emit == Emit::kGraph || options.emit == Emit::kDag || options.emit == Emit::kPlan ||
                      options.expand != Expand::kNone;
  const plan::Bundle& bundle = c.emitted.bundle;
  const bool too_large = options.machine && options.memory_limit == 0 &&
                         static_cast<double>(peak_bytes(bundle)) > options.machine->memory_bytes;
  const Outcome outcome = too_large ? Outcome::kTooLarge : Outcome::kMade;
  if (options.stop_after == "verify" || prints) return outcome;
  if (options.output.empty()) {
    out << options.strategy << ": compiles, and its plans are proved; -o DIR writes them\n";
    return outcome;
  }
  PIPER_ASSIGN(const std::string line, summary(options.output, bundle, options.machine, too_large));
  out << line;
  return outcome;
}

}  // namespace

Status compile_in_memory(const CompileOptions& options, const std::string& text, Compilation& c,
                         diag::Diagnostics& diags) {
  PIPER_ASSIGN(c.strategy,
               strategy::parse_strategy(options.strategy, text, options.overrides, directives::all_specs(), diags));
  PIPER_RETURN_IF_ERROR(finish_loading(options, c, diags));
  bool stopped = false;
  std::ostringstream unprinted;
  FrameOptions frame;
  frame.verify_each = options.verify_each || kVerifiesAlways;
  PIPER_RETURN_IF_ERROR(run_pipeline(c, frame, diags, unprinted, [](std::string_view) {}, stopped));
  if (options.checkpoints) count_snapshots(c.emitted.bundle);
  return Status();
}

void prove(plan::Bundle& bundle) {
  std::string unproved;
  (void)verify(bundle, unproved);
}

const std::vector<std::string>& stops() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = stop_names();
    all.insert(all.begin(), "load");
    all.insert(all.end(), {"verify", "write"});
    return all;
  }();
  return names;
}

Result<Outcome> compile(const CompileOptions& options, diag::Diagnostics& diags, std::ostream& out, std::ostream& err) {
  const KeptHelpers helpers(loop_threads() - 1);
  auto compilation = std::make_unique<Compilation>();
  Result<Outcome> outcome = Outcome::kMade;
  try {
    outcome = run(options, *compilation, diags, out, err);
  } catch (const PassFailure& failure) {
    compilation->settle();
    throw std::runtime_error(failure.pass() + ": " + failure.what() + "\n" + write_reproducer(options, failure.pass()));
  }
  // A thread that outlives main would run while the libraries it calls are torn down.
  compilation->settle();
  if (options.process_ends_next) {
    static auto& left = *new std::vector<std::unique_ptr<Compilation>>;  // never destroyed
    left.push_back(std::move(compilation));
  }
  return outcome;
}

}  // namespace piper::driver
