// A role holds everything of a device that its instructions depend on. Devices of equal roles have one plan; a Binding
// holds the differences: peers, samples and parts of the model. RoleEmitter sees the role alone, so that nothing added
// to the emitter can make replicas differ otherwise.
//
// A role names channels and communicators by the numbers of their names (connections.h), which replicas share. It does
// not say which part of a bucket a device updates: replicas that divide an optimizer's work have equal roles where
// parameters of one group lie at the same places of their parts.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "compiler/emit/connections.h"
#include "compiler/ir/module.h"

namespace piper::emit {

// One message of a transfer as this end sees it.
struct RoleMessage {
  enum class Way : uint8_t { kSends, kReceives, kStays };  // the last: both groups share the device
  Way way = Way::kSends;
  uint32_t channel = 0;
  int64_t part = 0;  // of the larger piece of a value
  friend bool operator==(const RoleMessage&, const RoleMessage&) = default;
};

// What an update does at once: bytes [begin, end) of what the device updates of a bucket, counted from where that
// begins, which are of parameters of one group.
struct UpdatePiece {
  int32_t group = 0;
  ir::Stretch stretch;
  int64_t columns = 0;  // of the one matrix that it is; 0: elements in a row
  std::vector<int64_t> shape(const ir::Bucket& bucket) const {
    const int64_t elements = bucket.elements(stretch.bytes());
    return columns == 0 ? std::vector<int64_t>{elements} : std::vector<int64_t>{elements / columns, columns};
  }
  friend bool operator==(const UpdatePiece& a, const UpdatePiece& b) {
    return a.group == b.group && a.stretch.begin == b.stretch.begin && a.stretch.end == b.stretch.end &&
           a.columns == b.columns;
  }
};

// Gradients that a device counts in the norm of all at once: what it updates of a bucket, so that devices with other
// parts of the bucket do the same.
struct MeasuredPiece {
  ir::BucketId bucket;
  uint32_t parameter = 0;  // the first of its group in the bucket: the sum is added to its place
  ir::Stretch stretch;     // as of an update
  friend bool operator==(const MeasuredPiece& a, const MeasuredPiece& b) {
    return a.bucket == b.bucket && a.parameter == b.parameter && a.stretch.begin == b.stretch.begin &&
           a.stretch.end == b.stretch.end;
  }
};

struct Role {
  std::vector<ir::NodeId> nodes;        // what involves the device, in the order of the DAG
  std::vector<uint32_t> communicators;  // [place in nodes] of a collective
  std::vector<RoleMessage> messages;    // of all transfers
  std::vector<uint32_t> first_message;  // [place in nodes], and the end
  std::vector<bool> member;             // [group]
  std::vector<UpdatePiece> updates;     // of all UpdateNodes
  std::vector<uint32_t> first_update;   // [place in nodes], and the end
  std::vector<int32_t> position;        // [teams] of the device in teams that keep parts, where `counts_parts`; else -1
  std::vector<uint32_t> keeps_unread;   // parameters that no program reads, which it keeps
  std::vector<uint32_t> measures;       // parameters whose gradient it counts in the norm of all, each by itself
  std::vector<MeasuredPiece> measured_pieces;  // ... and what it counts together
  bool counts_parts = false;                   // it measures, sends or combines parts of gradients, each by itself
  friend bool operator==(const Role&, const Role&) = default;

  bool is_member(ir::GroupId group) const { return member[group.index]; }
  std::span<const RoleMessage> messages_of(size_t place) const {
    return {messages.data() + first_message[place], messages.data() + first_message[place + 1]};
  }
  std::span<const UpdatePiece> updates_of(size_t place) const {
    return {updates.data() + first_update[place], updates.data() + first_update[place + 1]};
  }
  // The first use of a parameter here, invalid where it is not trained here.
  ir::AccumulatorId primary(const ir::StateLayout& state, uint32_t parameter) const;
};

// What the device of a role does it with.
struct Binding {
  int32_t rank = 0;
  std::vector<std::pair<uint32_t, int32_t>> peers;                      // channel -> the rank at the other end
  std::vector<std::pair<uint32_t, const std::vector<int32_t>*>> teams;  // communicator -> its ranks
};

struct Roles {
  std::vector<Role> roles;        // in the order of the first ranks that have them
  std::vector<uint32_t> role_of;  // [rank]
  std::vector<int32_t> first;     // [role] the first rank that has it
  std::vector<Binding> bindings;  // [rank]
};
// `decay_group`: [parameter] the optimizer's group.
Roles find_roles(const ir::Module& module, const Connections& connections, const std::vector<int32_t>& decay_group);

}  // namespace piper::emit
