// The expectations that a golden file has as comments: what its passes are, which text their
// output holds, which errors they give. Read by piper-opt; it runs nothing itself.
//
//   // RUN-PASSES: fold,normalise_losses        passes in order; none: parse, verify, print. Of a file that holds a
//                                              module: passes of the pipeline (piper-opt --list-passes)
//   // strategy: LINE, // model: PATH            what passes of the pipeline read beside the module (reproducer.h)
//                                              errors about a line of the strategy are at that line of the file
//   // PARAMS: local_batch=4, pieces=2          integers, and per_microbatch=GLOB|GLOB
//   # COMPILE: ../../models/tiny_gpt.onnx       of a strategy file: compile that model, by a path from the golden
//   file's folder;
//                                              PARAMS: expand=yaml|csv, emit=dag|plan, stop=PHASE; remarks follow what
//                                              is printed
//   # SET: KEY=VALUE                           piperc's --set, one a line
//   // CHECK: text                              a line of the output holds text, after the last CHECK's line; where
//                                              errors are expected, the output ends with them as piperc shows them
//   // CHECK-NOT: text                          no line up to the next CHECK (or the end) holds it
//   // expect-error@+1 P0402: {{text}}          an error of this code, one line below; without @+N anywhere
// `#` instead of `//` in strategy files. In a CHECK, [[NAME]] stands for one value name: its first
// use binds it, later uses must be the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "schemas/base/status.h"

namespace piper::opt {

struct Check {
  bool absent = false;  // CHECK-NOT
  std::string text;
  uint32_t line = 0;  // of the comment
};
struct ExpectedError {
  uint32_t line = 0;  // 0 = anywhere
  std::string code, text;
};
struct GoldenFile {
  std::string folder;   // where the file is, with a slash at its end
  std::string fail_in;  // of the command line: a pass that fails as if it had a bug
  std::vector<std::string> passes;
  std::map<std::string, std::string> params;
  std::string model;  // "": the strategy file is only loaded
  std::vector<std::string> overrides;
  std::vector<Check> checks;
  std::vector<ExpectedError> errors;
};

Result<GoldenFile> read_golden(const std::string& text);
// The first CHECK that the output breaks, as text for the user; "" where all hold.
std::string broken_check(const GoldenFile& golden, const std::string& output);
// What is wrong with the errors that were given: one missing, one too many; "" where they match.
std::string broken_errors(const GoldenFile& golden, const std::vector<diag::Diagnostic>& given);

}  // namespace piper::opt
