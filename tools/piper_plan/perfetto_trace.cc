#include "tools/piper_plan/perfetto_trace.h"

#include <cmath>
#include <protozero/pbf_builder.hpp>
#include <vector>

#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/play_bundle.h"
#include "tools/piper_plan/subject.h"

namespace piper::tools {
namespace {

using namespace plan;
using timeline::Kind;
using timeline::Measured;
using timeline::Timeline;

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
constexpr uint32_t kSequence = 1;  // one writer
constexpr const char* kKindNames[] = {"run",        "send",       "recv",   "all_reduce", "reduce_scatter",
                                      "all_gather", "all_to_all", "record", "wait",       "update"};

using Fields = protozero::pbf_builder<Event>;

class TraceWriter {
 public:
  TraceWriter(const Bundle& bundle, const Timeline& timeline, const Measured* measured)
      : bundle_(bundle), timeline_(timeline), measured_(measured) {
    for (const auto& plan : bundle.ranks) flows_.emplace_back(plan.instructions.size());
    for (size_t t = 0; t < timeline.transfers.size(); ++t) {
      const auto ends = timeline.ends_of(timeline.transfers[t]);
      for (size_t e = 0; ends.size() > 1 && e < ends.size(); ++e)
        flows_[static_cast<size_t>(ends[e].plan)][static_cast<size_t>(ends[e].instruction)] = {t + 1,
                                                                                               e + 1 == ends.size()};
    }
  }

  std::string write() {
    for (size_t p = 0; p < bundle_.ranks.size(); ++p) rank(p, false);
    for (size_t p = 0; measured_ != nullptr && p < bundle_.ranks.size(); ++p) rank(p, true);
    return std::move(bytes_);
  }

 private:
  struct Flow {
    uint64_t id = 0;  // 0: none
    bool last = false;
  };
  struct Times {
    double begin = 0, end = 0;
  };

  // Simulated and measured flows have different numbers.
  uint64_t flow_id(const Flow& flow, bool measured) const {
    return flow.id + (measured ? timeline_.transfers.size() : 0);
  }
  int64_t nanoseconds(double time) const { return std::llround(time * (measured_ == nullptr ? 1e6 : 1e3)); }
  Times times_of(size_t p, size_t i, bool measured) const {
    if (measured) return {measured_->begin_us[p][i], measured_->end_us[p][i]};
    return {timeline_.activities[p][i].begin, timeline_.activities[p][i].end};
  }

  void rank(size_t p, bool measured) {
    const RankPlan& plan = bundle_.ranks[p];
    const uint64_t process = next_track_++;
    track(process, 0, "rank " + std::to_string(plan.rank) + (measured ? ", measured" : ""));
    const uint64_t first = next_track_;
    for (const auto& stream : plan.streams) track(next_track_++, process, stream.name);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto& activity = timeline_.activities[p][i];
      const Times times = times_of(p, i, measured);
      if (activity.kind == Kind::kRecord || (activity.kind == Kind::kWait && times.begin == times.end)) continue;
      const uint64_t stream = first + static_cast<uint64_t>(activity.stream);
      begin(p, i, stream, times.begin, measured);
      packet(times.end, [stream](Fields& event) {
        event.add_enum(Event::kType, kSliceEnd);
        event.add_uint64(Event::kTrack, stream);
      });
    }
  }

  void begin(size_t p, size_t i, uint64_t stream, double time, bool measured) {
    const RankPlan& plan = bundle_.ranks[p];
    const Instruction& instruction = plan.instructions[i];
    const Subject subject = subject_of(plan, instruction.action);
    const bool program = subject.program >= 0;
    packet(time, [&](Fields& event) {
      event.add_enum(Event::kType, kSliceBegin);
      event.add_uint64(Event::kTrack, stream);
      event.add_string(Event::kName,
                       (program ? "" : kKindNames[instruction.action.index()] + std::string(" ")) + subject.name);
      if (const Flow& flow = flows_[p][i]; flow.id > 0)
        event.add_fixed64(flow.last ? Event::kLastFlow : Event::kFlow, flow_id(flow, measured));
      annotate(event, "instruction", static_cast<int64_t>(i));
      if (subject.bytes > 0) annotate(event, "bytes", subject.bytes);
      if (program) annotate(event, "program", bundle_.programs[static_cast<size_t>(subject.program)].name);
      if (instruction.provenance >= 0)
        annotate(event, "strategy", bundle_.provenance[static_cast<size_t>(instruction.provenance)].text);
    });
  }

  template <class Fill>
  void packet(double time, const Fill& fill) {
    protozero::pbf_builder<Trace> trace(bytes_);
    protozero::pbf_builder<Packet> packet(trace, Trace::kPacket);
    packet.add_uint64(Packet::kTimestamp, static_cast<uint64_t>(nanoseconds(time)));
    packet.add_uint32(Packet::kSequence, kSequence);
    Fields event(packet, Packet::kTrackEvent);
    fill(event);
  }
  // `parent` = 0: a process of that name.
  void track(uint64_t uuid, uint64_t parent, const std::string& name) {
    protozero::pbf_builder<Trace> trace(bytes_);
    protozero::pbf_builder<Packet> packet(trace, Trace::kPacket);
    packet.add_uint32(Packet::kSequence, kSequence);
    protozero::pbf_builder<Track> track(packet, Packet::kTrackDescriptor);
    track.add_uint64(Track::kUuid, uuid);
    if (parent > 0) {
      track.add_uint64(Track::kParent, parent);
      track.add_string(Track::kName, name);
      return;
    }
    protozero::pbf_builder<Process> process(track, Track::kProcess);
    process.add_int32(Process::kPid, static_cast<int32_t>(uuid));
    process.add_string(Process::kName, name);
  }
  static void annotate(Fields& event, const char* name, int64_t value) {
    protozero::pbf_builder<Annotation> note(event, Event::kAnnotation);
    note.add_string(Annotation::kName, name);
    note.add_int64(Annotation::kInteger, value);
  }
  static void annotate(Fields& event, const char* name, const std::string& value) {
    protozero::pbf_builder<Annotation> note(event, Event::kAnnotation);
    note.add_string(Annotation::kName, name);
    note.add_string(Annotation::kText, value);
  }

  const Bundle& bundle_;
  const Timeline& timeline_;
  const Measured* measured_;
  std::vector<std::vector<Flow>> flows_;  // [loaded rank][instruction]
  uint64_t next_track_ = 1;
  std::string bytes_;
};

}  // namespace

std::string perfetto_trace(const Bundle& bundle, const Timeline& timeline, const Measured* measured) {
  return TraceWriter(bundle, timeline, measured).write();
}

Result<std::string> trace_bundle(const std::string& directory, const Costs& costs, const std::string& profile,
                                 const Link& link) {
  PIPER_ASSIGN(const StepOfBundle played, play_bundle(directory, costs, profile, link));
  return perfetto_trace(played.bundle, played.timeline, played.measured ? &*played.measured : nullptr);
}

}  // namespace piper::tools
