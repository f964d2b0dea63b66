// Rule on numbers: a copy is what it was made of. Right because a copy's element is an element of its operand: reading
// the copy by one index map is reading the operand by both. So a program may make a value dense before it is sent, or
// read the strides at once.
#pragma once

#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// Makes a view of copies one of what was copied, as far as index maps can be put together.
void through_copies(View& view, const NumberTable& table);

// A view as a value of its own: what it is of, where it is all of that, else a copy.
int32_t copy_of(View view, NumberTable& table);

}  // namespace piper::verify
