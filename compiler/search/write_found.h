// The folder of a search: the best strategies, the table of them, why their neighbours lose, and the page of the
// trade-off. It compiles nothing itself.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/search/neighbours.h"
#include "compiler/search/search.h"

namespace piper::search {

struct Tuned {
  std::string name, said;  // the file, in the folder, and what tuning printed; "": it is not tuned
};
struct Writers {
  // The text of a strategy, `head` being the comment before it.
  std::function<std::string(const Point&, const std::string& head)> text_of;
  // Compiles a text and proves the plans. A refutation throws.
  std::function<Status(const std::string& text)> prove;
  // Tunes what was written as `path`, the strategy of this place (from 0), where it is to be tuned.
  std::function<Result<Tuned>(size_t place, const Found& one, const std::string& path)> tune;
};

// Proves the best strategies one after another. What an earlier search wrote into the folder goes when the first one is
// proved; from then on the folder has those that were proved so far and the table of them, whatever ends this: a proof
// that fails, or a signal. Prints the table, or JSON. A refuted plan throws after this, and the message says which
// files there are.
Status write_found(const SearchOptions& options, const Searched& found, const std::vector<Neighbour>& neighbours,
                   const Writers& writers, std::ostream& out);

}  // namespace piper::search
