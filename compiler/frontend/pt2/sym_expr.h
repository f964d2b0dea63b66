// Symbolic extents of a `.pt2` archive: sympy's srepr, e.g.
//   Mul(Integer(24), Symbol('s72', positive=True, integer=True))
// rewritten as the expressions that Dims reads ("(24*s72)"). Used by read_program.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace piper::frontend::pt2 {

// "" where the expression holds a function that Dims does not have: such an extent is unknown.
// `names`: symbols of the file -> names that the user gave.
std::string extent_expression(std::string_view srepr, const std::map<std::string, std::string>& names);

}  // namespace piper::frontend::pt2
