// Who talks to whom on the whole cluster, and what the plans call it: every channel and every communicator gets its
// name once, for all ranks.
//
// A channel is named after the two device groups, not the two ranks ("pp:0,1>2,3"), and a communicator after all teams
// that do the same side by side ("ep:0..7/2", teams of 2), so that replicas have equal names and thereby equal plans.
// Where one rank would have two channels or two communicators of such a name, they are named after the ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"

namespace piper::emit {

// One message of a transfer. `from` = `to`: the two groups share this device.
struct Message {
  int32_t from = -1, to = -1;
  int64_t part = 0;  // which part of what the group of fewer replicas has: 0 .. more replicas / fewer replicas - 1
};

class Connections {
 public:
  explicit Connections(const ir::Module& module);  // which must outlive it

  // The rank's position in a group, -1 where it is no member.
  int32_t position(ir::GroupId group, int32_t rank) const { return position_[rank][group.index]; }
  // What a transfer sends from or to the rank, in the order in which all ranks see it. Of a value: replica j of the
  // group of more replicas exchanges with replica floor(j fewer/more) of the other one, which holds the samples of
  // more/fewer replicas one after the other; each place with the same place, modulo the sender's places. A rank of two
  // groups that a tied parameter's gradient goes to gets it by the first transfer.
  std::vector<Message> messages(const ir::Node& node, const ir::TransferNode& n, int32_t rank) const;
  // Its team, -1 where it is in none, and its position there.
  struct Place {
    int32_t team = -1, position = -1;
  };
  Place place(ir::TeamsId teams, int32_t rank) const { return place_[rank][teams.index]; }
  const std::vector<int32_t>& team(ir::TeamsId teams, int32_t rank) const {
    return module_.distribution.teams[teams.index][place(teams, rank).team];
  }
  // The number (see name()) of the channel of a stream's messages between two ranks, and of the rank's communicator.
  uint32_t channel(uint32_t stream, int32_t from, int32_t to) const { return channels_.at({stream, from, to}); }
  uint32_t communicator(uint32_t stream, ir::TeamsId teams, int32_t rank) const {
    return communicators_.at({stream, teams.index})[place(teams, rank).team];
  }
  const std::string& name(uint32_t number) const { return names_[number]; }

 private:
  void name_channels(const ir::Node& node, const ir::TransferNode& n);
  void name_teams(uint32_t stream, const ir::Teams& teams);
  // Gives the name to what is between `ranks` unless one of them has something else of this name.
  bool claim(const std::string& name, const std::vector<int32_t>& ranks);
  uint32_t number(const std::string& name);

  const ir::Module& module_;
  std::vector<std::vector<int32_t>> position_;  // [rank][group]
  std::vector<std::vector<Place>> place_;       // [rank][teams]
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::map<std::tuple<uint32_t, int32_t, int32_t>, uint32_t> channels_;           // (stream, from, to)
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> communicators_;  // (stream, teams) -> [team]
  std::map<std::pair<uint32_t, std::vector<int32_t>>, uint32_t>
      teams_;                                                 // (stream, team): equal teams are one communicator
  std::map<std::vector<int32_t>, uint32_t> claims_;           // ranks of something named -> its number
  std::map<std::pair<uint32_t, int32_t>, uint32_t> claimed_;  // (name, rank) -> what it stands for there
  std::map<std::pair<ir::AccumulatorId, int32_t>, const ir::TransferNode*> brings_;  // (use of a tied parameter, rank)
};

}  // namespace piper::emit
