// How the readers of an archive's JSON take an integer.
// Used by payloads.cc and read_program.cc.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace piper::frontend::pt2 {

// Throws Json::exception where `x` is no integer. get<int64_t>() would convert any number: of 1e100 that is undefined.
inline int64_t integer(const nlohmann::json& x) { return x.get_ref<const nlohmann::json::number_integer_t&>(); }

}  // namespace piper::frontend::pt2
