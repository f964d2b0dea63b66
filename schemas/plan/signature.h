// Signatures of kernels: how many operands a call has, which may be absent, their element types and how their shapes
// belong together, as kernels.def says it. The one source for the emitter (which operands there are), the verifier and
// the runtime (whether a call fits).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/plan/kernels.h"

namespace piper::plan {

struct OperandSignature {
  struct Axis {
    char name = 0;            // 0: any extents
    bool many = false;        // any number of axes
    bool broadcasts = false;  // to the axes of that name
    int64_t extent = -1;      // a fixed one
  };
  std::string_view name;
  std::string_view type;  // of an element; T, U: a variable; F, G, H: a variable for a floating type
  std::vector<Axis> axes;
  bool optional = false;
  bool repeated = false;  // it stands for any number of operands
  bool in_place = false;  // read and written
  bool by_name = false;   // what is written under its name is read under its name
  bool work = false;      // memory that the call works in, which nobody reads
};
struct Signature {
  std::vector<OperandSignature> inputs, outputs;
  bool reads_outputs = false;  // some output is read, too
};

// For a row of kKernels; parsed once.
const Signature& signature_of(const KernelInfo& kernel);

// What of the call's operands does not fit the kernel: their number, one that is absent, an element type, a shape; or
// "". Strides and attributes are not looked at.
std::string misfit(const KernelInfo& kernel, const KernelCall& call);

}  // namespace piper::plan
