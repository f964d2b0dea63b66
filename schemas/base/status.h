// Status and Result<T>: how every fallible function of piper reports failure.
// Used by compiler, runtime and tools alike. A failure carries a message for the user, an
// optional code ("P0203", "R0301") and the context added on the way up; a failure that a
// diagnostics engine has already printed is marked `reported`, so that it is printed once.
// This file knows no exceptions: adapters catch those of third-party libraries.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "schemas/base/check.h"

namespace piper {

struct Error {
  std::string code;       // "" where none applies
  std::string message;    // what is wrong, in the user's names; no trailing newline
  bool reported = false;  // already shown to the user by a diagnostics engine
};

// Success, or an Error. Cheap when ok (one null pointer).
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status failure(std::string code, std::string message) {
    Status s;
    s.error_ = std::make_unique<Error>(Error{std::move(code), std::move(message), false});
    return s;
  }
  // A failure that was already printed with its place in the user's file.
  static Status reported(std::string code) {
    Status s;
    s.error_ = std::make_unique<Error>(Error{std::move(code), {}, true});
    return s;
  }
  explicit Status(Error error) : error_(std::make_unique<Error>(std::move(error))) {}

  bool ok() const { return error_ == nullptr; }
  const Error& error() const {
    PIPER_CHECK(error_ != nullptr, "error() of an ok status");
    return *error_;
  }
  Error take_error() {
    PIPER_CHECK(error_ != nullptr, "take_error() of an ok status");
    return std::move(*error_);
  }
  // Prepends "context: " to the message of a failure; no effect on success.
  Status with_context(std::string_view context) && {
    if (error_) error_->message = std::string(context) + ": " + error_->message;
    return std::move(*this);
  }

 private:
  std::unique_ptr<Error> error_;
};

// A value, or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status failure) : state_(std::in_place_index<1>, failure.take_error()) {}

  bool ok() const { return state_.index() == 0; }
  T& value() & {
    PIPER_CHECK(ok(), "value() of a failed result: ", error_message());
    return std::get<0>(state_);
  }
  const T& value() const& {
    PIPER_CHECK(ok(), "value() of a failed result: ", error_message());
    return std::get<0>(state_);
  }
  T&& value() && {
    PIPER_CHECK(ok(), "value() of a failed result: ", error_message());
    return std::move(std::get<0>(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }
  // The failure as a Status, to be returned by the caller.
  Status status() const { return ok() ? Status() : Status(std::get<1>(state_)); }
  Status take_status() { return ok() ? Status() : Status(std::move(std::get<1>(state_))); }

 private:
  std::string error_message() const { return ok() ? std::string() : std::get<1>(state_).message; }
  std::variant<T, Error> state_;
};

}  // namespace piper

// Returns the failure of `expression` (a Status) from the calling function.
#define PIPER_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                           \
    if (::piper::Status piper_status_ = (expression); !piper_status_.ok()) return piper_status_; \
  } while (false)

#define PIPER_CONCAT_INNER(a, b) a##b
#define PIPER_CONCAT(a, b) PIPER_CONCAT_INNER(a, b)
// PIPER_ASSIGN(auto x, make_x()): x = the value, or returns the failure of the Result.
#define PIPER_ASSIGN(declaration, expression)                                                                  \
  auto PIPER_CONCAT(piper_result_, __LINE__) = (expression);                                                   \
  if (!PIPER_CONCAT(piper_result_, __LINE__).ok()) return PIPER_CONCAT(piper_result_, __LINE__).take_status(); \
  declaration = std::move(PIPER_CONCAT(piper_result_, __LINE__)).value()
