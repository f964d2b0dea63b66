// A connection to the TCP store of a run, and what its keys begin with. For the files of this folder; LibTorch's header
// stays after it.
#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <string>

#include "runtime/hal/tcp/store_address.h"

namespace piper::hal {

// `listening`: the socket on which rank 0 serves the store; -1: a client. Throws what LibTorch throws.
c10::intrusive_ptr<c10d::TCPStore> connect_to_store(const StoreAddress& at, int32_t rank, int listening,
                                                    std::chrono::milliseconds timeout);
// "piper/17/0/": no other run's or attempt's.
std::string key_prefix(const StoreAddress& at);
// "127.0.0.1:29500", for messages.
std::string place_of(const StoreAddress& at);
std::string first_line(const char* text);

}  // namespace piper::hal
