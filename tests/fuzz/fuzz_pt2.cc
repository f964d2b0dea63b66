// Fuzzes the reader of a `.pt2` archive's program and of its tables of tensors, and the rewriting of
// calls in place: whatever the text is, each ends with a result or an error with a code. The zip
// around them is covered by tests/unit/pt2_test.cc: a fuzzer does not get past its CRCs.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "compiler/frontend/aten/functionalise.h"
#include "compiler/frontend/pt2/payloads.h"
#include "compiler/frontend/pt2/read_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace piper;
  using frontend::aten::Origin;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto payloads = frontend::pt2::read_payload_config(text);
  PIPER_CHECK(payloads.ok() || !payloads.error().code.empty(), "an error without a code");
  auto exported = frontend::pt2::read_program(text, {});
  if (!exported.ok()) {
    PIPER_CHECK(!exported.error().code.empty(), "an error without a code");
    return 0;
  }
  std::map<std::string, Origin> origins;
  for (const auto& p : exported->placeholders)
    origins[p.name] = p.kind == frontend::pt2::Placeholder::Kind::kUserInput ? Origin::kInput : Origin::kParameter;
  const Status status = frontend::aten::functionalise(exported->program, origins);
  PIPER_CHECK(status.ok() || !status.error().code.empty(), "an error without a code");
  return 0;
}
