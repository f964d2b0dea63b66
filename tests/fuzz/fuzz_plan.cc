// The plan readers on any bytes: they refuse or accept, never crash; what they accept prints again to a text that reads
// back the same, and takes the place of its like in a bundle, which is read and proved. The first byte chooses the
// file's kind.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/provenance_text.h"
#include "schemas/verify/numbers/equality.h"
#include "schemas/verify/numbers/reference.h"
#include "schemas/verify/verify.h"
#include "tests/unit/hand_written_plans.h"
#include "tests/unit/plan_bundle_example.h"
#include "tests/unit/temp_folder.h"
#include "tools/mutate/subject.h"

namespace {

using namespace piper;
using namespace piper::plan;

void require(bool condition) {
  if (!condition) std::abort();
}

const Bundle& example_bundle() {
  static const Bundle bundle = [] {
    Bundle made = example::two_ranks();
    // In place: where its own part lies depends on a rank's position.
    example::append(made.ranks[0], 3, ReduceScatter{{4, 0}, {}, 16, DType::kF32, 0, Reduction::kSum});
    return made;
  }();
  return bundle;
}

void fuzz_rank(std::string_view text) {
  const auto& bundle = example_bundle();
  const PlanOfRank first = [&](int32_t) -> Result<OtherPlan> { return OtherPlan{&bundle.ranks[0]}; };
  const auto plan = parse_rank_plan(text, "f", bundle.provenance, bundle.programs, first);
  if (!plan.ok()) return;
  const auto printed = print_rank_plan(*plan, bundle.provenance, bundle.programs);
  const auto again = parse_rank_plan(printed, "f", bundle.provenance, bundle.programs);
  require(again.ok() && print_rank_plan(*again, bundle.provenance, bundle.programs) == printed);
  Bundle changed = bundle;
  if (plan->rank >= 2) return;
  changed.ranks[static_cast<size_t>(plan->rank)] = *plan;
  (void)verify::verify(changed).ok();
}

// A sound bundle.
const Bundle& proved_bundle() {
  static const Bundle bundle = [] {
    Bundle made = hand_written::replicas();
    for (size_t r = 0; r < made.ranks.size(); ++r) made.manifest.ranks[r].arena_bytes = made.ranks[r].arena_bytes;
    return made;
  }();
  return bundle;
}

// It with another text in the place of one of its own; digests follow.
void prove_with(const std::string& path, std::string_view text) {
  static const TempFolder folder;
  static mutate::Subject subject = [] {
    Bundle bundle = proved_bundle();
    require(write_bundle(folder / "plans", bundle, {}, {}, WeightMode::kNone).ok());
    auto opened = mutate::Subject::open("example", folder / "plans", folder / "copy", mutate::Changed::kTraining);
    require(opened.ok());
    return std::move(*opened);
  }();
  require(subject.place({{path, std::string(text)}}).ok());
  const auto changed = read_bundle(subject.directory());
  if (changed.ok()) (void)verify::verify(*changed).ok();
}

void fuzz_program(std::string_view text) {
  static const std::vector<Chunk> chunks = {{"c0", "c0", {}}, {"all", "all", {}}};  // of the seeds
  const auto program = parse_program(text, "f", chunks);
  if (!program.ok()) return;
  const auto printed = print_program(*program, chunks);
  const auto again = parse_program(printed, "f", chunks);
  require(again.ok() && print_program(*again, chunks) == printed);
  const auto& programs = proved_bundle().programs;
  for (size_t p = 0; p < programs.size(); ++p)
    if (programs[p].name == program->name) prove_with(program_files(programs)[p], printed);
}

void fuzz_manifest(std::string_view text) {
  const auto manifest = parse_manifest(text, "f");
  if (!manifest.ok()) return;
  const auto printed = print_manifest(*manifest);
  const auto again = parse_manifest(printed, "f");
  require(again.ok() && print_manifest(*again) == printed);
  prove_with(std::string(kManifestFile), printed);
}

void fuzz_reference(std::string_view text) {
  const auto reference = parse_reference(text, "f");
  if (!reference.ok()) return;
  const auto printed = print_reference(*reference);
  const auto again = parse_reference(printed, "f");
  require(again.ok() && print_reference(*again) == printed);
  Bundle changed = proved_bundle();
  changed.reference = {*reference};
  // Its programs are no chunks' and would be refused before they are compared.
  if (verify::check_reference(*reference).ok()) (void)verify::check_equality(changed).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0: fuzz_rank(text); break;
    case 1: fuzz_program(text); break;
    case 2: fuzz_manifest(text); break;
    case 3: (void)parse_provenance(text, "f").ok(); break;
    case 4: fuzz_reference(text); break;
  }
  return 0;
}
