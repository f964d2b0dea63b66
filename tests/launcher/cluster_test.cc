// Jobs of several nodes: the list of nodes, who is trusted, where parts go, which node is left out, what is said about
// it.
#include <catch2/catch.hpp>

#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/cluster/lease.h"
#include "launcher/cluster/message_auth.h"
#include "launcher/cluster/messages.h"
#include "launcher/cluster/node_list.h"
#include "launcher/cluster/part_log.h"
#include "launcher/cluster/placement.h"
#include "tests/unit/temp_folder.h"

namespace piper::launcher {
namespace {

using Names = std::vector<std::string>;

std::string why(const std::string& list) {
  const auto read = read_node_list(list, "nodes");
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == "L0138");
  return read.error().message;
}

TEST_CASE("a list of nodes has names, addresses and slots") {
  const auto read =
      read_node_list("# all\n\nnode1 10.0.0.1 8\nnode2 host.cluster:9000 4  # small\nv6 [fe80::1%eth0]:1 1\n", "nodes");
  REQUIRE(read.ok());
  REQUIRE(read->size() == 3);
  CHECK(read->at(0).name == "node1");
  CHECK(read->at(0).host == "10.0.0.1");
  CHECK(read->at(0).port == kNodePort);
  CHECK(read->at(0).slots == 8);
  CHECK(read->at(1).host == "host.cluster");
  CHECK(read->at(1).port == 9000);
  CHECK(read->at(2).host == "fe80::1%eth0");
  CHECK(read->at(2).port == 1);
}

TEST_CASE("what is no list of nodes is refused with its line") {
  CHECK(why("") == "nodes: there is no node in it");
  CHECK(why("a 10.0.0.1 8\nb 10.0.0.2\n") == "nodes, line 2: a node is NAME ADDRESS[:PORT] SLOTS");
  CHECK(why("a 10.0.0.1 8 more\n") == "nodes, line 1: a node is NAME ADDRESS[:PORT] SLOTS");
  CHECK(why("a 10.0.0.1 0\n") == "nodes, line 1: '0' is no number of slots");
  CHECK(why("a 10.0.0.1 1e3\n") == "nodes, line 1: '1e3' is no number of slots");
  CHECK(why("a 10.0.0.1:0 1\n") == "nodes, line 1: '10.0.0.1:0' is no ADDRESS[:PORT]");
  CHECK(why("a 10.0.0.1:65536 1\n") == "nodes, line 1: '10.0.0.1:65536' is no ADDRESS[:PORT]");
  CHECK(why("a a;b 1\n") == "nodes, line 1: 'a;b' is no ADDRESS[:PORT]");
  CHECK(why("../a 10.0.0.1 1\n") == "nodes, line 1: '../a' is no name of a node");
  CHECK(why("a 10.0.0.1 1\na 10.0.0.2 1\n") == "nodes, line 2: node 'a' is there twice");
  CHECK(why("a 10.0.0.1 1\nb 10.0.0.1 1\n") == "nodes, line 2: nodes 'a' and 'b' have one address");
}

// Slurm's own program, as a job has it: here a script that says what it was asked.
TEST_CASE("Slurm tells the nodes of a job") {
  const TempFolder folder;
  std::ofstream(folder / "scontrol") << "#!/bin/sh\n[ \"$*\" = 'show hostnames n[1-2]' ] && printf 'n1\\nn2\\n'\n";
  std::filesystem::permissions(folder / "scontrol", std::filesystem::perms::owner_all);
  const std::string before = std::getenv("PATH");
  setenv("PATH", (folder.path().string() + ":" + before).c_str(), 1);
  setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
  const auto read = slurm_node_list(9432, 8);
  setenv("SLURM_JOB_NODELIST", "n[1-3]", 1);
  const auto fails = slurm_node_list(9432, 8);
  unsetenv("SLURM_JOB_NODELIST");
  const auto none = slurm_node_list(9432, 8);
  setenv("PATH", before.c_str(), 1);
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  CHECK(read->at(1).name == "n2");
  CHECK(read->at(1).host == "n2");
  CHECK(read->at(1).slots == 8);
  REQUIRE_FALSE(fails.ok());
  CHECK(fails.error().code == "L0138");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == "L0138");
}

TEST_CASE("a token is its owner's alone, and long enough") {
  const TempFolder folder;
  const std::string path = folder / "token";
  const auto code = [&] {
    const auto token = Token::read(path);
    return token.ok() ? "" : token.error().code;
  };
  CHECK(code() == "L0139");
  std::ofstream(path) << std::string(31, 'x') << "\n";
  chmod(path.c_str(), 0600);
  CHECK(code() == "L0139");
  std::ofstream(path) << std::string(32, 'x') << "\n";
  CHECK(code() == "");
  chmod(path.c_str(), 0640);
  CHECK(code() == "L0139");
}

// By another program: printf 'piperd request 1\nPOST\n/hold\nnode2\nn\n7\nbody' | openssl dgst -sha256 -hmac secret
TEST_CASE("a stamp is HMAC-SHA256 over all that a request says") {
  const Token token("secret");
  const StampedRequest request{"POST", "/hold", "node2", "body", 7, "n"};
  const std::string stamp = token.stamp(request);
  CHECK(stamp == "a126ce7eae1dfa3b26ad7032ac0aa90e5fc41a5350dbe726636adacc976e04b0");
  CHECK(same_stamp(stamp, token.stamp(request)));
  CHECK_FALSE(same_stamp(stamp, Token("Secret").stamp(request)));
  CHECK_FALSE(same_stamp(stamp, stamp.substr(1)));
  CHECK_FALSE(same_stamp(stamp, ""));
  StampedRequest others[] = {request, request, request, request, request, request};
  others[0].method = "GET";
  others[1].path = "/report";
  others[2].receiver = "node1";
  others[3].body = "Body";
  others[4].time_ms = 8;
  others[5].nonce = "m";
  for (const StampedRequest& other : others) CHECK_FALSE(same_stamp(stamp, token.stamp(other)));
  CHECK(token.stamp_answer(200, "n", "body") != token.stamp_answer(400, "n", "body"));
  CHECK(token.stamp_answer(200, "n", "body") != token.stamp_answer(200, "m", "body"));
}

TEST_CASE("a request is taken once, and near its time") {
  constexpr int64_t kNow = 1'700'000'000'000, kWindow = TakenRequests::kWindowMs;
  const std::string nonce(32, 'a'), other(32, 'b');
  TakenRequests taken(kNow - 1);
  CHECK(taken.take(nonce, kNow, kNow) == "");
  CHECK(taken.take(nonce, kNow, kNow) == "it was taken before");
  CHECK(taken.take(nonce, kNow + 1, kNow) == "it was taken before");
  CHECK(taken.take(nonce, kNow, kNow + kWindow) == "it was taken before");  // as long as its time is right
  CHECK(taken.take(nonce, kNow, kNow + kWindow + 1) != "");
  CHECK(taken.take(other, kNow - 2, kNow) == "it is older than this piperd");
  CHECK(taken.take(other, kNow + kWindow + 1, kNow) != "");
  CHECK(taken.take("short", kNow, kNow) != "");
  CHECK(taken.take(other, kNow + kWindow, kNow) == "");
  CHECK(taken.take(other, kNow + kWindow, kNow + 2 * kWindow) == "it was taken before");
}

TEST_CASE("nonces differ") {
  const std::string one = new_nonce();
  CHECK(one.size() == 32);
  CHECK(one != new_nonce());
}

std::vector<NodeState> four_nodes() {
  return {{"a", 2, 0, true, false, ""},
          {"b", 2, 1, true, false, ""},
          {"c", 2, 0, false, false, "no"},
          {"d", 4, 1, true, true, ""},
          {"e", 4, 1, true, false, ""}};
}

TEST_CASE("a job is placed on the first nodes that have room") {
  CHECK(place(four_nodes(), 2, 2, {}).nodes == Names{"a", "e"});
  CHECK(place(four_nodes(), 3, 1, {}).nodes == Names{"a", "b", "e"});
  CHECK(place(four_nodes(), 1, 3, {}).nodes == Names{"e"});
  CHECK(place(four_nodes(), 2, 1, {"a"}).nodes == Names{"b", "e"});
  const Placement none = place(four_nodes(), 3, 2, {"a"});
  CHECK(none.nodes.empty());
  CHECK(none.why == "waits for 3 nodes with 2 slots: a is excluded, b has 1 free, c does not answer, d is drained");
}

TEST_CASE("what no empty nodes could take never fits") {
  CHECK(never_fits(four_nodes(), 5, 2, {}) == "");
  CHECK(never_fits(four_nodes(), 2, 4, {}) == "");
  CHECK(never_fits(four_nodes(), 3, 4, {}) == "it wants 3 nodes with 4 slots, and there are 2");
  CHECK(never_fits(four_nodes(), 2, 4, {"d"}) == "it wants 2 nodes with 4 slots, and there are 1, without d");
  CHECK(never_fits(four_nodes(), 6, 1, {}) == "it wants 6 nodes with 1 slot, and there are 5");
}

TEST_CASE("a node is left out that fails three times without a break") {
  FailingNode failing;
  CHECK_FALSE(fails_too_often(failing, "a"));
  CHECK_FALSE(fails_too_often(failing, "a"));
  CHECK_FALSE(fails_too_often(failing, "b"));
  CHECK_FALSE(fails_too_often(failing, "a"));
  CHECK_FALSE(fails_too_often(failing, ""));
  CHECK_FALSE(fails_too_often(failing, ""));
  CHECK_FALSE(fails_too_often(failing, ""));
  CHECK_FALSE(fails_too_often(failing, "a"));
  CHECK_FALSE(fails_too_often(failing, "a"));
  CHECK(fails_too_often(failing, "a"));
  CHECK_FALSE(fails_too_often(failing, "a"));
}

TEST_CASE("an attempt is judged by the part that failed by itself") {
  const auto cause = [](const std::vector<PartEnd>& ends) {
    const PartEnd* const found = cause_of(ends);
    return found == nullptr ? "" : found->node;
  };
  CHECK(cause({}) == "");
  CHECK(cause({{"a", 0, false, false}, {"b", 0, false, false}}) == "");
  CHECK(cause({{"a", 76, false, false}, {"b", 137, false, false}}) == "b");
  CHECK(cause({{"a", 76, false, false}, {"b", 137, false, true}}) == "a");
  CHECK(cause({{"a", 0, false, false}, {"b", 76, false, false}, {"c", 76, false, false}}) == "b");
  CHECK(cause({{"a", 3, false, false}, {"b", 137, false, false}}) == "a");
  CHECK(cause({{"a", 75, false, false}, {"b", 75, false, false}}) == "a");
  CHECK(cause({{"a", 137, false, false}, {"b", 76, true, false}}) == "b");
}

TEST_CASE("a lease is over when its time is, for whoever reads it") {
  const TempFolder folder;
  const std::string path = folder / "lease";
  CHECK_FALSE(Lease::open(path).ok());
  auto lease = Lease::create(path);
  REQUIRE(lease.ok());
  CHECK_FALSE(Lease::create(path).ok());
  const auto read = Lease::open(path);  // as another process does
  REQUIRE(read.ok());
  CHECK(read->is_over());  // until it is set
  lease->set_until(Lease::now() + std::chrono::hours(1));
  CHECK_FALSE(read->is_over());
  lease->set_until(Lease::now() - std::chrono::nanoseconds(1));
  CHECK(read->is_over());
  std::ofstream(path, std::ios::trunc) << "short";
  CHECK_FALSE(Lease::open(path).ok());
}

TEST_CASE("a part's log is kept until it is acknowledged") {
  PartLog log;
  log.append("one\n");
  log.append("two\n");
  CHECK(log.piece() == "one\ntwo\n");
  log.acknowledge(4);
  CHECK(log.from() == 4);
  CHECK(log.piece() == "two\n");
  log.acknowledge(2);  // an old answer
  CHECK(log.from() == 4);
  log.acknowledge(100);
  CHECK(log.empty());
  CHECK(log.from() == 8);
  for (int i = 0; i < 100000; ++i) log.append(std::string(99, 'x') + "\n");
  CHECK(log.from() > 8);
  CHECK(log.piece().size() <= PartLog::kPieceBytes);
  CHECK(log.piece().size() % 100 == 0);
  PartLog bytes;
  bytes.append("\xff\n");
  CHECK(bytes.piece() == "\xef\xbf\xbd\n");  // what JSON can carry
}

Report report() {
  Report report;
  report.node = "node2";
  report.job = 3;
  report.epoch = std::string(32, 'e');
  report.state = PartState::kEnded;
  report.leaving = report.ran = true;
  report.outcome.exit_status = 137;
  report.outcome.failed_rank = 2;
  report.outcome.statuses = {0, 137};
  report.outcome.tail = {"a line\n"};
  report.outcome.hang = Status::failure("L0121", "the run hangs");
  report.log_from = 7;
  report.log = "text \"\n";
  report.signals = 2;
  live::RankStatus page;
  page.rank = 2;
  page.pid = 77;
  page.step = 4;
  page.steps = 9;
  page.state = live::RankState::kCheckpointing;
  page.wall_ns = 1'700'000'000'123'456'789;
  report.pages = {page};
  return report;
}

TEST_CASE("messages say what they were given") {
  Report read;
  REQUIRE(read_message(text_of(report()), read));
  CHECK(text_of(read) == text_of(report()));
  CHECK(read.outcome.hang.error().message == "the run hangs");
  CHECK(read.pages.at(0).wall_ns == 1'700'000'000'123'456'789);
  CHECK(std::isnan(read.pages.at(0).loss));

  ReportAnswer answer;
  answer.go = Go::kStart;
  answer.log_next = 9;
  answer.signals = {15};
  answer.spec.name = "n";
  answer.spec.arguments = {"/bin/true"};
  answer.spec.folder = "/";
  answer.spec.environment = {"A=b"};
  answer.spec.ranks = 4;
  answer.spec.grace_s = 5;
  answer.attempt = 2;
  answer.resume = true;
  answer.nodes = 2;
  answer.master = "10.0.0.1:400";
  ReportAnswer read_answer;
  REQUIRE(read_message(text_of(answer), read_answer));
  CHECK(text_of(read_answer) == text_of(answer));
  CHECK(read_answer.spec.nodes == 2);
  answer.nodes = 3;  // which do not divide the ranks
  CHECK_FALSE(read_message(text_of(answer), read_answer));

  Hold hold{"node1", 3, std::string(32, 'a'), 1, 2, 5000}, read_hold;
  REQUIRE(read_message(text_of(hold), read_hold));
  CHECK(text_of(read_hold) == text_of(hold));
  hold.epoch = "../../x";
  CHECK_FALSE(read_message(text_of(hold), read_hold));
}

TEST_CASE("what is no message is none") {
  const std::string whole = text_of(report());
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    Report read;
    CHECK_FALSE(read_message(whole.substr(0, cut), read));
  }
  NodeState state;
  for (const char* text : {"", "[]", "7", "{}", "\xff", R"({"name":1,"slots":1,"used":0,"drained":false})",
                           R"({"name":"a","slots":0,"used":0,"drained":false})"})
    CHECK_FALSE(read_message(text, state));
}

}  // namespace
}  // namespace piper::launcher
