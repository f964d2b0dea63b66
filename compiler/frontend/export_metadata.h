// What torch's exporter and tools/piper_export.py write into a model file beside its operators:
// the signature of the exported program, range constraints, and piper's own notes (tags, frozen
// parameters, regions without gradient, names of tied weights, what one sample does). Used when a model file is opened.
// It judges nothing; damage.h does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontend/onnx/onnx_file.h"
#include "compiler/ir/chunks.h"

namespace piper::frontend {

struct SignatureEntry {
  std::string name;         // FX placeholder or output: "p_h_0_ln1_weight"
  std::string kind;         // "PARAMETER", "BUFFER", "USER_INPUT", "BUFFER_MUTATION", ...
  std::string target;       // state-dict name: "h.0.ln1.weight"; "" for user inputs
  bool persistent = false;  // of a buffer: part of the state dict
};

struct ExportMetadata {
  bool has_signature = false;
  std::vector<SignatureEntry> inputs, outputs;
  // FX placeholder -> initializer, from the signature and from original_node_name.
  std::map<std::string, std::string> placeholders;
  int64_t declared_min_batch = 1;

  // piper's own notes.
  std::map<std::string, ir::TagSet> tags;  // by FX node
  std::set<std::string> frozen;            // parameter names
  std::set<std::string> no_grad;           // FX nodes whose results carry no gradient
  // FX node of several results -> names and places of those that are read; nullopt: a file of another exporter.
  std::optional<std::map<std::string, std::vector<std::pair<std::string, size_t>>>> results;
  std::vector<std::vector<std::string>> tied;  // groups of names of one parameter, the canonical one first
  bool same_with_one_sample = false;           // forward was traced with one sample, too, and does the same
};

ExportMetadata read_export_metadata(const onnx::OnnxFile& file);

}  // namespace piper::frontend
