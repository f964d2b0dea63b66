// The schedule families against printed tables, against a small simulator's makespans and against
// the rules every row must keep.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

#include "compiler/strategy/families.h"

namespace piper::strategy {
namespace {

ScheduleTable expand(const std::string& family, int32_t ranks, int32_t stages, int32_t microbatches) {
  auto table = expand_family(family, {ranks, stages, microbatches});
  INFO(family << " R=" << ranks << " S=" << stages << " M=" << microbatches);
  if (!table.ok()) FAIL(table.error().message);
  return std::move(table).value();
}

// "F2.0 (F0.3+B3.1)"; stages are left out where the rank has one.
std::string row_text(const ScheduleTable& table, size_t rank, bool with_stage) {
  std::string text;
  for (const Slot& slot : table.rows[rank]) {
    text += text.empty() ? "" : " ";
    if (slot.size() > 1) text += "(";
    for (size_t i = 0; i < slot.size(); ++i) {
      static const char* const kNames[] = {"F", "B", "I", "W"};
      text += i > 0 ? "+" : "";
      text += kNames[static_cast<int>(slot[i].pass)];
      if (with_stage) text += std::to_string(slot[i].stage) + ".";
      text += std::to_string(slot[i].microbatch);
    }
    if (slot.size() > 1) text += ")";
  }
  return text;
}

struct Costs {
  int f = 1, b = 2, i = 1, w = 1;
  bool atomic_slots = false;  // a slot of several passes starts when all may start
};
struct Run {
  int makespan = 0;
  std::vector<int> idle_inside;  // per rank, between its first start and last end
  std::vector<int> idle;         // per rank, of the whole step
  std::vector<int> peak;         // activations alive, in stage-microbatches
};

// One compute lane a rank, communication free. F waits for the previous stage's F; B and BI for
// the next stage's and their own F; BW for its BI. Fails on a deadlock.
Run simulate(const ScheduleTable& table, const Costs& costs = {}) {
  const int32_t last = static_cast<int32_t>(table.stage_rank.size()) - 1;
  std::map<std::tuple<int, int, int>, int> done;  // (stage, microbatch, 0 forward / 1 input grad / 2 all)
  auto find = [&](int stage, int m, int what) {
    const auto it = done.find({stage, m, what});
    return it == done.end() ? -1 : it->second;
  };
  // Earliest start, or -1 where it must still wait.
  auto ready = [&](const Action& a) {
    int at = 0;
    auto need = [&](int stage, int what) {
      const int t = find(stage, a.microbatch, what);
      if (t < 0) return false;
      at = std::max(at, t);
      return true;
    };
    bool ok = true;
    if (a.pass == Pass::kF) {
      if (a.stage > 0) ok = need(a.stage - 1, 0);
    } else if (a.pass == Pass::kBW) {
      ok = need(a.stage, 1);
    } else {
      ok = need(a.stage, 0);
      if (ok && a.stage < last) ok = need(a.stage + 1, 1);
    }
    return ok ? at : -1;
  };
  auto cost = [&](Pass pass) {
    switch (pass) {
      case Pass::kF: return costs.f;
      case Pass::kB: return costs.b;
      case Pass::kBI: return costs.i;
      case Pass::kBW: return costs.w;
    }
    return 0;
  };
  const size_t R = table.rows.size();
  std::vector<size_t> slot(R), member(R);
  std::vector<int> clock(R), first(R, -1), busy(R), alive(R);
  Run run;
  run.peak.assign(R, 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t r = 0; r < R; ++r) {
      while (slot[r] < table.rows[r].size()) {
        const Slot& s = table.rows[r][slot[r]];
        int at = clock[r];
        bool ok = true;
        if (costs.atomic_slots && member[r] == 0) {
          for (const Action& a : s) {
            const int t = ready(a);
            ok = ok && t >= 0;
            at = std::max(at, t);
          }
        } else {
          const int t = ready(s[member[r]]);
          ok = t >= 0;
          at = std::max(at, t);
        }
        if (!ok) break;
        const Action& a = s[member[r]];
        const int end = at + cost(a.pass);
        if (first[r] < 0) first[r] = at;
        busy[r] += cost(a.pass);
        clock[r] = end;
        const int slot_end = [&] {
          int total = end;
          if (costs.atomic_slots) {
            for (size_t k = member[r] + 1; k < s.size(); ++k) total += cost(s[k].pass);
          }
          return total;
        }();
        if (a.pass == Pass::kF) {
          done[{a.stage, a.microbatch, 0}] = slot_end;
          run.peak[r] = std::max(run.peak[r], ++alive[r]);
        }
        if (a.pass == Pass::kB || a.pass == Pass::kBI) done[{a.stage, a.microbatch, 1}] = slot_end;
        if (a.pass == Pass::kB || a.pass == Pass::kBW) --alive[r];
        if (++member[r] == s.size()) member[r] = 0, ++slot[r];
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < R; ++r) {
    if (slot[r] != table.rows[r].size()) FAIL("deadlock on rank " << r);
    run.makespan = std::max(run.makespan, clock[r]);
    run.idle_inside.push_back(clock[r] - first[r] - busy[r]);
  }
  for (size_t r = 0; r < R; ++r) run.idle.push_back(run.makespan - busy[r]);
  return run;
}

// Each (stage, microbatch) once, on the rank that owns it; what print_csv/parse_csv check too.
void check_complete(const ScheduleTable& table, int32_t stages, int32_t microbatches) {
  auto again = parse_csv(print_csv(table));
  if (!again.ok()) FAIL(again.error().message);
  CHECK(again->rows == table.rows);
  CHECK(again->stage_rank == table.stage_rank);
  size_t passes = 0;
  for (const auto& row : table.rows) {
    for (const Slot& slot : row) {
      for (const Action& a : slot) passes += a.pass == Pass::kF || a.pass == Pass::kB || a.pass == Pass::kBI;
    }
  }
  CHECK(passes == size_t(2 * stages * microbatches));
}

}  // namespace

TEST_CASE("rows of one stage per rank are the printed ones") {
  auto t = expand("gpipe", 2, 2, 4);
  CHECK(row_text(t, 0, false) == "F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(row_text(t, 1, false) == "F0 F1 F2 F3 B0 B1 B2 B3");
  t = expand("1f1b", 2, 2, 4);
  CHECK(row_text(t, 0, false) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(row_text(t, 1, false) == "F0 B0 F1 B1 F2 B2 F3 B3");
  t = expand("zero_bubble", 2, 2, 4);
  CHECK(row_text(t, 0, false) == "F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3");
  CHECK(row_text(t, 1, false) == "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3");
}

TEST_CASE("rows of two stages per rank are the printed ones") {
  auto t = expand("interleaved_1f1b", 2, 4, 4);
  CHECK(row_text(t, 0, true) == "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3");
  CHECK(row_text(t, 1, true) == "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3");
  t = expand("dualpipev", 2, 4, 4);
  CHECK(row_text(t, 0, true) ==
        "F0.0 F0.1 F0.2 F3.0 I3.0 W3.0 F3.1 (F0.3+B3.1) (F3.2+B0.0) B3.2 (F3.3+B0.1) B3.3 I0.2 W0.2 I0.3 W0.3");
  CHECK(row_text(t, 1, true) ==
        "F1.0 F2.0 F1.1 F2.1 F1.2 B2.0 (F2.2+B1.0) (F1.3+B2.1) (F2.3+B1.1) B2.2 B1.2 I2.3 I1.3 W2.3 W1.3");
}

TEST_CASE("makespans with F=1, B=2, I=W=1 are the ideal ones") {
  const int shapes[3][2] = {{2, 4}, {4, 8}, {8, 16}};
  const int one_f[] = {15, 33, 69}, zero[] = {13, 27, 55}, inter[] = {27, 57, 117}, inter_zero[] = {25, 51, 103};
  const int two_way[] = {25, 51, 103}, two_way_atomic[] = {26, 54, 110};
  for (int k = 0; k < 3; ++k) {
    const int R = shapes[k][0], M = shapes[k][1];
    CHECK(simulate(expand("1f1b", R, R, M)).makespan == one_f[k]);
    CHECK(simulate(expand("zero_bubble", R, R, M)).makespan == zero[k]);
    CHECK(simulate(expand("interleaved_1f1b", R, 2 * R, M)).makespan == inter[k]);
    CHECK(simulate(expand("interleaved_zero_bubble", R, 2 * R, M)).makespan == inter_zero[k]);
    CHECK(simulate(expand("dualpipev", R, 2 * R, M)).makespan == two_way[k]);
    Costs atomic;
    atomic.atomic_slots = true;
    CHECK(simulate(expand("dualpipev", R, 2 * R, M), atomic).makespan == two_way_atomic[k]);
  }
}

TEST_CASE("idle time and activations are those of the literature") {
  for (int p : {2, 3, 4, 8}) {
    for (int m : {2 * p, 3 * p, 4 * p}) {
      INFO("p=" << p << " m=" << m);
      const Run gpipe = simulate(expand("gpipe", p, p, m)), one = simulate(expand("1f1b", p, p, m));
      const Run zero = simulate(expand("zero_bubble", p, p, m)), v = simulate(expand("zb_v", p, 2 * p, m));
      const Run inter = simulate(expand("interleaved_1f1b", p, 2 * p, m));
      const Run inter_zero = simulate(expand("interleaved_zero_bubble", p, 2 * p, m));
      const Run two = simulate(expand("dualpipev", p, 2 * p, m));
      for (int r = 0; r < p; ++r) {
        CHECK(gpipe.idle[r] == (p - 1) * 3);
        CHECK(gpipe.peak[r] == m);
        CHECK(one.idle[r] == (p - 1) * 3);
        CHECK(one.peak[r] == std::min(m, p - r));
        CHECK(zero.idle[r] == p - 1);
        CHECK(zero.peak[r] == std::min(m, p));
        CHECK(inter.idle[r] == (p - 1) * 3);  // F and B of both chunks over v = 2
        CHECK(inter_zero.idle[r] == p - 1);
        CHECK(inter_zero.peak[r] <= 2 * p);
        CHECK(v.idle_inside[r] == 0);
        CHECK(v.idle[r] == p - 1);
        CHECK(v.peak[r] <= 2 * p);
        CHECK(two.idle[r] == p - 1);
        CHECK(two.peak[r] <= 2 * p + 1);
      }
      CHECK(inter.peak[0] == 3 * p - 1);
    }
  }
}

TEST_CASE("idle time follows the formulas for other times of a pass") {
  for (const auto& [f, i, w] : {std::tuple{3, 2, 1}, std::tuple{2, 2, 2}, std::tuple{4, 5, 3}, std::tuple{1, 1, 1}}) {
    Costs costs;
    costs.f = f, costs.i = i, costs.w = w, costs.b = i + w;
    for (int p : {2, 4, 6}) {
      for (int m : {2 * p, 4 * p}) {
        INFO("p=" << p << " m=" << m << " F=" << f << " I=" << i << " W=" << w);
        const Run gpipe = simulate(expand("gpipe", p, p, m), costs), one = simulate(expand("1f1b", p, p, m), costs);
        const Run zero = simulate(expand("zero_bubble", p, p, m), costs);
        for (int v : {1, 2, 3, 4}) {
          const Run inter = simulate(expand("interleaved_1f1b", p, v * p, m), costs);
          for (int r = 0; r < p; ++r) CHECK(inter.idle[r] == (p - 1) * (f + costs.b));
          for (int r = 0; r < p; ++r)
            CHECK(inter.peak[r] == (v == 1 ? std::min(m, 2 * (p - r) - 1) : p * v + p - 1 - 2 * r));
          const Run inter_zero = simulate(expand("interleaved_zero_bubble", p, v * p, m), costs);
          for (int r = 0; r < p; ++r) CHECK(inter_zero.peak[r] == v * p);
        }
        for (int r = 0; r < p; ++r) {
          CHECK(gpipe.idle[r] == (p - 1) * (f + costs.b));
          CHECK(one.idle[r] == (p - 1) * (f + costs.b));
          CHECK(zero.idle[r] == (p - 1) * (f + i - w));
        }
      }
    }
  }
}

TEST_CASE("the two-copies form on twice the ranks takes as long as the V form") {
  for (int p : {1, 2, 3, 4}) {
    for (int m : {2 * p, 3 * p, 5 * p}) {
      INFO("p=" << p << " m=" << m);
      const Run v = simulate(expand("dualpipev", p, 2 * p, m)), two = simulate(expand("dualpipe", 2 * p, 2 * p, 2 * m));
      CHECK(two.makespan == v.makespan);
      for (int r = 0; r < 2 * p; ++r) {
        CHECK(two.idle[r] == p - 1);
        CHECK(two.peak[r] <= 2 * p + 1);
      }
    }
  }
}

TEST_CASE("every family gives complete rows without deadlock over many shapes") {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 4 * p + 3; ++m) {
      INFO("p=" << p << " m=" << m);
      for (const char* family : {"gpipe", "1f1b", "zero_bubble"}) {
        const auto t = expand(family, p, p, m);
        check_complete(t, p, m);
        simulate(t);
      }
      check_complete(expand("zb_v", p, 2 * p, m), 2 * p, m);
      simulate(expand("zb_v", p, 2 * p, m));
      if (m % p == 0) {
        for (int v : {1, 2, 3}) {
          for (const char* family : {"interleaved_1f1b", "interleaved_zero_bubble"}) {
            const auto t = expand(family, p, p * v, m);
            check_complete(t, p * v, m);
            simulate(t);
          }
        }
      }
      if (m >= 2 * p) {
        check_complete(expand("dualpipev", p, 2 * p, m), 2 * p, m);
        simulate(expand("dualpipev", p, 2 * p, m));
      }
      if (m >= 2 * p && m % 2 == 0 && p % 2 == 0) {
        const auto t = expand("dualpipe", p, p, m);
        check_complete(t, p, m);
        simulate(t);
      }
    }
  }
}

TEST_CASE("the two-copies form mirrors the two halves of the microbatches") {
  const auto t = expand("dualpipe", 4, 4, 8);
  for (size_t r = 0; r < 4; ++r) {
    for (const Slot& slot : t.rows[r]) {
      for (const Action& a : slot) {
        CHECK(a.stage == (a.microbatch < 4 ? static_cast<int32_t>(r) : static_cast<int32_t>(3 - r)));
      }
    }
    std::vector<Slot> mirrored = t.rows[3 - r];
    for (Slot& slot : mirrored) {
      for (Action& a : slot) a.microbatch = a.microbatch < 4 ? a.microbatch + 4 : a.microbatch - 4;
    }
    CHECK(mirrored == t.rows[r]);
  }
}

TEST_CASE("every stage stands on the rank that the family's layout says") {
  const auto owners = [](const char* family, int32_t ranks, int32_t stages, int32_t microbatches) {
    return expand(family, ranks, stages, microbatches).stage_rank;
  };
  using Rows = std::vector<std::vector<int32_t>>;
  CHECK(owners("gpipe", 2, 2, 2) == Rows{{0, 0}, {1, 1}});
  CHECK(owners("interleaved_zero_bubble", 2, 4, 2) == Rows{{0, 0}, {1, 1}, {0, 0}, {1, 1}});
  CHECK(owners("zb_v", 2, 4, 2) == Rows{{0, 0}, {1, 1}, {1, 1}, {0, 0}});
  CHECK(owners("dualpipev", 2, 4, 4) == Rows{{0, 0, 0, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}});
  CHECK(owners("dualpipe", 2, 2, 4) == Rows{{0, 0, 1, 1}, {1, 1, 0, 0}});
}

TEST_CASE("preconditions are refused with numbers that would do") {
  auto fails = [](const char* family, FamilyRequest request, const char* code, const char* part) {
    auto result = expand_family(family, request);
    REQUIRE(!result.ok());
    CHECK(result.error().code == code);
    CHECK(result.error().message.find(part) != std::string::npos);
  };
  fails("1F1B", {2, 2, 4}, "P0230", "did you mean '1f1b'");
  fails("1f1b", {2, 4, 4}, "P0231", "one stage per rank");
  fails("interleaved_1f1b", {4, 8, 6}, "P0231", "use 4 or 8");
  fails("interleaved_1f1b", {4, 6, 8}, "P0231", "multiple of the ranks");
  fails("dualpipev", {4, 8, 7}, "P0231", "at least 8");
  fails("dualpipev", {4, 4, 8}, "P0231", "use 8 stages");
  fails("dualpipe", {4, 4, 9}, "P0231", "even number of microbatches");
  fails("dualpipe", {3, 3, 6}, "P0231", "even number of ranks");
  fails("1f1b", {2, 2, 0}, "P0231", "at least one");
  fails("1f1b", {-1, 2, 4}, "P0231", "at least one");
  fails("1f1b", {0, 4, 4, 2}, "P0231", "'virtual' cannot be 2");
  fails("zb_v", {0, 4, 4, 1}, "P0231", "has 2 stages per rank");
  fails("zb_v", {0, 3, 4}, "P0231", "use 2 or 4");
  fails("zb_v", {0, 1, 4}, "P0231", "here is 1 stage: use 2");
  fails("interleaved_1f1b", {0, 5, 4}, "P0231", "where neither 'ranks' nor 'virtual' says more");
  fails("interleaved_1f1b", {0, 6, 4, 4}, "P0231", "use 4 or 8");
  fails("interleaved_1f1b", {2, 8, 4, 2}, "P0231", "has 4 stages per rank, 'virtual' says 2");
}

TEST_CASE("where the ranks are left open, a family takes as many as it has for the stages") {
  auto ranks = [](const char* family, int32_t stages, int32_t virtual_stages) {
    return expand_family(family, {0, stages, 8, virtual_stages}).value().rows.size();
  };
  CHECK(ranks("1f1b", 4, 0) == 4);
  CHECK(ranks("1f1b", 4, 1) == 4);
  CHECK(ranks("dualpipe", 4, 0) == 4);
  CHECK(ranks("zb_v", 8, 0) == 4);
  CHECK(ranks("dualpipev", 8, 2) == 4);
  CHECK(ranks("interleaved_1f1b", 8, 0) == 4);
  CHECK(ranks("interleaved_1f1b", 8, 4) == 2);
  CHECK(ranks("interleaved_zero_bubble", 8, 8) == 1);
}

TEST_CASE("a pipeline table is read back; a broken one is refused by row and cell") {
  const auto t = expand("dualpipev", 2, 4, 4);
  const std::string csv = print_csv(t);
  CHECK(csv.substr(0, 12) == "0F0,0F1,0F2,");
  CHECK(csv.find("(0F3;3B1)OVERLAP_F_B") != std::string::npos);
  CHECK(parse_csv("0F0,,0B0\n").ok());  // idle cells
  CHECK(parse_csv("0F0 , 0I0, 0W0\r\n\r\n").ok());
  CHECK(parse_csv("0F0,0BI0,0BW0").ok());
  auto fails = [](const char* text, const char* part) {
    auto result = parse_csv(text);
    REQUIRE(!result.ok());
    CHECK(result.error().code == "P0233");
    INFO(result.error().message);
    CHECK(result.error().message.find(part) != std::string::npos);
  };
  fails("", "empty");
  fails("0F0,0B0\n,,\n", "row 2 has no passes");
  fails("0F0,0X0", "row 1, cell 2");
  fails("0UNSHARD,0F0,0B0", "row 1, cell 1: '0UNSHARD' is communication");
  fails("0F0,0SEND_F0,0B0", "row 1, cell 2: '0SEND_F0' is communication");
  fails("0F0,0B0\n0F1,0B1,SEND", "row 2, cell 3");
  fails("0F0,0W0,0I0", "before its I");
  fails("0B0,0F0", "before its forward");
  fails("0F0,0B0,0B0", "one too many");
  fails("0F0,0I0", "lacks a pass");
  fails("0F0\n0B0", "rank 1");
  fails("0F999999,0B999999", "only 2 passes");
  fails("99999999999F0", "row 1, cell 1");
}

}  // namespace piper::strategy
