#include "runtime/hal/cpu/transport_collectives.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/hal/cpu/counted_exchange.h"
#include "runtime/hal/group_channels.h"
#include "runtime/hal/message_waits.h"
#include "runtime/hal/position_group.h"
#include "schemas/base/check.h"
#include "schemas/plan/convert_elements.h"

namespace piper::hal {

namespace {

// What the queue's own thread does, blocking until it is done.
template <class F>
class Blocking : public Command {
 public:
  explicit Blocking(F body) : body_(std::move(body)) {}
  Status issue(Queue&, const Submission& submission) override { return body_(submission.wait); }

 private:
  F body_;
};

template <class F>
std::unique_ptr<Command> blocking(F body) {
  return std::make_unique<Blocking<F>>(std::move(body));
}

std::unique_ptr<Command> exchange(Transport& transport, const std::vector<DeviceTransfer>& transfers) {
  std::vector<Transfer> list;
  for (const DeviceTransfer& t : transfers)
    list.push_back({t.direction, t.peer, t.channel, t.data.in_device(), t.bytes});
  return blocking([prepared = transport.prepare(std::move(list))](const WaitControl& wait) {
    const ExchangeScope scope(wait);
    return prepared->run(wait);
  });
}

MadeCommand sum_pieces(const PieceSum& sum, AddF32 add_f32) {
  PIPER_RETURN_IF_ERROR(check_sum(sum));
  return blocking([sum, add_f32](const WaitControl&) {
    add_piece(sum, add_f32);
    return Status();
  });
}

std::unique_ptr<Command> copy(Address to, Address from, int64_t bytes) {
  return blocking([to = to.in_device(), from = from.in_device(), bytes](const WaitControl&) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return Status();
  });
}

MadeCommand convert(Elements to, Elements from, int64_t count) {
  if (!can_convert_elements(from.type, to.type))
    return Status::failure("R0404", "CPU ranks cannot send " + std::string(dtype_name(from.type)) + " as " +
                                        std::string(dtype_name(to.type)));
  return blocking([to, from, count](const WaitControl&) {
    convert_elements(from.type, from.data.in_device(), to.type, to.data.in_device(), count);
    return Status();
  });
}

}  // namespace

std::unique_ptr<Group> make_transport_group(Transport& transport, std::vector<int32_t> ranks, int32_t channel,
                                            AddF32 add_f32) {
  const int64_t position = std::find(ranks.begin(), ranks.end(), transport.rank()) - ranks.begin();
  PIPER_CHECK(position < static_cast<int64_t>(ranks.size()), "rank ", transport.rank(), " is not in the group");
  GroupParts parts;
  parts.exchange = [&transport](const std::vector<DeviceTransfer>& t) { return exchange(transport, t); };
  parts.sum = [add_f32](const PieceSum& sum) { return sum_pieces(sum, add_f32); };
  parts.copy = &copy;
  parts.convert = &convert;
  parts.exchange_counted = [&transport, ranks, channel](const ExchangeOperands& operands) {
    return blocking([counted = CountedExchange::prepare(transport, ranks, channel, operands)](const WaitControl& wait) {
      return counted->run(wait);
    });
  };
  return make_position_group(std::move(parts), std::move(ranks), position, channel);
}

namespace {

class TransportCollectives : public Collectives {
 public:
  TransportCollectives(Transport& transport, AddF32 add_f32) : transport_(transport), add_f32_(add_f32) {}

  Result<std::vector<std::unique_ptr<Group>>> open_groups(const std::vector<plan::Communicator>& communicators,
                                                          ControlChannel& control, const WaitControl& wait) override {
    PIPER_ASSIGN(const std::vector<int32_t> channels, agree_on_group_channels(communicators, control, wait));
    std::vector<std::unique_ptr<Group>> groups;
    for (size_t i = 0; i < communicators.size(); ++i) {
      PIPER_RETURN_IF_ERROR(position_in(communicators[i], transport_.rank()).status());
      groups.push_back(make_transport_group(transport_, communicators[i].ranks, channels[i], add_f32_));
    }
    return groups;
  }

  MadeCommand send(const plan::Channel& channel, Address data, int64_t bytes) override {
    return message(Direction::kSend, channel, data, bytes);
  }
  MadeCommand recv(const plan::Channel& channel, Address data, int64_t bytes) override {
    return message(Direction::kReceive, channel, data, bytes);
  }
  int64_t buffer_bytes() const override { return transport_.buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { transport_.keep(std::move(memory)); }

 private:
  MadeCommand message(Direction direction, const plan::Channel& channel, Address data, int64_t bytes) {
    PIPER_RETURN_IF_ERROR(check_channel(channel));
    return exchange(transport_, {{direction, channel.peer, channel.id, data, bytes}});
  }

  Transport& transport_;
  AddF32 add_f32_;
};

}  // namespace

std::unique_ptr<Collectives> make_transport_collectives(Transport& transport, AddF32 add_f32) {
  return std::make_unique<TransportCollectives>(transport, add_f32);
}

}  // namespace piper::hal
