#include "compiler/emit/data_order.h"

namespace piper::emit {
namespace {

// The last accesses of each buffer: the last write, and of each stream the last read since.
class Histories {
 public:
  explicit Histories(size_t buffers) : of_(buffers) {}

  void write(int32_t buffer, uint32_t instruction) {
    Of& h = of_[buffer];
    h.write = instruction;
    h.written = true;
    if (h.first_read < 0) return;
    int32_t tail = h.first_read;
    while (reads_[tail].next >= 0) tail = reads_[tail].next;
    reads_[tail].next = spare_;
    spare_ = h.first_read;
    h.first_read = -1;
  }
  void read(int32_t buffer, uint32_t instruction, int32_t stream) {
    Of& h = of_[buffer];
    for (int32_t r = h.first_read; r >= 0; r = reads_[r].next)
      if (reads_[r].stream == stream) {
        reads_[r].instruction = instruction;
        return;
      }
    int32_t slot = spare_;
    if (slot >= 0) {
      spare_ = reads_[slot].next;
    } else {
      slot = static_cast<int32_t>(reads_.size());
      reads_.emplace_back();
    }
    reads_[slot] = {instruction, stream, h.first_read};
    h.first_read = slot;
  }
  template <class Visit>
  void each_read(int32_t buffer, const Visit& visit) const {
    for (int32_t r = of_[buffer].first_read; r >= 0; r = reads_[r].next) visit(reads_[r].instruction);
  }
  template <class Visit>
  void each_write(int32_t buffer, const Visit& visit) const {
    if (of_[buffer].written) visit(of_[buffer].write);
  }

 private:
  struct Of {
    uint32_t write = 0;
    bool written = false;
    int32_t first_read = -1;
  };
  struct Read {
    uint32_t instruction = 0;
    int32_t stream = -1;
    int32_t next = -1;
  };
  std::vector<Of> of_;
  std::vector<Read> reads_;  // lists, and the list of unused ones
  int32_t spare_ = -1;
};

}  // namespace

DataOrder data_order(const Trace& trace, size_t num_buffers) {
  DataOrder order;
  order.uses.resize(num_buffers);
  for (uint32_t i = 0; i < trace.size(); ++i)
    for (const Access& a : trace.accesses_of(i)) {
      DataOrder::Uses& of = order.uses[a.buffer];
      if (!of.touched) of = {true, i, i, 0, 0};
      of.last = i;
    }
  Histories history(num_buffers);
  size_t at_ordered = 0;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const std::span<const Access> accesses = trace.accesses_of(i);
    const int32_t stream = trace.stream_of(i);
    const auto need = [&](uint32_t earlier) {
      if (trace.stream_of(earlier) != stream) order.needs.push_back(earlier);
    };
    for (; at_ordered < trace.ordered.size() && trace.ordered[at_ordered].first == i; ++at_ordered)
      need(trace.ordered[at_ordered].second);
    for (const Access& a : accesses) {
      history.each_write(a.buffer, need);
      if (a.writes) history.each_read(a.buffer, need);
    }
    order.needs_begin.push_back(static_cast<uint32_t>(order.needs.size()));
    for (const Access& a : accesses)
      if (a.writes) history.write(a.buffer, i);
      else history.read(a.buffer, i, stream);
    for (const Access& a : accesses) {
      DataOrder::Uses& of = order.uses[a.buffer];
      if (of.last != i || of.closing_end > of.closing_begin) continue;  // a buffer may be named twice
      of.closing_begin = static_cast<uint32_t>(order.closing.size());
      const auto keep = [&](uint32_t instruction) { order.closing.push_back(instruction); };
      history.each_write(a.buffer, keep);
      history.each_read(a.buffer, keep);
      of.closing_end = static_cast<uint32_t>(order.closing.size());
    }
  }
  return order;
}

}  // namespace piper::emit
