// The ring of a rank: a file of fixed size in which the threads of a rank write where they are, by stores to shared
// memory and no system call, so that it can be read while the rank lives, hangs, or after it was killed. Written by
// runtime/trace/ring_writer.h, read by ring.h; schemas/README.md says the same in prose.
//
// All of it is 64-bit words in the byte order of the machine:
//   kHeaderWords              HeaderWord says which is which
//   kTrackWords   per track   TrackWord
//   kEventWords x capacity    per track: EventWord; event n of a track is at place n % capacity
// A track has one writer. It stores the words of an event first and then the number of events written, with release:
// who reads that number, the events, and the number again knows which events were overwritten meanwhile.
#pragma once

#include <cstdint>

namespace piper::live {

inline constexpr uint64_t kRingMagic = 0x676e'6972'7270'6970;  // "piprring" on a little-endian machine
inline constexpr uint64_t kRingVersion = 1;
inline constexpr uint64_t kHeaderWords = 64, kTrackWords = 8, kEventWords = 3;
// What a reader believes at most, and the writer keeps to: 64 MiB.
inline constexpr uint64_t kMaxTracks = 1 << 14, kMaxRingBytes = uint64_t{64} << 20;
// Events that a rank keeps at least, over all of its tracks, and a track.
inline constexpr uint64_t kRingEvents = 16384, kTrackEvents = 256;

enum class HeaderWord : uint8_t {
  kMagic,
  kVersion,
  kBytes,  // of the file
  kRank,
  kWorldSize,
  kProcess,       // its id
  kProcessStart,  // in clock ticks since the machine started: tells the process apart from a later one of the same id
  kBoot,          // the first 64 bits of /proc/sys/kernel/random/boot_id
  kTracks,        // their number
  kCapacity,      // events of a track, a power of two
  kDigest,        // SHA-256 of the bundle's manifest, four words, first byte highest
  kDigestEnd = kDigest + 3,
  // Written by who copies the ring of a hang, else 0.
  kProcessState,  // the letter of /proc/PID/stat, 'X' where the process is gone
  kSeen,          // when the copy was made, time of EventWord::kTime
  // Sections of the rank's work, SectionWord each.
  kSections,
  kSectionsEnd = kSections + 13,
};

// What a rank does, as far as its length can be expected to be alike.
enum class Section : uint8_t {
  kStart,       // until the first step begins
  kFirstStep,   // memory and connections are cold
  kStep,        // the others, with their samples, without what follows
  kAgree,       // waits for the other ranks' hosts after a step
  kCheckpoint,  // what a checkpoint keeps the steps waiting
  kEvaluation,
  kEnd,  // after the last step
};
inline constexpr int kNumSections = 7;
// For each section two words: how often it was done, and the longest time it took, in nanoseconds.
inline constexpr uint64_t kSectionWords = 2;
static_assert(static_cast<int>(HeaderWord::kSectionsEnd) - static_cast<int>(HeaderWord::kSections) + 1 ==
              kNumSections * kSectionWords);
static_assert(static_cast<uint64_t>(HeaderWord::kSectionsEnd) < kHeaderWords);

// kWritten: events so far. kExchange: of what the newest event began, what pack_exchange() says; written by the track's
// writer alone, whenever a message makes it wait and when that has come.
enum class TrackWord : uint8_t { kWritten, kKind, kIndex, kExchange };

// A thread of a rank, or a queue of its device.
enum class TrackKind : uint8_t {
  kStream,  // kIndex: of the plan
  kHost,    // submits steps, and does what lies between them
  kLoader,  // reads samples ahead
  kWriter,  // writes checkpoints
};
inline constexpr int kNumTrackKinds = 4;

// kWhat: EventKind in bits 0 to 7; bit 8: of an evaluation; bit 9: the instruction computes, it neither communicates
// nor waits; the batch of the evaluation in bits 10 to 31, the instruction in bits 32 to 63.
enum class EventWord : uint8_t { kTime, kStep, kWhat };  // kTime: CLOCK_MONOTONIC, nanoseconds

// What a track does from the event's time on, until its next event.
enum class EventKind : uint8_t {
  kInstruction,  // stream: executes an instruction of the step; the one before it has ended
  kStreamDone,   // stream: all its instructions of the step have ended
  kStarting,     // host: reads the plan, loads weights, opens communicators
  kData,         // host: waits for the samples of the step
  kStep,         // host: has submitted the step, waits for its streams
  kReport,       // host: writes the log of the step
  kAgree,        // host: waits for all other ranks' hosts after the step
  kSave,         // host: copies a checkpoint of the step, and waits for the one before to be written
  kEvaluate,     // host: evaluates after the step
  kEnding,       // host: after the last step
  kEnded,        // host, writer: done
  kRead,         // loader: reads the samples of the step
  kWrite,        // writer: writes its files of the checkpoint of the step
  kGather,       // writer: waits for the other ranks' part of the checkpoint
  kIdle,         // loader, writer: nothing to do
};
inline constexpr int kNumEventKinds = 15;

constexpr Section section_of(EventKind kind, bool first_step_done) {
  switch (kind) {
    case EventKind::kStarting: return Section::kStart;
    case EventKind::kAgree: return Section::kAgree;
    case EventKind::kSave: return Section::kCheckpoint;
    case EventKind::kEvaluate: return Section::kEvaluation;
    case EventKind::kEnding:
    case EventKind::kEnded: return Section::kEnd;
    default: return first_step_done ? Section::kStep : Section::kFirstStep;
  }
}

constexpr uint64_t pack_what(EventKind kind, bool evaluation, bool computes, uint64_t batch, int32_t instruction) {
  return static_cast<uint64_t>(kind) | uint64_t{evaluation} << 8 | uint64_t{computes} << 9 | (batch & 0x3f'ffff) << 10 |
         static_cast<uint64_t>(static_cast<uint32_t>(instruction)) << 32;
}

// An instruction that communicates does so in exchanges, and so do hosts that meet; they are numbered from 1 the same
// way on all ranks that take part. The word says up to which one this rank has come at least, and what it waits for
// inside of it. It is of the instruction only if `written` is the number of events now: what ended before it began says
// nothing of it. Bit 0: it waits; bit 1: to receive, else to send; bits 2 to 25: the other rank; bits 26 to 47: the
// exchange, the last number stands for all beyond; bits 48 to 63: the lowest of `written`.
inline constexpr uint64_t kExchangeNumbers = uint64_t{1} << 22, kExchangeRanks = uint64_t{1} << 24,
                          kExchangeWritten = uint64_t{1} << 16;
constexpr uint64_t pack_exchange(uint64_t written, uint64_t number, bool waits, bool receives, int32_t peer) {
  const uint64_t last = kExchangeNumbers - 1, rank = static_cast<uint64_t>(static_cast<uint32_t>(peer));
  return uint64_t{waits} | uint64_t{receives} << 1 | (rank & (kExchangeRanks - 1)) << 2 |
         (number < last ? number : last) << 26 | (written & (kExchangeWritten - 1)) << 48;
}

constexpr uint64_t ring_bytes(uint64_t tracks, uint64_t capacity) {
  return 8 * (kHeaderWords + tracks * (kTrackWords + capacity * kEventWords));
}

}  // namespace piper::live
