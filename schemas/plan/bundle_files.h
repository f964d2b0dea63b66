// Names of the files of a bundle: what the writer makes and the reader looks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::plan {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kProvenanceFile = "provenance.json";
inline constexpr std::string_view kReferenceFile = "reference.json";
inline constexpr std::string_view kUncastFile = "reference.uncast.json";
inline constexpr std::string_view kProgramFolder = "programs/";
inline constexpr std::string_view kRankFolder = "ranks/";
inline constexpr std::string_view kWeightFolder = "weights/";
inline constexpr std::string_view kModelWeights = "weights/model.safetensors";
inline constexpr std::string_view kConstantWeights = "weights/constants.safetensors";

// A bundle of its own, with neither weights nor constants.
inline constexpr std::string_view kEvaluationFolder = "eval/";
inline constexpr std::string_view kEvaluationManifest = "eval/manifest.json";

// "ranks/rank-00003.json".
std::string rank_file(int32_t rank);
// One per program, in order: the name with unsafe characters replaced; names that then fall
// together are numbered in the order of the names, so that the result does not depend on `programs`.
std::vector<std::string> program_files(const std::vector<Program>& programs);

}  // namespace piper::plan
