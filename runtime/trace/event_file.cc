#include "runtime/trace/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "schemas/plan/chunk_digests.h"

namespace piper::trace {

namespace {

// Fields of tensorflow/core/util/event.proto and framework/summary.proto.
enum Field : uint32_t {
  kEventWallTime = 1,
  kEventStep = 2,
  kEventFileVersion = 3,
  kEventSummary = 5,
  kEventSessionLog = 7,
  kSummaryValue = 1,
  kValueTag = 1,
  kValueSimple = 2,
  kSessionLogStatus = 1
};
constexpr uint64_t kSessionStart = 1;

template <class T>
void put_fixed(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  to.append(bytes.data(), bytes.size());
}

// A protobuf message as its text grows.
class Message {
 public:
  void varint(Field field, uint64_t value) {
    key(field, 0);
    number(value);
  }
  void real(Field field, double value) {
    key(field, 1);
    put_fixed(text_, value);
  }
  void real(Field field, float value) {
    key(field, 5);
    put_fixed(text_, value);
  }
  void bytes(Field field, std::string_view value) {
    key(field, 2);
    number(value.size());
    text_ += value;
  }
  const std::string& text() const { return text_; }

 private:
  void key(Field field, uint32_t wire_type) { number(field << 3 | wire_type); }
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

Message event_now() {
  Message event;
  event.real(kEventWallTime,
             std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  return event;
}

// So that the checksum of a record that holds checksums is a good one, too.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = plan::crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace

Result<EventFile> EventFile::open(const std::string& folder, int64_t first) {
  EventFile events;
  if (folder.empty()) return events;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  // TensorBoard reads the files of a folder in the order of their names.
  for (int number = 0; events.file_ == nullptr && number < 1000; ++number) {
    events.path_ = folder + "/events.out.tfevents." + std::to_string(seconds.count()) + "." + host.data() + "." +
                   std::to_string(getpid()) + "." + std::to_string(number);
    events.file_.reset(std::fopen(events.path_.c_str(), "wxe"));
    if (events.file_ == nullptr && errno != EEXIST) break;
  }
  if (events.file_ == nullptr)
    return Status::failure("R0601", "cannot write the event file '" + events.path_ + "': " + std::strerror(errno));

  Message version = event_now();
  version.bytes(kEventFileVersion, "brain.Event:2");
  PIPER_RETURN_IF_ERROR(events.append(version.text()));
  Message session, start = event_now();
  session.varint(kSessionLogStatus, kSessionStart);
  start.varint(kEventStep, static_cast<uint64_t>(first));
  start.bytes(kEventSessionLog, session.text());
  PIPER_RETURN_IF_ERROR(events.append(start.text()));
  return events;
}

Status EventFile::write(int64_t step, const std::vector<Scalar>& scalars) {
  if (file_ == nullptr) return {};
  Message summary;
  for (const Scalar& scalar : scalars) {
    Message value;
    value.bytes(kValueTag, scalar.tag);
    value.real(kValueSimple, scalar.value);
    summary.bytes(kSummaryValue, value.text());
  }
  Message event = event_now();
  event.varint(kEventStep, static_cast<uint64_t>(step));
  event.bytes(kEventSummary, summary.text());
  return append(event.text());
}

Status EventFile::append(std::string_view event) {
  std::string record;
  put_fixed(record, static_cast<uint64_t>(event.size()));
  put_fixed(record, masked_crc(record));
  record += event;
  put_fixed(record, masked_crc(event));
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() || std::fflush(file_.get()) != 0)
    return Status::failure("R0601", "cannot write the event file '" + path_ + "': " + std::strerror(errno));
  return {};
}

}  // namespace piper::trace
