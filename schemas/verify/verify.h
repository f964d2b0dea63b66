// Proves, from a bundle alone, that its plans run to the end and read what they should, or refutes
// it with a story that names ranks, instructions and directives. Used by piperc before it reports
// success, by piper-run at load and by `piper-plan verify`. Shares no code with the compiler; needs
// a bundle as read_bundle gives it (names resolved, ranges inside their buffers). Linear in the
// instructions, up to the number of streams of a rank. With only some ranks loaded, rules 1 to 4
// hold among those.
//
// Rules; a refutation cites the number:
//   1 (P0631) Messages: per directed pair of ranks and channel, the same sequence of bytes on both
//     ends, in an order that streams and events fix on each rank.
//   2 (P0631) Collectives: per communicator the same members and the same sequence of (kind, count,
//     dtype, reduction, row bytes) on every member, in a fixed order on each.
//   3 (P0632) Events: each recorded exactly once a step.
//   4 (P0632) No deadlock: with start and end nodes per instruction and the edges start -> end,
//     end(prev) -> start(next), record -> wait, start(participant) -> end(participant), no cycle:
//     with streams as declared (level D0), with all communication of a rank also chained in issue
//     order (D1), and with all instructions of a rank in issue order (D2). A refutation names the
//     lowest level that fails and tells the shortest cycle of waits.
//   5 (P0633) No data race: conflicting accesses to overlapping bytes of a rank are ordered by
//     streams and events. The step's end waits for all streams.
//   6 (P0634) Contents: what is read from a buffer, by an instruction or when the step is reported, was written through
//     that buffer and not overwritten through another since; arena bytes are written before they are read; only updates
//     write moments, runs never write parameters, nothing writes constants, inputs or scalars.
//   7 (P0635) Programs: calls access slots as the slots declare; slots that are written in a run
//     overlap no other slot and not the workspace. Inside of a program: bytes are written before they are read, as
//     elements of the same type; what leaves a program is written whole; outputs lie over inputs where kernels.def
//     says that they may (program_bytes.h).
// With all ranks loaded, contents are followed through a step (contents_flow.h says what that rests on):
//   8 (P0636) Sums: a gradient, a count of terms, the loss and the gradients' norm hold each sample, or element, of
//     every chunk that adds to them, exactly once when they are used; what is added somewhere is used; the next step
//     starts cleared.
//   9 (P0637) Meaning: a run reads the values, parameters and constants that its slots name, all for the same samples;
//     parameters and saved blocks whole, parameters as they were when the step began. What the executor writes before a
//     step lies in buffers for that, where it is read.
//  10 (P0638) Updates: every copy of a trained parameter that is read or saved is updated once, every element of
//     a tensor saved by one rank, moments are not shared, gradients are clipped where the optimizer says so. Counters
//     are counted once; wherever a tensor is kept it is the newest.
// Of a bundle with an evaluation, this is proved like any other, and
//  11 (P0639) Seams: it changes nothing that outlasts a step, and uses what the training uses: places of tensors,
//     streams, channels, communicators, the rank that reports (seams.h).
// Of a bundle with a reference:
//  12 (P0641) Equality with the model: each gradient and the loss is a sum of the values that the reference adds up,
//     and running statistics are what it leaves, as far as kernels and rewrites are covered (numbers/equality.h). The
//     report says what is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/equality.h"

namespace piper::verify {

// A part of the proof: how long it took, of the wall clock (parts that ran side by side overlap), and at how many of
// what it looked.
struct PartOfProof {
  const char* rules;
  double seconds = 0;
  int64_t looked_at = 0;
  const char* of_what;
};

// What the proof looked at, and what it found.
struct VerifyReport {
  int64_t ranks = 0, instructions = 0, messages = 0, collectives = 0, accesses = 0;
  bool complete = false;  // all ranks of the world were there
  std::string sum_order;  // sum_order.h; "" where ranks are missing
  std::vector<PartOfProof> parts;
  EqualityReport equality;
  std::vector<EqualityReport> evaluations;  // [Bundle::evaluation]
};

Result<VerifyReport> verify(const plan::Bundle& bundle);

}  // namespace piper::verify
