#include "launcher/cluster/message_auth.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace piper::launcher {

namespace {

Status token_refused(const std::string& path, const std::string& why) {
  return Status::failure("L0139", "token file '" + path + "': " + why);
}

std::string hexadecimal(const unsigned char* bytes, size_t count) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

Result<Token> Token::read(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return token_refused(path, std::strerror(errno));
  struct stat about{};
  const bool known = fstat(file, &about) == 0;
  std::string secret(kMostBytes + 1, '\0');
  const ssize_t count = known && S_ISREG(about.st_mode) ? ::read(file, secret.data(), secret.size()) : -1;
  close(file);
  if (!known || !S_ISREG(about.st_mode)) return token_refused(path, "is no file");
  if (about.st_uid != geteuid()) return token_refused(path, "belongs to another user");
  if ((about.st_mode & 077) != 0) return token_refused(path, "others can read it: chmod 600");
  if (count < 0) return token_refused(path, "cannot be read");
  secret.resize(static_cast<size_t>(count));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < kLeastBytes || secret.size() > kMostBytes)
    return token_refused(path, "has " + std::to_string(secret.size()) + " bytes, and a token from " +
                                   std::to_string(kLeastBytes) + " to " + std::to_string(kMostBytes) +
                                   ": head -c 32 /dev/urandom | base64");
  return Token(std::move(secret));
}

// No field but the last one has a line's end in it, so two messages never come to one text.
std::string Token::stamp(const StampedRequest& request) const {
  std::string text = "piperd request 1\n";
  for (const std::string_view field : {request.method, request.path, request.receiver, request.nonce})
    text.append(field).append("\n");
  return mac(text + std::to_string(request.time_ms) + "\n" + std::string(request.body));
}

std::string Token::stamp_answer(int status, std::string_view nonce, std::string_view body) const {
  return mac("piperd answer 1\n" + std::string(nonce) + "\n" + std::to_string(status) + "\n" + std::string(body));
}

std::string Token::mac(std::string_view text) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int count = 0;
  PIPER_CHECK(HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
                   reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(), &count) != nullptr,
              "HMAC-SHA256");
  return hexadecimal(bytes.data(), count);
}

bool same_stamp(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string new_nonce() {
  std::array<unsigned char, 16> bytes{};
  PIPER_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random bytes");
  return hexadecimal(bytes.data(), bytes.size());
}

std::string TakenRequests::take(std::string_view nonce, int64_t time_ms, int64_t now_ms) {
  while (!by_time_.empty() && by_time_.begin()->first < now_ms) {
    seen_.erase(by_time_.begin()->second);
    by_time_.erase(by_time_.begin());
  }
  if (time_ms < now_ms - kWindowMs || time_ms > now_ms + kWindowMs)
    return "its time is not this node's: set the clocks (NTP)";
  if (time_ms < since_ms_) return "it is older than this piperd";
  if (nonce.size() != 32 || seen_.find(nonce) != seen_.end()) return "it was taken before";
  if (seen_.size() >= kMost) return "there are too many";
  const int64_t until = time_ms + kWindowMs;  // from then on its time is refused
  seen_.emplace(nonce, until);
  by_time_.emplace(until, nonce);
  return "";
}

}  // namespace piper::launcher
