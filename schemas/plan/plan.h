// The plan bundle in memory: what `piperc` emits and `piper-run` executes. Plain data; the reader,
// the writer and the checks of a damaged bundle are beside it. One Bundle = the manifest, the
// chunk programs, one RankPlan per rank. Formats on disk: schemas/README.md.
//
// Names are for people, and tell things apart: nothing is read from their letters. What a program is of, what a slot
// holds of the model or of the step, and which microbatch arguments are for, is in fields.
//
// A program is a flat list of kernel calls on operands; an operand is a slot (bound per run to a
// range of a rank's buffer) or the workspace, plus byte offset, dtype, shape and strides. A rank
// plan is ONE list of instructions in issue order, each naming its stream; the list of a stream is
// the subsequence of its instructions. (One list shows the order that the proofs are about, and
// diffs better than one list per stream.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/base/ids.h"
#include "schemas/base/shared_vector.h"
#include "schemas/plan/argument_lists.h"
#include "schemas/plan/called_kernel.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/model_buffer.h"

namespace piper::plan {

inline constexpr int kFormatVersion = 15;

// ------------------------------------------------------------------ programs
struct Operand {
  static constexpr int32_t kWorkspace = -1;
  static constexpr int32_t kAbsent = -2;  // an optional operand that is not there
  int32_t slot = kAbsent;                 // index into Program::slots, or one of the above
  int64_t offset = 0;                     // bytes from the start of the slot or workspace
  DType dtype = DType::kF32;
  std::vector<int64_t> shape, strides;  // strides in elements; 0 for a broadcast axis
};

using AttrValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>>;
struct Attr {
  std::string name;
  AttrValue value;
};

struct KernelCall {
  CalledKernel kernel;
  bool accumulate = false;       // out += result instead of out = result (kernels.def says who can)
  std::vector<Operand> outputs;  // an absent output is not computed (kernels.def says who can)
  std::vector<Operand> inputs;
  std::vector<Attr> attrs;  // in the kernel's fixed order
  std::string origin;       // key into Provenance: module path or node; for error messages
};

enum class SlotRole : uint8_t {
  kInput,      // read: model inputs, activations and gradients that arrive
  kOutput,     // written: activations and gradients that leave
  kSaved,      // written by the forward, read by the backward
  kParameter,  // read
  kGradient,   // read and added to
  kState,      // read and written: running statistics
  kConstant,   // read
  kScalar,     // step-wide values (seed_step, sample_offset, 1/count): read, except what advances one
  kMoment,     // read and written: moments of the optimizer
};
// A number of the step in a slot of a chunk's program.
enum class StepNumber : uint8_t {
  kNone,
  kLoss,          // added up; of an evaluation a term of the loss
  kCount,         // of an evaluation, added up: what a term of the loss is divided by
  kDropped,       // added up: rows that experts dropped
  kSeedStep,      // read
  kSampleOffset,  // read: the number that the first sample has in the step
  kPlace,         // read: which of the ranks of its group of a cut the rank is (Manifest::cuts)
  kLearningRate,  // read, by updates
  kLossScale,     // read
};
// What a rank has of a value whose tensors are cut (Manifest::cuts).
enum class Spread : uint8_t {
  kSame,   // the whole; every rank of a group has it
  kPart,   // the part of the rank's place
  kShare,  // an addend: the value is the sum over the places of the group
};
struct Slot {
  std::string name;  // unique in the program; programs that exchange a value call it alike
  SlotRole role = SlotRole::kInput;
  int64_t bytes = 0;
  bool reads = false, writes = false;
  std::string of = {};  // the model's name of the input, parameter or state, or of what the gradient is of; "": none
  StepNumber holds = StepNumber::kNone;
  int32_t term = 0;  // of an evaluation's kLoss or kCount: index into RankPlan::means
  // Of an activation, or of the gradient of one, that is a part or a share: over which cut.
  Spread spread = Spread::kSame;
  int32_t cut = -1;  // index into Manifest::cuts; -1: kSame
};

// What is done with a part of the model.
enum class Pass : uint8_t {
  kForward,
  kBackward,
  kBackwardInput,  // the two parts of a backward that is split
  kBackwardWeight,
  kCount,        // adds up what the terms of a loss are divided by
  kCountFinish,  // once a step, when all is counted
};
struct ChunkPass {
  int32_t chunk = -1;  // index into Manifest::chunks
  Pass pass = Pass::kForward;
  int64_t samples = 0;       // that a run is for, at least 1
  bool recomputing = false;  // a backward that repeats its forward
};

struct Program {
  std::string name;  // "c0.F.b4": chunk, pass, samples
  std::vector<Slot> slots;
  int64_t workspace_bytes = 0;
  std::vector<KernelCall> calls;
  std::optional<ChunkPass> of = {};  // none: the step's own work
};

// ------------------------------------------------------------------ rank plans
enum class BufferClass : uint8_t {
  kArena,      // inside the rank's arena, shares bytes over time with others of this class
  kParameter,  // persistent, read from weights at load
  kGradient,   // persistent, zero at load; the update clears it
  kOptimizer,  // persistent, zero at load
  kState,      // persistent, read from weights at load (running statistics)
  kConstant,   // persistent, read from weights/constants.safetensors at load
  kTraining,   // persistent, zero at load: what training counts from step to step; saved with the moments
  kInput,      // persistent, filled by the loader before each step
  kScalar,  // persistent, written by the executor before each step (seed_step, rate) or set at load (RankPlan::scalars)
};
inline constexpr int kNumBufferClasses = 9;
struct Buffer {
  std::string name;  // "act c1.in x m0", "grad h.0", unique on the rank
  BufferClass cls = BufferClass::kArena;
  int64_t bytes = 0;
  int64_t offset = 0;          // into the arena (kArena) or the class's own region; 64-byte aligned
  DType dtype = DType::kF32;   // of the elements; mixed contents (saved blocks) say f32
  std::vector<int64_t> shape;  // empty for mixed contents
};

// Elements [first, first + count) of a tensor, in row-major order of the whole tensor; of one that is cut part by part
// (TensorCut).
struct Part {
  BufferRange where;
  int64_t first = 0, count = 0;  // elements
  bool owner = false;            // this rank writes these elements into saved files
};

// What a placement holds of a tensor.
enum class PlacementKind : uint8_t {
  kValue,         // a parameter, read from the weights at load
  kMaster,        // one that programs do not read, read from the weights at load
  kWorking,       // what they read of it: a copy in another type, which updates write and loading fills
  kGradient,      // its accumulator
  kFirstMoment,   // of the optimizer; sgd: momentum
  kSecondMoment,  // of the optimizer
  kState,         // running statistics, read from the weights at load
  kConstant,      // read from the bundle's constants at load
};
// A tensor of the model, or a part of it, inside a persistent buffer of a rank. A tensor may have several placements of
// a kind on a rank and on several ranks; each element of a saved file has exactly one owner.
struct Placement {
  std::string name;  // canonical parameter, buffer or constant name
  PlacementKind kind = PlacementKind::kValue;
  DType dtype = DType::kF32;   // of its elements here
  std::vector<int64_t> shape;  // of the whole tensor
  Part part;
};

// One model input on this rank: samples [first, first + count) of every step's batch go here.
struct InputSlice {
  std::string input;
  int64_t first = 0, count = 0;
  BufferRange where;
};

// What a buffer of class kScalar and dtype i64 holds from load on.
struct ScalarValue {
  int32_t buffer = -1;  // index into RankPlan::buffers
  std::vector<int64_t> values;
  StepNumber holds = StepNumber::kSampleOffset;  // or kPlace
};

// A term of the loss that an evaluation reports: `sum` over its batches divided by `count` over its batches; where no
// buffer counts, by the number of batches. Both are f32 [].
struct Mean {
  BufferRange sum, count;
};

struct Run {
  int32_t program = -1;
  int32_t arguments = -1;
  BufferRange workspace;
};
struct Send {
  BufferRange data;
  int64_t count = 0;  // elements
  int32_t channel = -1;
  DType dtype = DType::kF32;
  int64_t bytes() const { return count * dtype_bytes(dtype); }
};
struct Recv {
  BufferRange data;
  int64_t count = 0;
  int32_t channel = -1;
  DType dtype = DType::kF32;
  int64_t bytes() const { return count * dtype_bytes(dtype); }
};
enum class Reduction : uint8_t { kSum };
// The element types of a sum over ranks: buffers hold `data`; rounded to `message` elements travel, converted to `sum`
// they are added in position order, rounded to `data` the sum is stored.
struct SumTypes {
  DType data, message, sum;
  constexpr SumTypes(DType all = DType::kF32) : data(all), message(all), sum(all) {}
  friend bool operator==(const SumTypes&, const SumTypes&) = default;
};
struct AllReduce {
  BufferRange data;
  int64_t count = 0;
  SumTypes types;
  int32_t communicator = -1;
  Reduction reduction = Reduction::kSum;
  int64_t bytes() const { return count * dtype_bytes(types.data); }
};
// `data` holds one part of `count` elements for each position of the communicator. Position j's `out`
// becomes the sum over the members of part j. In place, `out` is the own part inside of `data`, whichever that is for a
// rank, and is not named (buffer = -1; own_part() says where it is); else it does not overlap `data`. Other parts of
// `data` keep their values.
struct ReduceScatter {
  BufferRange data, out;
  int64_t count = 0;
  SumTypes types;
  int32_t communicator = -1;
  Reduction reduction = Reduction::kSum;
  int64_t bytes() const { return count * dtype_bytes(types.data); }  // of a part
};
// The `part` of `count` elements of each position j becomes part j of every member's `data`. In place, `part` is the
// own part inside of `data`, and not named (buffer = -1), as with ReduceScatter; else it does not overlap `data`.
struct AllGather {
  BufferRange part, data;
  int64_t count = 0;
  int32_t communicator = -1;
  DType dtype = DType::kF32;
  int64_t bytes() const { return count * dtype_bytes(dtype); }  // of a part
};
// Part j of `send` goes to position j, where it becomes part i of `recv`, i = own position. A part is `count` elements;
// `send` and `recv` do not overlap. With counts (i64 [members] each) only the first rows of `row` elements of a part
// travel: send_counts[j] rows to j, recv_counts[i] rows from i; the rest of recv's part is left as it is. The two
// counts of a pair must be equal.
struct AllToAll {
  BufferRange send, recv;
  int64_t count = 0;
  BufferRange send_counts, recv_counts;  // buffer = -1 both: whole parts travel
  int64_t row = 0;                       // elements; 0 without counts
  int32_t communicator = -1;
  DType dtype = DType::kF32;
  int64_t bytes() const { return count * dtype_bytes(dtype); }  // of a part
  int64_t row_bytes() const { return row * dtype_bytes(dtype); }
};
struct Record {
  int32_t event = -1;
};
struct Wait {
  int32_t event = -1;
};
// Runs a program of the optimizer's kernels (kernels.def) with the numbers of the manifest's optimizer and of a group.
struct Update {
  int32_t program = -1;
  int32_t arguments = -1;
  BufferRange workspace;
  int32_t group = -1;  // index into Manifest::optimizer.groups
};
using Action = std::variant<Run, Send, Recv, AllReduce, ReduceScatter, AllGather, AllToAll, Record, Wait, Update>;

struct Instruction {
  int32_t stream = 0;  // index into RankPlan::streams
  Action action;
  int32_t provenance = -1;  // index into Bundle::provenance
};

enum class Priority : uint8_t { kNormal, kHigh, kLow };
struct Stream {
  std::string name;  // "compute", "pp:0>1", "dp_reduce:0,1"
  Priority priority = Priority::kNormal;
  int32_t max_ctas = 0;  // thread blocks that its communication may take; 0: the library's choice
};
struct Communicator {
  std::string name;
  std::vector<int32_t> ranks;  // positions = order of the sum
  int32_t max_ctas = 0;        // that of its stream
};
// Messages between this rank and `peer`, one way. id: unique per directed pair of ranks; the MPI tag.
struct Channel {
  std::string name;
  int32_t peer = -1;
  int32_t id = 0;
};

// What a rank does (streams, events, buffers, arguments, instructions), and for whom: its peers, its samples, its parts
// of the model. Instructions name no rank, so that ranks which do the same work on other data share it (like_ranks.h);
// where they name a part that only this rank has, an argument list of the rank's own says it.
struct RankPlan {
  int32_t rank = 0;
  int64_t arena_bytes = 0;
  SharedVector<Stream> streams;
  std::vector<Communicator> communicators;
  std::vector<Channel> channels;
  SharedVector<std::string> events;
  SharedVector<Buffer> buffers;
  std::vector<Placement> placements;
  std::vector<InputSlice> inputs;
  std::vector<ScalarValue> scalars;
  std::vector<Mean> means;  // of a plan that evaluates, on the ranks that have them; the reporting rank does
  ArgumentLists arguments;
  SharedVector<Instruction> instructions;
  BufferRange seed_step;      // i64 [2]; buffer -1: not used on this rank
  BufferRange learning_rate;  // f64 []: the step's rate; on ranks that update
  BufferRange loss;           // f32 []: the step's loss, on the ranks that have it; the reporting rank does
  BufferRange grad_norm;      // f32 []: on every rank that clips, where clipping is on
  // f32 [tensors of the manifest up to the last trained one]: squares of gradients as they are, scaled or not; those at
  // tensors of one group add up to the square of its part of that norm, wherever among them they are. On every rank
  // that clips, where the optimizer has several groups.
  BufferRange grad_squares;
  BufferRange
      dropped;  // i64 []: the step's number of dropped rows, on the ranks that have it, where experts may drop some
  // f32 [], on every rank, where the gradient of the loss is scaled: by what, and how many gradients of the step
  // overflowed, in which case nothing was updated.
  BufferRange loss_scale, overflow;
};

// ------------------------------------------------------------------ manifest
// What the plan was made for. A plan for cuda runs on CPU ranks, too.
enum class DeviceKind : uint8_t { kCpu, kCuda };
// Buffers begin at multiples of so many bytes: a cache line of the device. An AVX-512 register fills one of a CPU's;
// a GPU's has four sectors, of which a warp reads all at once.
constexpr int64_t buffer_alignment(DeviceKind device) { return device == DeviceKind::kCpu ? 64 : 128; }
// How sums over ranks are added: in the order of the positions, the same bits everywhere, or as the device's library
// likes to.
enum class Summing : uint8_t { kPosition, kLibrary };
struct OptimizerGroup {
  std::string name;
  double weight_decay = 0;
  bool rest = false;                   // of what Optimizer::rest updates
  double lr_factor = 1;                // on the step's rate, > 0
  std::optional<double> beta1, beta2;  // unset: the optimizer's own
};
// How the rate follows the shape of a matrix of r rows and c columns (Muon): sqrt(max(1, r / c)), or
// 0.2 sqrt(max(r, c)), with which updates are of the size of AdamW's.
enum class RateByShape : uint8_t { kOriginal, kMatchRmsAdamw };
inline constexpr RateByShape kRatesByShape[] = {RateByShape::kOriginal, RateByShape::kMatchRmsAdamw};
struct OptimizerNumbers {
  std::string kind = "sgd";  // of optimizers.def
  double lr = 0.01, momentum = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool nesterov = false;
  int64_t steps = 5;  // of Newton-Schulz
  RateByShape adjust = RateByShape::kOriginal;
};
struct Optimizer : OptimizerNumbers {
  std::optional<OptimizerNumbers> rest;  // beside one of matrices, of the other parameters; its lr and that one's > 0
  std::vector<OptimizerGroup> groups;
};
enum class LrCurve : uint8_t {
  kConstant,
  kLinear,
  kCosine,
  kOneMinusSqrt,
  kPolynomial,
  kInverseSqrt
};  // lr_curves.def
struct LrPhase {
  LrCurve curve = LrCurve::kConstant;
  int64_t steps = 0;        // 0, of the last one: without end
  double from = 1, to = 0;  // factors; `to` of curves that have an end
  double power = 1, timescale = 1;
};
struct LrSchedule {  // factor on lr at step s, counted from 1
  int64_t warmup = 0;
  std::string kind = "constant";  // "constant", "cosine", "linear", or "phases"
  int64_t until = 0;
  double to = 0, constant = 1;
  std::vector<LrPhase> phases;  // of that kind: one after the other from the warm-up's end on
};
// What a token stream feeds to an input, of the T tokens t[i..i+T) of a sample.
enum class Feed : uint8_t {
  kTokens,      // t[i..i+T)
  kNextTokens,  // t[i+1..i+T+1)
  kPositions,   // of each token in its document, from 0
  kDocuments,   // the number of each token's document in the sample, from 0
  kNone,        // the input has tensors of its own
};
struct InputDecl {
  std::string name;
  DType dtype = DType::kI64;
  std::vector<int64_t> sample_shape;  // without the batch axis (batched), or the whole shape
  bool batched = true;
  Feed feed = Feed::kNone;
};
struct DataPath {
  std::string path;
  double weight = 0;  // in a mix of token streams, > 0; 0: the only path
  std::string at;     // place in the strategy; "" elsewhere
};
inline constexpr size_t kMaxDataPaths = size_t{1} << 20;
struct RunDefaults {
  std::vector<DataPath> data;
  int64_t steps = 0;
  uint64_t seed = 0;
  std::string sampling;
  int64_t document_end = -1;  // the token that ends a document; -1: none is named
};
// When and on what piper-run evaluates; what it runs then is Bundle::evaluation.
struct Evaluation {
  std::string data;         // "": that of --eval-data
  int64_t every = 0;        // steps; 0: after the last one only
  int64_t batches = 0;      // 0: as many as the data fill
  bool perplexity = false;  // the loss is one mean cross entropy
};
struct FileEntry {
  std::string path, sha256;
  int64_t bytes = 0;
  std::vector<uint32_t> chunks = {};  // of a weights file: chunk_digests.h
};
struct RankSummary {
  int64_t arena_bytes = 0, persistent_bytes = 0, scratch_bytes = 0, sent_bytes = 0, peak_bytes = 0;
};
// Ranks that work on the same samples with parts of the model's tensors. The position in its group is a rank's place;
// place p has part p of what is cut.
struct Cut {
  std::string name;                          // unique; that of its stream
  std::vector<std::vector<int32_t>> groups;  // of equal sizes, at least two; no rank is in two of them
  int64_t places() const { return static_cast<int64_t>(groups.front().size()); }
};
// A tensor of which each place has one of `places` equal parts along an axis, or along each of several segments of it
// (a weight of queries, keys and values in one), which are equal or have `extents`. Its elements are counted part by
// part: all of part 0 in row-major order of that part, then part 1, and so on. Files hold it in row-major order of the
// whole.
struct TensorCut {
  int32_t cut = -1;  // index into Manifest::cuts
  int32_t axis = 0;
  int32_t segments = 1;
  std::vector<int64_t> extents = {};  // of segments of unequal size; empty: `segments` equal ones
  friend bool operator==(const TensorCut&, const TensorCut&) = default;
};
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::string> aliases;
  bool trained = true;
  int32_t group = 0;  // where trained: index into Optimizer::groups
  ModelBuffer buffer = ModelBuffer::kNone;
  std::optional<TensorCut> cut;
};

// A part of the model that programs compute.
struct Tag {
  std::string tag;  // of the strategy: "PP"
  int32_t index = 0;
};
struct Chunk {
  std::string name;       // unique
  std::string region;     // the same for all pieces of one part of the model; of a part that is not cut its name
  std::vector<Tag> tags;  // each tag once; none where it joins parts of different ones
};

struct Target {
  DeviceKind device = DeviceKind::kCpu;
  Summing summing = Summing::kPosition;
  int32_t ranks_per_node = 0;  // ranks are numbered node by node; 0: not known
  bool knows_nodes() const { return ranks_per_node > 0; }
  int32_t node_of(int32_t rank) const { return rank / ranks_per_node; }
};

// A file that the plan was made from.
struct Source {
  std::string name, sha256;  // base name
};

struct Manifest {
  int version = kFormatVersion;
  Target target;
  Source model, strategy;
  int32_t world_size = 1;
  int32_t reporting_rank = 0;
  int64_t batch = 0;       // samples of one step on all ranks
  double model_flops = 0;  // of the model's products in one step, all ranks together; 0: not known
  int64_t proved = 0;      // results that rule 12 proves to be the model's; fewer refute the bundle
  std::vector<InputDecl> inputs;
  std::vector<Cut> cuts;
  std::vector<TensorInfo> tensors;  // parameters and buffers of the model, canonical order
  std::vector<Chunk> chunks;
  Optimizer optimizer;
  LrSchedule lr_schedule;
  double loss_scale = 0;      // at the start of training; 0: gradients are not scaled
  double clip_grad_norm = 0;  // 0: none (the plan holds the nodes; here for the reader and for the limit itself)
  RunDefaults run;
  std::optional<Evaluation> eval;
  bool evaluates = false;  // the plans train nothing: this is the manifest of another bundle's evaluation
  std::vector<RankSummary> ranks;
  std::vector<FileEntry> files;  // every other file of the bundle, sorted by path
};
// For RankPlan::grad_squares: the tensors up to the last trained one.
inline size_t num_grad_squares(const Manifest& manifest) {
  size_t count = manifest.tensors.size();
  while (count > 0 && !manifest.tensors[count - 1].trained) --count;
  return count;
}

// Provenance table, in the order of first use.
struct ProvenanceEntry {
  std::string key;
  std::string text;      // which lines of the strategy, or which node of the model
  std::string why = {};  // why there is what a line asks for; "" where the line says it
};

// The training step of the model on one device, as the proof compares plans with it: kernel calls on values that are
// written once each, made before any directive, cut or fusion. It is a program for kSamples samples: c * kSamples is c
// times the number of samples, whatever that is in a plan. It is a prime, so that no number of a model without samples
// is one of its multiples, and small, so that a sample may have 128 GiB. Where inputs are of fewer, it is for pieces of
// that size.
struct Reference {
  static constexpr int64_t kSamples = 67108859;
  // For a constant in a slot either the SHA-256 of its bytes, or, where that is "", its one element: so much for each
  // sample of the step. Of one that has the samples in its shape these bytes are those of the step's batch, `each`
  // elements of a sample are together there; or they are one sample's, and all samples have the same.
  struct Constant {
    int32_t slot = -1;
    std::string sha256;
    double per_sample = 0;
    int64_t each = 0;    // 0: no samples are in its shape, or all have the same
    bool alike = false;  // all samples have the same, one after the other
    bool has_samples() const { return each > 0 || alike; }
  };
  // What of a token stream is fed to a slot of an input; of others there is none.
  struct Input {
    int32_t slot = -1;
    Feed feed = Feed::kNone;
  };
  Program program;                  // a slot for each value; values that calls make have role kOutput
  std::vector<std::string> lines;   // [call] the line of the model's source, "" where its file has none
  std::vector<Constant> constants;  // in the order of the slots
  std::vector<Input> inputs;        // in the order of the slots
};

// What the constants file holds of one constant: the proof compares bytes, not names.
struct ConstantContent {
  std::string name, sha256;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::optional<float> value = {};  // of one element of f32 or bf16
};

struct Bundle {
  Manifest manifest;
  std::vector<Program> programs;
  std::vector<RankPlan> ranks;  // the reader can load one rank only
  std::vector<ProvenanceEntry> provenance;
  std::vector<Reference> reference;        // none; one; with a precision a second, the same without the casts of it
  std::vector<ConstantContent> constants;  // by name; read only beside a reference
  std::vector<Bundle> evaluation;  // one where the manifest has `eval`, with the ranks that this one has; else none
};

}  // namespace piper::plan
