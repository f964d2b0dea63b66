// Who may talk to a piperd from another node: whoever has the token, a file that all nodes of a user share and no
// message carries. A message is stamped by HMAC-SHA256 (RFC 2104) over all that it says, its receiver, its time and a
// number that is used once; an answer over the same number. It hides nothing: messages are read by who reads the
// network.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "schemas/base/status.h"

namespace piper::launcher {

// A request as it was sent. The receiver is the name of a node, so that no other node takes it.
struct StampedRequest {
  std::string_view method, path, receiver, body;
  int64_t time_ms = 0;  // since 1970, by the sender's clock
  std::string_view nonce;
};

class Token {
 public:
  static constexpr size_t kLeastBytes = 32, kMostBytes = 4096;
  // L0139: no such file, others than its owner can read it, or it is too short.
  static Result<Token> read(const std::string& path);
  explicit Token(std::string secret) : secret_(std::move(secret)) {}
  // 64 hexadecimal digits.
  std::string stamp(const StampedRequest& request) const;
  std::string stamp_answer(int status, std::string_view nonce, std::string_view body) const;

 private:
  std::string mac(std::string_view text) const;
  std::string secret_;
};

// In a time that does not depend on where they differ.
bool same_stamp(std::string_view a, std::string_view b);

// 32 hexadecimal digits that nobody can guess.
std::string new_nonce();

// Requests that a node has taken: none is taken twice, nor long after its time. Used by one thread at a time.
class TakenRequests {
 public:
  static constexpr int64_t kWindowMs = 60'000;  // by so much may two clocks differ
  static constexpr size_t kMost = 200'000;
  // What was sent before `since_ms` is of a life before this one, which may have taken it.
  explicit TakenRequests(int64_t since_ms) : since_ms_(since_ms) {}
  // Why the request, whose stamp is right, is not to be taken; "": it is taken.
  std::string take(std::string_view nonce, int64_t time_ms, int64_t now_ms);

 private:
  int64_t since_ms_;
  std::map<std::string, int64_t, std::less<>> seen_;  // until when they must be known
  std::multimap<int64_t, std::string> by_time_;
};

}  // namespace piper::launcher
