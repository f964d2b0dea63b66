// Initial values for the parameters of a bundle that has none: `piper-run --init normal:0.02`. For trying a model out
// and for measurements; a training that is meant to reach something starts from the model's own initialisation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::program {

// The standard deviation of "normal:0.02"; nothing where the text is no such rule or the number is not finite and >= 0.
std::optional<double> parse_init(std::string_view text);

// Elements of one tensor, in its own type: normal with mean 0 and this deviation, drawn for (seed, name, position) and
// nothing else, so that shards, replicas and ranks of any layout have the values of one device. Pairs by Box and Muller
// ("A note on the generation of random normal deviates", 1958) from Philox. The type is f32, bf16 or f16.
std::vector<std::byte> draw_tensor(const plan::TensorInfo& tensor, double deviation, uint64_t seed);

// The manifest's tensors of these types, by their first names. The whole model is held in memory.
std::map<std::string, std::vector<std::byte>> draw_weights(const plan::Manifest& manifest, double deviation,
                                                           uint64_t seed);

}  // namespace piper::program
