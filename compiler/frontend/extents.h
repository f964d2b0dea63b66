// The extents of a value as the importers of both routes read them. An axis that the value lacks makes the call or node
// a misfit, whatever the file says of it: it is never a read past the end of memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace piper::frontend {

// Thrown where a call reads what its operands do not have; import_calls and import_nodes catch it and say P0306.
class Misfit {
 public:
  explicit Misfit(std::string what) : what_(std::move(what)) {}
  const std::string& what() const { return what_; }

 private:
  std::string what_;
};

// A number that was computed from a file's, without its fraction.
inline int64_t whole_number(double number) {
  constexpr double kMost = 0x1p61;
  if (!(number >= -kMost && number <= kMost)) throw Misfit("its numbers are out of all proportion");
  return static_cast<int64_t>(number);
}

class Extents : public std::vector<int64_t> {
 public:
  using std::vector<int64_t>::vector;
  Extents(std::vector<int64_t> extents) : std::vector<int64_t>(std::move(extents)) {}  // NOLINT: it is one

  int64_t operator[](size_t axis) const {
    check(axis);
    return std::vector<int64_t>::operator[](axis);
  }
  int64_t& operator[](size_t axis) {
    check(axis);
    return std::vector<int64_t>::operator[](axis);
  }
  int64_t back() const { return (*this)[size() - 1]; }
  int64_t& back() { return (*this)[size() - 1]; }
  int64_t front() const { return (*this)[0]; }

 private:
  void check(size_t axis) const {
    if (axis >= size()) throw Misfit("it is not made for an operand of " + std::to_string(size()) + " axes");
  }
};

}  // namespace piper::frontend
