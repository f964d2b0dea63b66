// Saves tensors that lie spread over the ranks as one .safetensors file, written by rank 0 under the
// model's own names and in row-major order, each tied weight under all of them: loadable with load_state_dict.
// Collective.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/weights.h"
#include "runtime/hal/control_channel.h"
#include "runtime/hal/device.h"
#include "schemas/plan/element_order.h"
#include "schemas/plan/plan.h"

namespace piper::checkpoint {

// Bytes [offset, offset + bytes) of a tensor, as the plan counts its elements and this rank has them.
struct Piece {
  int64_t tensor = 0;  // index into Manifest::tensors
  int64_t offset = 0, bytes = 0;
  bool owner = false;  // these bytes are the ones that are saved
  hal::Address data;
};

// What of each tensor is taken from which rank, in tensor and offset order: the owners' pieces, the
// lowest rank's where two own the same bytes. Tensors without pieces are left out. R0503: pieces of a
// tensor are there, but its owners do not cover it. `orders`: in which the plan counts each tensor; none: row-major.
struct Chosen {
  int64_t tensor = 0;
  int32_t rank = 0;
  int64_t piece = 0;              // index into that rank's list
  int64_t offset = 0, bytes = 0;  // in the tensor, as the plan counts
};
Result<std::vector<Chosen>> choose_pieces(const std::vector<std::vector<Piece>>& by_rank,
                                          const std::vector<plan::TensorInfo>& tensors,
                                          const std::vector<plan::ElementOrder>& orders = {});

struct SaveOptions {
  std::string path;
  // Tensors that no rank has (buffers no operator reads) are copied from here; nullptr: left out.
  const WeightSource* unplaced = nullptr;
  std::map<std::string, std::string> metadata = {};  // of the file
};
// Whether a file may be written there: asked before the first step, not after the last one. P0621.
Status check_writable(const std::string& path);
// `device`: where the pieces lie. `wait`: until all ranks are here; from then on they wait for the file, and return
// together. P0621 when the file cannot be written; errors of choose_pieces().
Status save_tensors(const SaveOptions& options, const plan::Manifest& manifest, const std::vector<Piece>& mine,
                    hal::Device& device, hal::ControlChannel& control, const hal::WaitControl& wait);

}  // namespace piper::checkpoint
