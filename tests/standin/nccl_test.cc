// The stand-in for NCCL: what it gives to correct programs, and what it says of mistakes that NCCL answers with a hang,
// with wrong numbers, or not at all.
#include <catch2/catch.hpp>

#include "tests/standin/nccl_member.h"

namespace piper::standin {
namespace {

TEST_CASE("sums of the stand-in are those of a ring, parts come in the order of the members") {
  const std::vector<std::string> words = on_members(3, 1, [](Member& m) -> std::string {
    constexpr float kAddends[] = {1e8f, 1.f, -1e8f};
    for (int i = 0; i < 3; ++i) m.seen()[i] = kAddends[m.rank];
    if (!m.called(ncclAllReduce(m.floats(), m.floats(), 3, ncclFloat32, ncclSum, m.comms[0], m.streams[0])))
      return "refused";
    if (std::string wrong = m.finished(); !wrong.empty()) return wrong;
    // Part 0 is 1 - 1e8 + 1e8, where the one is lost; part 2 begins with 1e8 + 1, where it is as well; part 1 does not
    // lose it. In position order all are 1e8 + 1 - 1e8.
    if (m.seen()[0] != 0 || m.seen()[1] != 1 || m.seen()[2] != 0) return "not in the order of the ring";
    m.seen()[8] = static_cast<float>(m.rank);
    if (!m.called(ncclAllGather(m.floats() + 8, m.floats() + 16, 1, ncclFloat32, m.comms[0], m.streams[1])))
      return "refused";
    if (std::string wrong = m.finished(); !wrong.empty()) return wrong;
    for (int i = 0; i < 3; ++i)
      if (m.seen()[16 + i] != static_cast<float>(i)) return "wrong part";
    for (int i = 0; i < 6; ++i) m.seen()[24 + i] = static_cast<float>(i);
    if (!m.called(
            ncclReduceScatter(m.floats() + 24, m.floats() + 32, 2, ncclFloat32, ncclSum, m.comms[0], m.streams[0])))
      return "refused";
    if (std::string wrong = m.finished(); !wrong.empty()) return wrong;
    return m.seen()[32] == static_cast<float>(6 * m.rank) && m.seen()[33] == static_cast<float>(6 * m.rank + 3)
               ? ""
               : "wrong sum";
  });
  CHECK(words == std::vector<std::string>{"", "", ""});
}

TEST_CASE("messages of one group pass each other") {
  const auto words = on_members(2, 1, [](Member& m) -> std::string {
    m.seen()[0] = static_cast<float>(m.rank + 1);
    ncclGroupStart();
    ncclSend(m.floats(), 1, ncclFloat32, 1 - m.rank, m.comms[0], m.streams[0]);
    ncclRecv(m.floats() + 1, 1, ncclFloat32, 1 - m.rank, m.comms[0], m.streams[0]);
    if (!m.called(ncclGroupEnd())) return "refused";
    const std::string wrong = m.finished();
    return !wrong.empty() ? wrong : m.seen()[1] == static_cast<float>(2 - m.rank) ? "" : "wrong message";
  });
  CHECK(words == std::vector<std::string>{"", ""});
}

TEST_CASE("a member sends to itself, both ends in one group") {
  const auto words = on_members(1, 1, [](Member& m) -> std::string {
    m.seen()[0] = 7;
    ncclGroupStart();
    ncclSend(m.floats(), 1, ncclFloat32, 0, m.comms[0], m.streams[0]);
    ncclRecv(m.floats() + 1, 1, ncclFloat32, 0, m.comms[0], m.streams[0]);
    if (!m.called(ncclGroupEnd())) return "refused";
    if (std::string wrong = m.finished(); !wrong.empty()) return wrong;
    if (m.seen()[1] != 7) return "wrong message";
    return ncclSend(m.floats(), 1, ncclFloat32, 0, m.comms[0], m.streams[0]) == ncclInvalidUsage ? ""
                                                                                                 : "half a message";
  });
  CHECK(words == std::vector<std::string>{""});
}

// What is after a call before NCCL has enqueued it comes before it.
TEST_CASE("a call is not enqueued before it was asked for") {
  const auto words = on_members(1, 1, [](Member& m) -> std::string {
    m.seen()[0] = 1;
    const ncclResult_t result = ncclAllGather(m.floats(), m.floats() + 1, 1, ncclFloat32, m.comms[0], m.streams[0]);
    (void)cudaMemsetAsync(m.data, 0, sizeof(float), m.streams[0]);
    if (!m.called(result)) return "refused";
    return m.finished().empty() && m.seen()[1] == 0 ? "" : "it was in front";
  });
  CHECK(words == std::vector<std::string>{""});
  const auto twice = on_members(1, 1, [](Member& m) -> std::string {
    (void)ncclAllGather(m.floats(), m.floats() + 1, 1, ncclFloat32, m.comms[0], m.streams[0]);
    if (ncclAllGather(m.floats(), m.floats() + 1, 1, ncclFloat32, m.comms[0], m.streams[0]) != ncclInvalidArgument)
      return "taken";
    return ncclGetLastError(m.comms[0]);
  });
  CHECK(twice[0] ==
        "ncclAllGather: attempt to use communicator 'a' before the previous operation returned ncclSuccess");
}

// Each: what the two members do; what is said of it.
struct Mistake {
  const char* name;
  std::function<std::string(Member&)> body;
  std::string words;
};

std::string all_reduce(Member& m, size_t comm, size_t count = 4, ncclDataType_t type = ncclFloat32, size_t stream = 0) {
  if (m.called(ncclAllReduce(m.data, m.data, count, type, ncclSum, m.comms[comm], m.streams[stream]), comm)) return "";
  return ncclGetLastError(m.comms[comm]);
}

TEST_CASE("mistakes between members are found, and what waits for them ends with an abort") {
  const Mistake mistakes[] = {
      {"another order of two communicators on one stream",
       [](Member& m) {
         (void)all_reduce(m, static_cast<size_t>(m.rank));
         (void)all_reduce(m, static_cast<size_t>(1 - m.rank));
         return m.finished();
       },
       "deadlock: member 0 of 'a' is at ncclAllReduce of 4 ncclFloat32 and waits for member 1; member 1 of 'b' is at "
       "ncclAllReduce of 4 ncclFloat32 and waits for member 0"},
      {"another order of two communicators on two streams",
       [](Member& m) {
         (void)all_reduce(m, static_cast<size_t>(m.rank), 4, ncclFloat32, 0);
         (void)all_reduce(m, static_cast<size_t>(1 - m.rank), 4, ncclFloat32, 1);
         return m.finished();
       },
       "deadlock: member 0 of 'a' is at ncclAllReduce of 4 ncclFloat32 and waits for member 1; member 1 of 'b' is at "
       "ncclAllReduce of 4 ncclFloat32 and waits for member 0"},
      {"both send before they receive",
       [](Member& m) {
         (void)m.called(ncclSend(m.data, 4, ncclFloat32, 1 - m.rank, m.comms[0], m.streams[0]));
         (void)m.called(ncclRecv(m.data, 4, ncclFloat32, 1 - m.rank, m.comms[0], m.streams[0]));
         return m.finished();
       },
       "deadlock: member 0 of 'a' is at ncclSend of 4 ncclFloat32 and waits for member 1; member 1 of 'a' is at "
       "ncclSend of 4 ncclFloat32 and waits for member 0"},
      {"a message where the other has a collective",
       [](Member& m) {
         if (m.rank == 0) (void)all_reduce(m, 0);
         else (void)m.called(ncclSend(m.data, 4, ncclFloat32, 0, m.comms[0], m.streams[0]));
         return m.finished();
       },
       "deadlock: member 0 of 'a' is at ncclAllReduce of 4 ncclFloat32 and waits for member 1; member 1 of 'a' is at "
       "ncclSend of 4 ncclFloat32 and waits for member 0"},
      {"another count",
       [](Member& m) {
         (void)all_reduce(m, 0, m.rank == 0 ? 4 : 5);
         return m.finished();
       },
       "the calls of collective 0 of 'a' differ: member 0 has ncclAllReduce of 4 ncclFloat32, member 1 has "
       "ncclAllReduce of "
       "5 ncclFloat32"},
      {"another type",
       [](Member& m) {
         (void)all_reduce(m, 0, 4, m.rank == 0 ? ncclFloat32 : ncclInt32);
         return m.finished();
       },
       "ncclAllReduce of 4 ncclInt32"},
      {"another kind",
       [](Member& m) {
         if (m.rank == 0) (void)all_reduce(m, 0);
         else (void)m.called(ncclAllGather(m.data, m.data + 64, 4, ncclFloat32, m.comms[0], m.streams[0]));
         return m.finished();
       },
       "ncclAllGather of 4 ncclFloat32"},
      {"a message longer than its receiver expects",
       [](Member& m) {
         if (m.rank == 0) (void)m.called(ncclSend(m.data, 8, ncclUint8, 1, m.comms[0], m.streams[0]));
         else (void)m.called(ncclRecv(m.data, 4, ncclUint8, 0, m.comms[0], m.streams[0]));
         return m.finished();
       },
       "the calls of message 0 from member 0 to member 1 of 'a' differ"},
      {"messages of different lengths in another order",
       [](Member& m) {
         for (const size_t bytes : {4, 8}) {
           const size_t own = m.rank == 0 ? bytes : 12 - bytes;
           (void)m.called(m.rank == 0 ? ncclSend(m.data, own, ncclUint8, 1, m.comms[0], m.streams[0])
                                      : ncclRecv(m.data, own, ncclUint8, 0, m.comms[0], m.streams[0]));
         }
         return m.finished();
       },
       "the calls of message 0 from member 0 to member 1 of 'a' differ"}};
  for (const Mistake& mistake : mistakes) {
    INFO(mistake.name);
    for (const std::string& words : on_members(2, 2, mistake.body)) {
      INFO(words);
      CHECK(words.find(mistake.words) != std::string::npos);
    }
  }
}

TEST_CASE("three members that each wait for the next one are a deadlock, whoever is told") {
  // Each sends to the next and receives from the one before, one call after the other.
  for (const std::string& words : on_members(3, 1, [](Member& m) {
         (void)m.called(ncclSend(m.data, 1, ncclUint8, (m.rank + 1) % 3, m.comms[0], m.streams[0]));
         (void)m.called(ncclRecv(m.data, 1, ncclUint8, (m.rank + 2) % 3, m.comms[0], m.streams[0]));
         return m.finished();
       }))
    CHECK(words.find("deadlock: ") == 0);
  // With one that begins with its receive there is none.
  for (const std::string& words : on_members(3, 1, [](Member& m) {
         const auto send = [&] {
           (void)m.called(ncclSend(m.data, 1, ncclUint8, (m.rank + 1) % 3, m.comms[0], m.streams[0]));
         };
         if (m.rank > 0) send();
         (void)m.called(ncclRecv(m.data, 1, ncclUint8, (m.rank + 2) % 3, m.comms[0], m.streams[0]));
         if (m.rank == 0) send();
         return m.finished();
       }))
    CHECK(words == "");
}

TEST_CASE("members that abort or end are told to the others") {
  for (const bool aborts : {true, false}) {
    const auto words = on_members(2, 1, [&](Member& m) -> std::string {
      if (m.rank == 1) {
        if (aborts) (void)ncclCommAbort(m.comms[0]);
        m.comms.clear();  // of a thread that ends
        return "";
      }
      (void)all_reduce(m, 0);
      return m.finished();
    });
    CHECK(words[0] == (aborts ? "member 1 of 'a' has aborted" : "member 1 of 'a' has ended without ncclCommDestroy"));
  }
}

TEST_CASE("what NCCL refuses at once") {
  on_members(1, 1, [](Member& m) -> std::string {
    if (ncclSend(m.data, 1, ncclUint8, 1, m.comms[0], m.streams[0]) != ncclInvalidArgument) std::abort();
    float host = 0;
    if (ncclAllReduce(&host, &host, 1, ncclFloat32, ncclSum, m.comms[0], m.streams[0]) != ncclInvalidArgument)
      std::abort();
    if (ncclCommDestroy(m.comms[0]) != ncclInvalidUsage) std::abort();
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = 65;
    if (ncclCommInitRankConfig(&comm, 1, id, 0, &config) != ncclInvalidArgument) std::abort();
    config.maxCTAs = 1;
    config.magic = 0;
    if (ncclCommInitRankConfig(&comm, 1, id, 0, &config) != ncclInvalidArgument) std::abort();
    return "";
  });
}

}  // namespace
}  // namespace piper::standin
