// SHA-256 of a model file together with the names and sizes of the files its weights are in.
#pragma once

#include <string>
#include <vector>

namespace piper::frontend {

// 64 hexadecimal digits; "" where the file cannot be read.
std::string file_digest(const std::string& path, const std::vector<std::string>& external);

}  // namespace piper::frontend
