#include "tools/mutate/mutation.h"

namespace piper::mutate {

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = [] {
    std::vector<Mutation> joined;
    for (auto* const part : {of_lines, of_programs, of_ranks, of_several_files})
      for (const Mutation& mutation : part()) joined.push_back(mutation);
    return joined;
  }();
  return all;
}

}  // namespace piper::mutate
