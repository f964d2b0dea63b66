// What a kernel found wrong in its data: an index that is none, experts that are asked for too much. A kernel on a GPU
// can throw nothing; it stays within its operands (what it cannot use counts as absent), and writes the first of these
// into one record in device memory. The host reads the record after a step (CudaLibrary::read_fault); a run ends with
// the first one, so that nobody has to clear it.
//
// The first call that claims the record keeps it, so that what a wrong result leads to later does not hide its cause.
// Of several wrong elements of one call any may be the one that is reported.
#pragma once

#include <cstdint>

namespace piper::kernels::cuda {

enum class FaultKind : int32_t {
  kNone = 0,
  kExpert,    // row, the expert it asks for, how many experts there are
  kCapacity,  // rows over the capacity, of how many, the capacity, the fullest expert, rows it is asked for
  kIndex,     // row, its index, of how many
  kTableRow,  // element, its index, rows of the table
  kTarget,    // row, its target, how many classes there are
  kNoClass,   // element, its target
  kGroup,     // expert, its rows, rows that are left
};

struct Fault {
  uint32_t call = 0;  // from 1, in the order in which calls were bound; 0: nothing is wrong
  FaultKind kind = FaultKind::kNone;
  int64_t numbers[5] = {};  // as the kind says
};

// Handed to the kernels of one call.
struct FaultPlace {
  Fault* record = nullptr;  // device memory
  uint32_t call = 0;
};

}  // namespace piper::kernels::cuda
