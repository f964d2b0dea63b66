#include "tests/standin/nccl_work.h"

#include <algorithm>
#include <cstring>

#include "schemas/plan/convert_elements.h"

namespace piper::standin {

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
  }
  return 0;
}
const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce: return "ncclAllReduce";
    case Kind::kReduceScatter: return "ncclReduceScatter";
    case Kind::kAllGather: return "ncclAllGather";
    case Kind::kSend: return "ncclSend";
    case Kind::kReceive: return "ncclRecv";
  }
  return "?";
}
bool is_message(Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; }

namespace {

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return "ncclUint8";
    case ncclFloat16: return "ncclFloat16";
    case ncclBfloat16: return "ncclBfloat16";
    case ncclInt32: return "ncclInt32";
    case ncclFloat32: return "ncclFloat32";
    case ncclInt64: return "ncclInt64";
    case ncclFloat64: return "ncclFloat64";
  }
  return "?";
}
void add(ncclDataType_t type, std::byte* to, const std::byte* from, size_t count) {
  const auto sum = [&]<class T>(T) {
    for (size_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] += reinterpret_cast<const T*>(from)[i];
  };
  switch (type) {
    case ncclUint8: return sum(uint8_t{});
    case ncclInt32: return sum(int32_t{});
    case ncclInt64: return sum(int64_t{});
    case ncclFloat32: return sum(float{});
    case ncclFloat64: return sum(double{});
    case ncclFloat16:
    case ncclBfloat16: break;
  }
  const DType half = type == ncclFloat16 ? DType::kF16 : DType::kBF16;
  for (size_t i = 0; i < count; ++i) {
    float a = 0, b = 0;
    convert_elements(half, to + 2 * i, DType::kF32, &a, 1);
    convert_elements(half, from + 2 * i, DType::kF32, &b, 1);
    a += b;
    convert_elements(DType::kF32, &a, half, to + 2 * i, 1);
  }
}
// For elements [first, first + count) of all members, beginning after member `last` and ending with it.
void add_in_ring(const std::vector<const Work*>& members, size_t last, size_t first, size_t count, std::byte* sum) {
  const size_t element = size_of(members[0]->type);
  for (size_t i = 1; i <= members.size(); ++i) {
    const std::byte* from = members[(last + i) % members.size()]->send + first * element;
    if (i == 1) std::memcpy(sum, from, count * element);
    else add(members[0]->type, sum, from, count);
  }
}

}  // namespace

std::string text_of(const Work& o) {
  return std::string(name_of(o.kind)) + " of " + std::to_string(o.count) + " " + name_of(o.type);
}

size_t received_bytes(const Work& work, size_t members) {
  if (work.kind == Kind::kSend) return 0;
  return work.count * size_of(work.type) * (work.kind == Kind::kAllGather ? members : 1);
}

std::string difference(const std::string& communicator, int from, int to, uint64_t number, const Work& a,
                       const Work& b) {
  const bool message = is_message(b.kind);
  const bool kinds = message ? is_message(a.kind) : a.kind == b.kind;
  if (kinds && a.count == b.count && a.type == b.type) return {};
  const auto& [one, other] = std::minmax(a, b, [](const Work& x, const Work& y) { return x.member < y.member; });
  const std::string where = message ? "message " + std::to_string(number) + " from member " + std::to_string(from) +
                                          " to member " + std::to_string(to)
                                    : "collective " + std::to_string(number);
  return "the calls of " + where + " of '" + communicator + "' differ: member " + std::to_string(one.member) + " has " +
         text_of(one) + ", member " + std::to_string(other.member) + " has " + text_of(other);
}

void perform(std::vector<const Work*> all) {
  const Work& o = *all[0];
  const size_t element = size_of(o.type);
  if (is_message(o.kind) && all.size() == 1) {  // to itself
    if (o.count > 0) std::memmove(o.recv, o.send, o.count * element);
    return;
  }
  if (is_message(o.kind)) {
    const Work &sends = o.kind == Kind::kSend ? *all[0] : *all[1], &receives = o.kind == Kind::kSend ? *all[1] : o;
    if (o.count > 0) std::memmove(receives.recv, sends.send, o.count * element);
    return;
  }
  if (o.count == 0) return;
  const size_t members = all.size();
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->member < b->member; });
  // All of it before anything is written: operands may be results.
  std::vector<std::byte> result(o.count * element * (o.kind == Kind::kAllReduce ? 1 : members));
  for (size_t part = 0; part < members; ++part) {
    const size_t first = part * o.count / members, end = (part + 1) * o.count / members;
    if (o.kind == Kind::kAllReduce) {
      if (end > first) add_in_ring(all, part, first, end - first, result.data() + first * element);
    } else if (o.kind == Kind::kReduceScatter) {
      add_in_ring(all, part, part * o.count, o.count, result.data() + part * o.count * element);
    } else {
      std::memcpy(result.data() + part * o.count * element, all[part]->send, o.count * element);
    }
  }
  for (size_t member = 0; member < members; ++member) {
    const bool scattered = o.kind == Kind::kReduceScatter;
    std::memcpy(all[member]->recv, result.data() + (scattered ? member * o.count * element : 0),
                scattered ? o.count * element : result.size());
  }
}

}  // namespace piper::standin

extern "C" const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}
