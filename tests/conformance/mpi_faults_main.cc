// The MPI transport where MPI fails, is late or has few tags; run under mpirun as: mpi_faults_test CASE. The MPI
// functions defined here come before the library's and make what a case needs happen. Each rank prints what it finds
// wrong; the exit status is 1 then.
#include <malloc.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>

#include "runtime/exec/session/session.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/hal/link_delay.h"
#include "runtime/hal/mpi/mpi_transport.h"
#include "tests/conformance/collective_cases.h"
#include "tests/unit/hand_written_plans.h"

namespace {

using namespace std::chrono_literals;

std::atomic<bool> testsome_fails{false};
int tag_bound = 0;  // 0: the library's

// The receives that MPI may still write to, and whether memory of one was given back to the heap.
struct Posted {
  MPI_Request request = MPI_REQUEST_NULL;
  uintptr_t begin = 0;
  size_t bytes = 0;  // 0: no receive
};
struct {
  std::mutex mutex;
  std::array<Posted, 64> receives{};
  bool freed = false;
} watch;

void receive_posted(MPI_Request request, const void* buffer, int bytes) {
  std::lock_guard lock(watch.mutex);
  for (Posted& place : watch.receives) {
    if (place.bytes > 0) continue;
    place = {request, reinterpret_cast<uintptr_t>(buffer), static_cast<size_t>(bytes)};
    return;
  }
}

void request_ended(MPI_Request request) {
  std::lock_guard lock(watch.mutex);
  for (Posted& place : watch.receives)
    if (place.request == request) place = {};
}

void memory_freed(void* block) {
  const auto begin = reinterpret_cast<uintptr_t>(block), end = begin + malloc_usable_size(block);
  std::lock_guard lock(watch.mutex);
  for (const Posted& place : watch.receives)
    if (place.bytes > 0 && place.begin < end && begin < place.begin + place.bytes) watch.freed = true;
}

std::string memory_of_receives() {
  std::lock_guard lock(watch.mutex);
  if (watch.freed) return "memory of a receive that is still posted went back to the heap";
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const Posted& place : watch.receives) {
    unsigned char resident = 0;
    if (place.bytes > 0 && mincore(reinterpret_cast<void*>(place.begin / page * page), 1, &resident) != 0)
      return "memory of a receive that is still posted is not mapped any more";
  }
  return "";
}

}  // namespace

void* operator new(size_t bytes) {
  if (void* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
// Not inlined: GCC 12 would see `free` of what came from `new` in the callers of delete (-Wmismatched-new-delete).
[[gnu::noinline]] static void give_back(void* block) noexcept {
  if (block != nullptr) memory_freed(block);
  std::free(block);
}
void operator delete(void* block) noexcept { give_back(block); }
void operator delete(void* block, size_t) noexcept { give_back(block); }

extern "C" {

int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* found) {
  const int code = PMPI_Comm_get_attr(comm, key, value, found);
  if (key == MPI_TAG_UB && tag_bound > 0) *static_cast<int**>(value) = &tag_bound;
  return code;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  return tag_bound > 0 && tag > tag_bound ? MPI_ERR_TAG : PMPI_Isend(data, count, type, peer, tag, comm, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  if (tag_bound > 0 && tag > tag_bound) return MPI_ERR_TAG;
  const int code = PMPI_Irecv(data, count, type, peer, tag, comm, request);
  if (code == MPI_SUCCESS) receive_posted(*request, data, count);
  return code;
}

int MPI_Testsome(int count, MPI_Request requests[], int* finished, int indices[], MPI_Status statuses[]) {
  if (testsome_fails) return MPI_ERR_INTERN;
  const std::vector<MPI_Request> before(requests, requests + count);
  const int code = PMPI_Testsome(count, requests, finished, indices, statuses);
  for (int i = 0; i < *finished; ++i) request_ended(before[static_cast<size_t>(indices[i])]);
  return code;
}

}  // extern "C"

namespace piper::conformance {
namespace {

using hal::Direction;

// What is waited for without result ends long before a test does.
const hal::WaitControl kShort{nullptr, 100ms}, kWait{nullptr, 20s};

std::byte* memory(size_t bytes) {
  static std::array<std::byte, 1 << 16> all;
  static size_t used = 0;
  return all.data() + (used += bytes) - bytes;
}

std::string message_of(const Status& status) { return status.ok() ? "" : status.error().message; }

std::string expect(const Status& status, const std::string& code, const std::string& text = "") {
  if (status.ok()) return "no failure where " + code + " is expected";
  return status.error().code == code && status.error().message.find(text) != std::string::npos
             ? ""
             : status.error().code + ": " + status.error().message;
}

// After it, what either rank sent before has arrived.
std::string meet(hal::Transport& c) {
  const int32_t peer = 1 - c.rank();
  return message_of(
      c.prepare({{Direction::kSend, peer, 98, memory(8), 8}, {Direction::kReceive, peer, 98, memory(8), 8}})
          ->run(kWait));
}

// MPI's own words reach the stream, at once, and MPI goes on where it can.
std::string testsome(hal::Transport& c) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  PMPI_Error_string(MPI_ERR_INTERN, text, &length);
  testsome_fails = true;
  const Status status = c.prepare({{Direction::kReceive, 1 - c.rank(), 5, memory(8), 8}})->run(kWait);
  testsome_fails = false;
  if (std::string wrong = expect(status, "R0303", text); !wrong.empty()) return wrong;
  return meet(c);
}

// One message of an exchange failed, and the other one never comes.
std::string failed_part(hal::Transport& c) {
  if (c.rank() == 1) (void)c.prepare({{Direction::kSend, 0, 9, memory(48), 48}})->run(kWait);
  else if (std::string wrong = expect(
               c.prepare({{Direction::kReceive, 1, 9, memory(64), 64}, {Direction::kReceive, 1, 10, memory(8), 8}})
                   ->run(kWait),
               "R0303", "rank 1 sent 48 bytes on channel 9");
           !wrong.empty())
    return wrong;
  return meet(c);
}

// Messages of the host and on delayed links that come when nobody waits for them.
std::string late_messages(hal::Transport& c) {
  std::array<char, 8> word;
  word.fill('-');
  const hal::LinkDelay delay{1us, 0};
  if (c.rank() == 0) {
    if (auto wrong = expect(hal::TransportChannel(c).receive(1, word.data(), word.size(), kShort), "R0302");
        !wrong.empty())
      return wrong;
    const auto slow = hal::delay_links(c, delay);
    if (auto wrong = expect(slow->prepare({{Direction::kReceive, 1, 30, memory(8), 8}})->run(kShort), "R0302");
        !wrong.empty())
      return wrong;
  }
  if (auto wrong = memory_of_receives(); !wrong.empty()) return wrong;
  if (auto wrong = meet(c); !wrong.empty()) return wrong;
  if (c.rank() == 1) {
    if (auto wrong = message_of(hal::TransportChannel(c).send(0, "too late", 8, kWait)); !wrong.empty()) return wrong;
    const auto slow = hal::delay_links(c, delay);
    if (auto wrong = message_of(slow->prepare({{Direction::kSend, 0, 30, memory(8), 8}})->run(kWait)); !wrong.empty())
      return wrong;
  }
  if (auto wrong = meet(c); !wrong.empty()) return wrong;
  return std::count(word.begin(), word.end(), '-') == 8 ? "" : "a late message wrote where its receiver was";
}

// A message of a plan comes when the rank that waited for it has ended.
std::string late_plan_message(hal::Transport& c) {
  plan::Bundle bundle = hand_written::pipeline();
  auto& instructions = bundle.ranks[1].instructions.edit();
  instructions.erase(instructions.begin() + 2);  // rank 1 does not send
  const auto folder = std::filesystem::temp_directory_path() / ("piper-mpi-faults-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::string wrong = message_of(hand_written::write_files(folder));
  auto weights = checkpoint::WeightSource::open("", folder / "weights.safetensors", bundle.manifest);
  data::DataOptions options;
  options.path = folder / "data.safetensors";
  auto data = data::DataSource::open(options, bundle.manifest);
  std::filesystem::remove_all(folder);
  if (!wrong.empty() || !weights.ok() || !data.ok()) return wrong + "no files to train with";
  exec::Session session;
  session.bundle = &bundle;
  session.weights = &*weights;
  session.data = data->get();
  session.options.steps = 1;
  session.options.timeout = 3s;
  exec::CpuBackendOptions cpu;
  cpu.device.huge_pages = false;
  hal::TransportChannel control(c);
  exec::run_rank(session, bundle.ranks[static_cast<size_t>(c.rank())], exec::cpu_backend(c, cpu), control);
  if (c.rank() == 0) wrong = expect(session.stop.take_failure(), "R0302", "instr 4 recv from rank 1");
  if (wrong.empty()) wrong = memory_of_receives();
  if (wrong.empty()) wrong = meet(c);
  if (wrong.empty() && c.rank() == 1)
    wrong = message_of(c.prepare({{Direction::kSend, 0, bundle.ranks[1].channels[1].id, memory(16), 16}})->run(kWait));
  return wrong.empty() ? meet(c) : wrong;
}

// Channels that have the same tag are as independent as any others.
std::string channels_share_a_tag(hal::Transport& c) {
  if (c.rank() > 1) return "";
  const int32_t channels[] = {7, 7 + tag_bound + 1, 7 + 2 * (tag_bound + 1)};
  const bool sends = c.rank() == 0;
  std::vector<hal::Transfer> transfers;
  for (size_t i = 0; i < 3; ++i) {
    const int32_t channel = channels[sends ? i : 2 - i];
    std::byte* data = memory(8);
    std::memset(data, sends ? channel / tag_bound : 0xee, 8);
    transfers.push_back({sends ? Direction::kSend : Direction::kReceive, 1 - c.rank(), channel, data, 8});
  }
  if (auto wrong = message_of(c.prepare(transfers)->run(kWait)); !wrong.empty()) return wrong;
  for (const hal::Transfer& t : transfers)
    if (t.data[0] != static_cast<std::byte>(t.channel / tag_bound)) return "a message came on another channel";
  return "";
}

std::string small_tags(hal::Transport& c) {
  std::vector<Case> cases = common_cases();
  cases.insert(cases.begin(), {"channels_share_a_tag", channels_share_a_tag});
  cases.push_back(delays());
  for (const Case& test : cases)
    if (std::string wrong = test.run(c); !wrong.empty()) return test.name + (": " + wrong);
  return "";
}

int run(const std::string& name) {
  tag_bound = name == "small_tags" ? 32767 : name == "no_tags" ? 100 : 0;
  auto transport = hal::MpiTransport::make();
  std::string wrong = "no such case";
  if (name == "no_tags") wrong = expect(transport.status(), "R0104", "this MPI library has 101 message tags");
  else if (!transport.ok()) wrong = transport.error().message;
  else
    for (const Case& test :
         {Case{"testsome", testsome}, Case{"failed_part", failed_part}, Case{"late_messages", late_messages},
          Case{"late_plan_message", late_plan_message}, Case{"small_tags", small_tags}})
      if (name == test.name) wrong = test.run(**transport);
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s: %s\n", name.c_str(), wrong.c_str());
  if (transport.ok()) (*transport)->abort(1);
  return 1;
}

}  // namespace
}  // namespace piper::conformance

int main(int argc, char** argv) { return piper::conformance::run(argc > 1 ? argv[1] : ""); }
