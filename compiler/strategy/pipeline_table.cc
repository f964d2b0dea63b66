// PyTorch's pipeline table as CSV: one row a rank, a cell "0F1" = stage 0, forward, microbatch 1;
// I, W and B are the input half, the weight half and the whole of a backward; members of an
// overlapped slot are in "(0F1;1B0)OVERLAP_F_B". Empty cells are idle time and carry no meaning.
#include <algorithm>
#include <charconv>
#include <map>

#include "compiler/strategy/families.h"

namespace piper::strategy {
namespace {

constexpr std::string_view kOverlap = ")OVERLAP_F_B";
constexpr int32_t kMaxNumber = 1 << 20;

char letter(Pass pass) {
  switch (pass) {
    case Pass::kF: return 'F';
    case Pass::kB: return 'B';
    case Pass::kBI: return 'I';
    case Pass::kBW: return 'W';
  }
  return '?';
}

std::string print_action(const Action& action) {
  return std::to_string(action.stage) + letter(action.pass) + std::to_string(action.microbatch);
}

bool parse_action(std::string_view cell, Action& out) {
  const size_t at = cell.find_first_not_of("0123456789");
  if (at == 0 || at == std::string_view::npos) return false;
  auto number = [](std::string_view s, int32_t& value) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    return error == std::errc() && end == s.data() + s.size() && value >= 0 && value < kMaxNumber;
  };
  size_t length = 1;
  std::string_view word = cell.substr(at, 1);
  if (cell.substr(at).starts_with("BW")) length = 2, word = "W";  // older tables spell the halves out
  if (cell.substr(at).starts_with("BI")) length = 2, word = "I";
  if (word == "F") {
    out.pass = Pass::kF;
  } else if (word == "B") {
    out.pass = Pass::kB;
  } else if (word == "I") {
    out.pass = Pass::kBI;
  } else if (word == "W") {
    out.pass = Pass::kBW;
  } else {
    return false;
  }
  return number(cell.substr(0, at), out.stage) && number(cell.substr(at + length), out.microbatch);
}

bool parse_cell(std::string_view cell, Slot& out) {
  if (!cell.starts_with("(")) {
    out.emplace_back();
    return parse_action(cell, out.back());
  }
  if (!cell.ends_with(kOverlap)) return false;
  std::string_view inner = cell.substr(1, cell.size() - 1 - kOverlap.size());
  while (true) {
    const size_t end = inner.find(';');
    out.emplace_back();
    if (!parse_action(inner.substr(0, end), out.back())) return false;
    if (end == std::string_view::npos) return true;
    inner.remove_prefix(end + 1);
  }
}

// What tables with communication hold beside passes: "0SEND_F1", "1UNSHARD".
bool is_communication(std::string_view cell) {
  const size_t at = cell.find_first_not_of("0123456789");
  if (at == 0 || at == std::string_view::npos) return false;
  for (std::string_view word : {"SEND_", "RECV_", "UNSHARD", "RESHARD", "REDUCE_GRAD"})
    if (cell.substr(at).starts_with(word)) return true;
  return false;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t' || s.front() == '"')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r' || s.back() == '"')) s.remove_suffix(1);
  return s;
}

Status bad(const std::string& text) { return Status::failure("P0233", text); }

// Every stage does each microbatch once: one F, and one B or one I before one W, on one rank.
Status check_complete(const ScheduleTable& table, int32_t num_stages, int32_t num_microbatches) {
  struct Seen {
    int32_t f = 0, b = 0, i = 0, w = 0;
    size_t rank = 0;
  };
  std::map<std::pair<int32_t, int32_t>, Seen> seen;
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    for (const Slot& slot : table.rows[rank]) {
      for (const Action& action : slot) {
        Seen& s = seen[{action.stage, action.microbatch}];
        const bool first = s.f + s.b + s.i + s.w == 0;
        if (!first && s.rank != rank) {
          return bad(print_action(action) + " is on rank " + std::to_string(rank) +
                     ", another pass of that stage and microbatch on rank " + std::to_string(s.rank));
        }
        s.rank = rank;
        if (action.pass != Pass::kF && s.f == 0) return bad(print_action(action) + " comes before its forward");
        if (action.pass == Pass::kBW && s.i == 0) return bad(print_action(action) + " comes before its I");
        switch (action.pass) {
          case Pass::kF: ++s.f; break;
          case Pass::kB: ++s.b; break;
          case Pass::kBI: ++s.i; break;
          case Pass::kBW: ++s.w; break;
        }
        if (s.f > 1 || s.b + s.i > 1 || s.b + s.w > 1) return bad(print_action(action) + " is one too many");
      }
    }
  }
  for (int32_t stage = 0; stage < num_stages; ++stage) {
    for (int32_t m = 0; m < num_microbatches; ++m) {
      const auto found = seen.find({stage, m});
      const bool full = found != seen.end() && found->second.f == 1 && found->second.b + found->second.i == 1 &&
                        found->second.b + found->second.w == 1;
      if (!full) {
        return bad("stage " + std::to_string(stage) + " lacks a pass of microbatch " + std::to_string(m) + " of " +
                   std::to_string(num_microbatches));
      }
    }
  }
  return {};
}

}  // namespace

std::string print_csv(const ScheduleTable& table) {
  std::string text;
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ',';
      if (row[i].size() == 1) {
        text += print_action(row[i][0]);
        continue;
      }
      text += '(';
      for (size_t k = 0; k < row[i].size(); ++k) text += (k > 0 ? ";" : "") + print_action(row[i][k]);
      text += kOverlap;
    }
    text += '\n';
  }
  return text;
}

Result<ScheduleTable> parse_csv(std::string_view text) {
  ScheduleTable table;
  int32_t num_stages = 0, num_microbatches = 0;
  size_t num_actions = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    table.rows.emplace_back();
    for (size_t column = 1; true; ++column) {
      const size_t comma = line.find(',');
      const std::string_view cell = trim(line.substr(0, comma));
      if (!cell.empty()) {
        Slot slot;
        if (!parse_cell(cell, slot)) {
          const std::string where = "row " + std::to_string(table.rows.size()) + ", cell " + std::to_string(column) +
                                    ": '" + std::string(cell.substr(0, 40)) + "' is ";
          if (is_communication(cell))
            return bad(where + "communication, which piper derives; write a table of passes only");
          return bad(where + "no pass like 0F1 and no (0F1;1B0)OVERLAP_F_B");
        }
        for (const Action& action : slot) {
          num_stages = std::max(num_stages, action.stage + 1);
          num_microbatches = std::max(num_microbatches, action.microbatch + 1);
        }
        num_actions += slot.size();
        table.rows.back().push_back(std::move(slot));
      }
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    if (table.rows.back().empty()) return bad("row " + std::to_string(table.rows.size()) + " has no passes");
  }
  if (table.rows.empty()) return bad("the table is empty");
  // A full table has at least two passes per stage and microbatch; this also bounds the check below.
  if (num_actions < size_t{2} * static_cast<size_t>(num_stages) * static_cast<size_t>(num_microbatches)) {
    return bad("the table names " + std::to_string(num_stages) + " stages and " + std::to_string(num_microbatches) +
               " microbatches, but has only " + std::to_string(num_actions) + " passes");
  }
  PIPER_RETURN_IF_ERROR(check_complete(table, num_stages, num_microbatches));
  fill_stage_ranks(table, num_stages, num_microbatches);
  return table;
}

}  // namespace piper::strategy
