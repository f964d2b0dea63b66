#include "schemas/verify/flow_transfers.h"

#include <algorithm>
#include <utility>

#include "schemas/plan/actions.h"
#include "schemas/plan/names.h"
#include "schemas/plan/own_part.h"

namespace piper::verify {

using namespace plan;

namespace {

// The pieces of [from, to) of `pieces`.
void cut_out(const Pieces& pieces, int64_t from, int64_t to, Pieces& result) {
  int64_t begin = 0;
  for (const auto& piece : pieces) {
    const int64_t end = begin + piece.bytes, cut_begin = std::max(from, begin), cut_end = std::min(to, end);
    if (cut_begin < cut_end) {
      Piece cut{cut_end - cut_begin, piece.content};
      cut.content.origin += cut_begin - begin;
      append(result, cut);
    }
    begin = end;
  }
}

}  // namespace

Flow::Transfers::Transfers(Flow& flow)
    : flow_(flow), meetings_(flow.meetings_.size()), under_way_(flow.meetings_.lines()) {}

Status Flow::Transfers::send(Rank& rank, const Send& send, std::vector<size_t>& ready) {
  if (free_flights_.empty()) {
    free_flights_.push_back(static_cast<int32_t>(flights_.size()));
    flights_.emplace_back();
  }
  const int32_t line = flow_.meetings_.out(plan_of(rank), send.channel);
  under_way_[static_cast<size_t>(line)].push_back(free_flights_.back());
  Pieces& flight = flights_[static_cast<size_t>(free_flights_.back())];
  free_flights_.pop_back();
  flight.clear();
  rank.contents.take(send.data, send.bytes(), flight);
  PIPER_RETURN_IF_ERROR(flow_.check_elements(rank, flight, send.dtype));
  const auto plan = static_cast<size_t>(flow_.meetings_.receiver(line));
  const Rank& receiver = flow_.ranks_[plan];
  if (receiver.next == receiver.plan->instructions.size()) return {};
  const auto* const recv = std::get_if<Recv>(&receiver.plan->instructions[receiver.next].action);
  if (recv != nullptr && flow_.meetings_.in(plan, recv->channel) == line) ready.push_back(plan);
  return {};
}

bool Flow::Transfers::receive(Rank& rank, const Recv& recv) {
  auto& under_way = under_way_[static_cast<size_t>(flow_.meetings_.in(plan_of(rank), recv.channel))];
  if (under_way.empty()) return false;
  rank.contents.put(recv.data, flights_[static_cast<size_t>(under_way.front())]);
  free_flights_.push_back(under_way.front());
  under_way.pop_front();
  return true;
}

Status Flow::Transfers::meet(Rank& rank, int32_t communicator, std::vector<size_t>& ready) {
  if (rank.arrived) return {};
  const size_t index = meeting_of(rank, communicator);
  Meeting& meeting = meetings_[index];
  rank.arrived = true;
  rank.round = meeting.round;
  const auto members = flow_.meetings_.members(static_cast<int32_t>(index));
  if (++meeting.arrived < members.size()) return {};
  PIPER_RETURN_IF_ERROR(collective(index));
  meeting.arrived = 0;
  ++meeting.round;
  for (const auto& member : members)
    if (const auto other = static_cast<size_t>(member.plan); &flow_.ranks_[other] != &rank) ready.push_back(other);
  return {};
}

Status Flow::Transfers::collective(size_t meeting) {
  // Members by position.
  auto& members = members_;
  members.clear();
  for (const auto& member : flow_.meetings_.members(static_cast<int32_t>(meeting))) {
    Rank& rank = flow_.ranks_[static_cast<size_t>(member.plan)];
    members.push_back({&rank, &rank.plan->instructions[rank.next].action});
  }
  const int32_t communicator = communicator_of(*members[0].action);
  const auto& order = members[0].rank->plan->communicators[static_cast<size_t>(communicator)].ranks;
  const auto num_members = static_cast<int64_t>(members.size());

  const auto add_all = [&](const auto& range_of, int64_t bytes, DType dtype, Pieces& sum) -> Status {
    for (const auto& member : members) {
      scratch_.clear();
      member.rank->contents.take(range_of(member), bytes, scratch_);
      PIPER_RETURN_IF_ERROR(flow_.check_elements(*member.rank, scratch_, dtype));
      if (&member == &members[0]) {
        // Values of one member are a sum of one.
        const Pieces nothing = {{bytes, {Zero()}}};
        if (const auto wrong = flow_.ledger_.add(nothing, scratch_, sum); !wrong.empty())
          return flow_.refuted(Rule::kSums, *member.rank, wrong);
        continue;
      }
      if (const auto wrong = flow_.ledger_.add(sum, scratch_, scratch_sum_); !wrong.empty())
        return flow_.refuted(Rule::kSums, *member.rank, wrong);
      std::swap(sum, scratch_sum_);
    }
    return {};
  };

  // Rule 2: all members do the same.
  const auto reduce_all = [&](const AllReduce& shape) -> Status {
    if (moves_values(std::get<AllReduce>(*members[0].action).data, shape.bytes())) return add_shares(shape, order);
    Pieces sum;
    PIPER_RETURN_IF_ERROR(add_all([](const Member& m) { return std::get<AllReduce>(*m.action).data; }, shape.bytes(),
                                  shape.types.data, sum));
    for (const auto& member : members) member.rank->contents.put(std::get<AllReduce>(*member.action).data, sum);
    return {};
  };
  const auto scatter = [&](const ReduceScatter& shape) -> Status {
    const int64_t part = shape.bytes();
    if (moves_values(std::get<ReduceScatter>(*members[0].action).data, part * num_members))
      return scatter_shares(shape, order);
    Pieces sum;
    PIPER_RETURN_IF_ERROR(add_all([](const Member& m) { return std::get<ReduceScatter>(*m.action).data; },
                                  part * num_members, shape.types.data, sum));
    for (size_t j = 0; j < members.size(); ++j) {
      scratch_.clear();
      cut_out(sum, part * static_cast<int64_t>(j), part * static_cast<int64_t>(j + 1), scratch_);
      members[j].rank->contents.put(own_part(std::get<ReduceScatter>(*members[j].action), static_cast<int64_t>(j)),
                                    scratch_);
    }
    return {};
  };
  const auto gather_all = [&](const AllGather& shape) -> Status {
    const int64_t part = shape.bytes();
    if (moves_values(own_part(std::get<AllGather>(*members[0].action), 0), part)) return gather_parts(shape, order);
    scratch_.clear();
    for (size_t j = 0; j < members.size(); ++j) {
      const auto& gather = std::get<AllGather>(*members[j].action);
      sent_.resize(1);
      sent_[0].clear();
      members[j].rank->contents.take(own_part(gather, static_cast<int64_t>(j)), part, sent_[0]);
      PIPER_RETURN_IF_ERROR(flow_.check_elements(*members[j].rank, sent_[0], gather.dtype));
      for (const Piece& piece : sent_[0]) append(scratch_, piece);
    }
    for (const auto& member : members) member.rank->contents.put(std::get<AllGather>(*member.action).data, scratch_);
    return {};
  };
  return std::visit(
      Cases{[&](const AllReduce& shape) { return reduce_all(shape); },
            [&](const ReduceScatter& shape) { return scatter(shape); },
            [&](const AllGather& shape) { return gather_all(shape); }, [&](const AllToAll&) { return exchange(); },
            [](const IsOneOf<Run, Update, Send, Recv, Record, Wait> auto&) { return Status(); }},
      *members[0].action);
}

bool Flow::Transfers::moves_values(const BufferRange& first, int64_t bytes) {
  if (!flow_.places_.any()) return false;
  scratch_.clear();
  members_[0].rank->contents.take(first, bytes, scratch_);
  return std::any_of(scratch_.begin(), scratch_.end(), [](const Piece& piece) {
    const auto* const value = piece.content.as<Value>();
    return value != nullptr && value->spread != Places::kWhole;
  });
}

// What all places of a group have of one value, for the same samples, in the order of the places.
Result<int32_t> Flow::Transfers::take_of_places(const std::vector<BufferRange>& where, int64_t bytes, DType dtype,
                                                bool shares, const std::vector<int32_t>& order) {
  const std::string verb = shares ? "adds up" : "puts together", what = shares ? "shares" : "parts";
  int32_t over = -1;
  sent_.resize(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    Rank& rank = *members_[i].rank;
    const auto wrong = [&](const std::string& why) { return flow_.refuted(Rule::kSums, rank, why); };
    sent_[i].clear();
    rank.contents.take(where[i], bytes, sent_[i]);
    PIPER_RETURN_IF_ERROR(flow_.check_elements(rank, sent_[i], dtype));
    const Pieces& first = sent_[0];
    for (size_t k = 0; k < sent_[i].size(); ++k) {
      const Piece& piece = sent_[i][k];
      const auto* const value = piece.content.as<Value>();
      if (value == nullptr)
        return wrong(shares ? "adds what is no value to a share of one" : "gathers what is no value");
      const auto spread = static_cast<int32_t>(value->spread);
      const std::string name = value->label < 0 ? "a value" : in_quotes(flow_.ledger_.labels[value->label]);
      if (shares && !flow_.places_.is_share(spread))
        return wrong("adds " + flow_.places_.text(spread) + " " + name + " up over places, which is no share of a sum");
      if (!shares && !flow_.places_.is_part(spread))
        return wrong("gathers " + flow_.places_.text(spread) + " " + name + " over places, which is no part of it");
      over = flow_.places_.cut_of(spread);
      const std::vector<int32_t>* const group = flow_.places_.group(over, rank.plan->rank);
      if (group == nullptr || *group != order)
        return wrong(verb + " " + what + " of " + name + " over ranks that are not, in this order, a group of cut " +
                     in_quotes(flow_.bundle_.manifest.cuts[static_cast<size_t>(over)].name));
      if (flow_.places_.place_of(spread) != static_cast<int32_t>(i))
        return wrong(verb + " " + flow_.places_.text(spread) + " " + name + " as that of place " + std::to_string(i));
      const auto* const other = k < first.size() ? first[k].content.as<Value>() : nullptr;
      Value alike = *value;
      if (other != nullptr) alike.spread = other->spread;
      if (other == nullptr || alike != *other || piece.bytes != first[k].bytes ||
          piece.content.origin != first[k].content.origin)
        return wrong(verb + " " + what + " of different values, samples or elements, one of them of " + name);
    }
    if (sent_[i].size() != first.size()) return wrong(verb + " " + what + " of different values, samples or elements");
  }
  return over;
}

std::vector<BufferRange> Flow::Transfers::ranges_of_values() const {
  std::vector<BufferRange> where;
  for (size_t i = 0; i < members_.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    if (const auto* all = std::get_if<AllReduce>(members_[i].action)) where.push_back(all->data);
    if (const auto* part = std::get_if<AllGather>(members_[i].action)) where.push_back(own_part(*part, position));
    if (const auto* all = std::get_if<ReduceScatter>(members_[i].action)) where.push_back(all->data);
  }
  return where;
}

// Shares become the value.
Status Flow::Transfers::add_shares(const AllReduce& shape, const std::vector<int32_t>& order) {
  PIPER_ASSIGN(const int32_t cut, take_of_places(ranges_of_values(), shape.bytes(), shape.types.data, true, order));
  for (Piece& piece : sent_[0]) {
    auto& value = std::get<Value>(piece.content.what);
    note_conversion(value, cut, Exchange::By::kAllReduce, shape.types.data);
    value.spread = Places::kWhole;
  }
  for (const Member& member : members_) member.rank->contents.put(std::get<AllReduce>(*member.action).data, sent_[0]);
  return {};
}

// All that the first member sends as one value: samples that came from several ranks are those of one.
Result<Piece> Flow::Transfers::one_value(const std::string& verb) {
  const auto wrong = [&] {
    return flow_.refuted(Rule::kSums, *members_[0].rank, verb + " several values, or a part of a sample");
  };
  Piece all = sent_[0].front();
  auto& value = std::get<Value>(all.content.what);
  if (sent_[0].size() == 1 && all.content.origin == 0 && all.bytes == value.bytes) return all;
  Value alike = value;
  int32_t samples = 0;
  int64_t bytes = 0;
  for (const Piece& piece : sent_[0]) {
    const auto& part = std::get<Value>(piece.content.what);
    alike.samples = part.samples, alike.bytes = part.bytes;
    const int32_t here = flow_.samples_of(part, piece);
    if (alike != part || here <= 0 || piece.content.layout != all.content.layout) return wrong();
    samples = flow_.ledger_.samples.append(samples, here);
    bytes += piece.bytes;
  }
  value.samples = samples;
  all.bytes = value.bytes = bytes;
  all.content.origin = 0;
  return all;
}

// Shares become, at each place, the part of the value that it has of others.
Status Flow::Transfers::scatter_shares(const ReduceScatter& shape, const std::vector<int32_t>& order) {
  const auto members = static_cast<int64_t>(members_.size());
  PIPER_ASSIGN(const int32_t cut,
               take_of_places(ranges_of_values(), shape.bytes() * members, shape.types.data, true, order));
  PIPER_ASSIGN(Piece part, one_value("adds up"));
  auto& value = std::get<Value>(part.content.what);
  note_conversion(value, cut, Exchange::By::kReduceScatter, shape.types.data);
  part.bytes = value.bytes = shape.bytes();
  for (size_t i = 0; i < members_.size(); ++i) {
    value.spread = flow_.places_.id(plan::Spread::kPart, cut, members_[i].rank->plan->rank);
    members_[i].rank->contents.put(own_part(std::get<ReduceScatter>(*members_[i].action), static_cast<int64_t>(i)),
                                   {part});
  }
  return {};
}

// Parts become the value.
Status Flow::Transfers::gather_parts(const AllGather& shape, const std::vector<int32_t>& order) {
  PIPER_ASSIGN(const int32_t cut, take_of_places(ranges_of_values(), shape.bytes(), shape.dtype, false, order));
  PIPER_ASSIGN(Piece whole, one_value("gathers"));
  auto& value = std::get<Value>(whole.content.what);
  note_conversion(value, cut, Exchange::By::kAllGather, shape.dtype);
  whole.bytes = value.bytes = shape.bytes() * static_cast<int64_t>(members_.size());
  value.spread = Places::kWhole;
  for (const Member& member : members_) member.rank->contents.put(std::get<AllGather>(*member.action).data, {whole});
  return {};
}

void Flow::Transfers::note_conversion(Value& value, int32_t cut, Exchange::By by, DType dtype) {
  if (value.conversions < kMostConversions) ++value.conversions;
  note({value.label, static_cast<int32_t>(value.conversions)}, {.sent = flow_.ledger_.labels[value.label],
                                                                .devices = static_cast<int64_t>(members_.size()),
                                                                .dtype = dtype,
                                                                .cut = cut,
                                                                .by = by});
}

// Parts of equal size: part j of what member i sends becomes part i of what member j has.
Status Flow::Transfers::exchange() {
  const auto& members = members_;
  const auto num_members = static_cast<int64_t>(members.size());
  const int64_t part = std::get<AllToAll>(*members[0].action).bytes();
  for (auto* pieces : {&sent_, &arrived_}) {
    pieces->resize(members.size());
    for (auto& list : *pieces) list.clear();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    const auto& exchange = std::get<AllToAll>(*members[i].action);
    members[i].rank->contents.take(exchange.send, part * num_members, sent_[i]);
    PIPER_RETURN_IF_ERROR(flow_.check_elements(*members[i].rank, sent_[i], exchange.dtype));
  }
  moved_.clear();
  across_ = cut_across();
  for (size_t j = 0; j < members.size(); ++j)
    for (size_t i = 0; i < members.size(); ++i) {
      scratch_.clear();
      int64_t begin = part * static_cast<int64_t>(j);
      cut_out(sent_[i], begin, begin + part, scratch_);
      for (auto& piece : scratch_) {
        auto* const value = piece.content.as<Value>();
        if (value == nullptr) continue;
        if (moved_.empty() || moved_.back() != std::pair(i, value->label)) moved_.emplace_back(i, value->label);
        // Rows that came in parts go back in parts, other values go to every member for all of their samples.
        value->at = value->parts > 0 ? -1 : static_cast<int32_t>(j);
        if (value->parts == 0 && (value->bytes != part * num_members || piece.content.origin != begin))
          return flow_.refuted(Rule::kMeaning, *members[i].rank, "sends parts of what is not all of a value");
        begin += piece.bytes;
        if (value->parts > 0) value->samples = flow_.samples_of(*value, piece);
        if (value->samples < 0)
          return flow_.refuted(Rule::kMeaning, *members[i].rank, "a part begins or ends inside a sample");
        PIPER_RETURN_IF_ERROR(cross(*value, *members[i].rank, *members[j].rank));
        value->label = flow_.ledger_.exchanged(value->label);
        value->parts = static_cast<int32_t>(num_members);
        value->bytes = piece.bytes;
        piece.content.origin = 0;
      }
      arrived_[j].insert(arrived_[j].end(), scratch_.begin(), scratch_.end());
    }
  for (size_t i = 0; i < members.size(); ++i) {
    const auto& action = std::get<AllToAll>(*members[i].action);
    PIPER_ASSIGN(const int32_t out, label_of_counts(*members[i].rank, action.send_counts, sent_[i]));
    PIPER_ASSIGN(const int32_t in, label_of_counts(*members[i].rank, action.recv_counts, arrived_[i]));
    for (const auto& [member, label] : moved_)
      if (member == i) note_exchange(action, label, out, in);
  }
  for (size_t j = 0; j < members.size(); ++j)
    members[j].rank->contents.put(std::get<AllToAll>(*members[j].action).recv, arrived_[j]);
  return {};
}

// The cut at several places of which the members are; -1: there is none.
int32_t Flow::Transfers::cut_across() const {
  const auto cuts = static_cast<int32_t>(flow_.bundle_.manifest.cuts.size());
  for (int32_t cut = 0; cut < cuts; ++cut) {
    const auto place = [&](const Member& member) { return flow_.places_.place(cut, member.rank->plan->rank); };
    const int32_t first = place(members_[0]);
    if (first >= 0 &&
        std::all_of(members_.begin(), members_.end(), [&](const Member& member) { return place(member) >= 0; }) &&
        std::any_of(members_.begin(), members_.end(), [&](const Member& member) { return place(member) != first; }))
      return cut;
  }
  return -1;
}

// What one place has of its own part goes where rows of all places are; of these only a place's own come back to it.
Status Flow::Transfers::cross(Value& value, const Rank& from, const Rank& to) {
  if (across_ < 0) return {};
  const auto batch = flow_.bundle_.manifest.batch;
  if (value.by_place) {
    const int64_t begin = flow_.places_.place(across_, to.plan->rank) * batch;
    for (const SampleRange& range : flow_.ledger_.samples.ranges(value.samples))
      if (range.first < begin || range.first + range.count > begin + batch)
        return flow_.refuted(Rule::kMeaning, from, "sends rows of one place back to another");
    value.samples = flow_.ledger_.samples.moved(value.samples, -begin);
    value.spread = flow_.places_.id(plan::Spread::kPart, across_, to.plan->rank);
    value.by_place = false;
  } else if (value.spread == flow_.places_.id(plan::Spread::kPart, across_, from.plan->rank)) {
    value.samples = flow_.ledger_.share_of_samples(value.samples, flow_.places_.place(across_, from.plan->rank));
    value.spread = Places::kWhole;
    value.by_place = true;
  }
  return {};
}

Result<int32_t> Flow::Transfers::label_of_counts(Rank& rank, const BufferRange& counts, const Pieces& rows) {
  if (counts.buffer < 0) return -1;
  const auto samples_of_all = [&](const Pieces& pieces) {
    int32_t samples = 0;
    for (const Piece& piece : pieces)
      if (const auto* const value = piece.content.as<Value>(); value != nullptr && samples >= 0) {
        const int32_t here = flow_.samples_of(*value, piece);
        samples = here < 0 ? -1 : flow_.ledger_.samples.append(samples, here);
      }
    return samples;
  };
  const auto members = static_cast<int64_t>(members_.size());
  scratch_.clear();
  rank.contents.take(counts, members * dtype_bytes(DType::kI64), scratch_);
  PIPER_RETURN_IF_ERROR(flow_.check_elements(rank, scratch_, DType::kI64));
  const auto* const first = scratch_[0].content.as<Value>();
  const int64_t whole = members * dtype_bytes(DType::kI64);
  int64_t done = 0;
  const int32_t own = flow_.places_.id(plan::Spread::kPart, across_, rank.plan->rank);
  for (const Piece& piece : scratch_) {
    const int64_t begin = std::exchange(done, done + piece.bytes);
    const auto* const value = piece.content.as<Value>();
    if (value == nullptr || value->label != first->label || value->spread != first->spread ||
        (value->spread != Places::kWhole && value->spread != own))
      return flow_.refuted(Rule::kMeaning, rank, "counts the rows that it moves by what is no value of a program");
    // All of one value, or of values that were exchanged, one of each member.
    const bool of_one = value->bytes == whole && piece.content.origin == begin;
    const bool of_members =
        value->parts > 0 && piece.content.origin == 0 && value->bytes == piece.bytes && piece.bytes * members == whole;
    if (!of_one && !of_members)
      return flow_.refuted(Rule::kMeaning, rank, "counts the rows that it moves by a part of the counts");
  }
  // Rows that came from several ranks and went back to them are their own again.
  const int32_t counted = first->samples, moved = samples_of_all(rows);
  const bool alike = std::all_of(rows.begin(), rows.end(), [&](const Piece& piece) {
    const auto* const value = piece.content.as<Value>();
    return value != nullptr && flow_.samples_of(*value, piece) == counted;
  });
  if (counted != 0 && moved > 0 && counted != moved && !alike)
    return flow_.refuted(Rule::kMeaning, rank,
                         "moves rows of " + text(flow_.ledger_.samples.ranges(moved)) + " by counts of " +
                             text(flow_.ledger_.samples.ranges(counted)));
  return first->label;
}

Exchange& Flow::Transfers::note(const Arrived& arrived, const Exchange& exchange) {
  Exchange& known = exchanges_.emplace(arrived, exchange).first->second;
  if (known.sent != exchange.sent || known.devices != exchange.devices || known.dtype != exchange.dtype ||
      known.counted != exchange.counted || known.row != exchange.row || known.cut != exchange.cut ||
      known.across != exchange.across || known.by != exchange.by)
    known.devices = 0;
  return known;
}

void Flow::Transfers::note_exchange(const AllToAll& action, int32_t label, int32_t sent_rows, int32_t received_rows) {
  if (label < 0) return;
  const bool counted = action.send_counts.buffer >= 0 || action.recv_counts.buffer >= 0;
  const auto name = [&](int32_t of) { return of < 0 ? std::string() : flow_.ledger_.labels[of]; };
  const std::string& sent = flow_.ledger_.labels[label];
  const auto devices = static_cast<int64_t>(members_.size());
  Exchange now{sent, devices, action.dtype, counted, action.row};
  now.across = across_;
  Exchange& known = note({flow_.ledger_.exchanged(label), 0}, now);
  if (counted) known.counts.emplace(name(sent_rows), name(received_rows));
}

Exchanges Flow::Transfers::exchanges() const {
  Exchanges by_reader;
  for (const auto& [reader, arrived] : flow_.exchanged_)
    if (const auto known = exchanges_.find(arrived); known != exchanges_.end()) {
      Exchange exchange = known->second;
      bool all = true;  // also what it came by before is of this label
      for (int32_t before = 1; before < arrived.second; ++before) {
        const auto earlier = exchanges_.find({arrived.first, before});
        all = all && earlier != exchanges_.end();
        if (all) exchange.before.push_back(earlier->second);
      }
      if (all) by_reader.emplace(flow_.ledger_.labels[reader], std::move(exchange));
    }
  return by_reader;
}

}  // namespace piper::verify
