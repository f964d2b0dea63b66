#include "schemas/perfetto/trace_writer.h"

#include <protozero/pbf_builder.hpp>

namespace piper::perfetto {
namespace {

// Field numbers of perfetto_trace.proto.
enum class Trace : protozero::pbf_tag_type { kPacket = 1 };
enum class Packet : protozero::pbf_tag_type { kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kTrackDescriptor = 60 };
enum class Track : protozero::pbf_tag_type { kUuid = 1, kName = 2, kProcess = 3, kParent = 5 };
enum class Process : protozero::pbf_tag_type { kPid = 1, kName = 6 };
enum class Event : protozero::pbf_tag_type {
  kAnnotation = 4,
  kType = 9,
  kTrack = 11,
  kName = 23,
  kFlow = 47,  // fixed64, not packed
  kLastFlow = 48,
};
enum class Annotation : protozero::pbf_tag_type { kInteger = 4, kText = 6, kName = 10 };
constexpr int32_t kSliceBegin = 1, kSliceEnd = 2;
constexpr int kTracksOfWriter = 32;  // bits of a track's id that number the tracks of one writer

template <class Fill>
void event_packet(std::string& bytes, uint32_t sequence, int64_t time_ns, const Fill& fill) {
  protozero::pbf_builder<Trace> trace(bytes);
  protozero::pbf_builder<Packet> packet(trace, Trace::kPacket);
  packet.add_uint64(Packet::kTimestamp, static_cast<uint64_t>(time_ns));
  packet.add_uint32(Packet::kSequence, sequence);
  protozero::pbf_builder<Event> event(packet, Packet::kTrackEvent);
  fill(event);
}

template <class Fill>
void track_packet(std::string& bytes, uint32_t sequence, uint64_t uuid, const Fill& fill) {
  protozero::pbf_builder<Trace> trace(bytes);
  protozero::pbf_builder<Packet> packet(trace, Trace::kPacket);
  packet.add_uint32(Packet::kSequence, sequence);
  protozero::pbf_builder<Track> track(packet, Packet::kTrackDescriptor);
  track.add_uint64(Track::kUuid, uuid);
  fill(track);
}

}  // namespace

// Zero is no valid id, of sequences and of tracks.
TraceWriter::TraceWriter(uint32_t number)
    : sequence_(number + 1), next_track_((static_cast<uint64_t>(number) << kTracksOfWriter) + 1) {}

uint64_t TraceWriter::process(int32_t pid, const std::string& name) {
  track_packet(bytes_, sequence_, next_track_, [&](protozero::pbf_builder<Track>& track) {
    protozero::pbf_builder<Process> process(track, Track::kProcess);
    process.add_int32(Process::kPid, pid);
    process.add_string(Process::kName, name);
  });
  return next_track_++;
}

uint64_t TraceWriter::track(uint64_t process, const std::string& name) {
  track_packet(bytes_, sequence_, next_track_, [&](protozero::pbf_builder<Track>& track) {
    track.add_uint64(Track::kParent, process);
    track.add_string(Track::kName, name);
  });
  return next_track_++;
}

void TraceWriter::slice(uint64_t track, int64_t begin_ns, int64_t end_ns, const std::string& name, Flow flow,
                        std::span<const Note> notes) {
  event_packet(bytes_, sequence_, begin_ns, [&](protozero::pbf_builder<Event>& event) {
    event.add_enum(Event::kType, kSliceBegin);
    event.add_uint64(Event::kTrack, track);
    event.add_string(Event::kName, name);
    if (flow.id > 0) event.add_fixed64(flow.last ? Event::kLastFlow : Event::kFlow, flow.id);
    for (const Note& note : notes) {
      protozero::pbf_builder<Annotation> annotation(event, Event::kAnnotation);
      annotation.add_string(Annotation::kName, note.name);
      if (note.text.empty()) annotation.add_int64(Annotation::kInteger, note.number);
      else annotation.add_string(Annotation::kText, note.text);
    }
  });
  event_packet(bytes_, sequence_, end_ns, [&](protozero::pbf_builder<Event>& event) {
    event.add_enum(Event::kType, kSliceEnd);
    event.add_uint64(Event::kTrack, track);
  });
}

}  // namespace piper::perfetto
