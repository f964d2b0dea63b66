# A compilation takes a tenth of a second, and loading shared libraries that are written in C++ or large takes 2 ms more. Where the archives of
# these libraries are installed, they are linked instead; piperc then needs no shared libstdc++ either.
find_library(PIPER_CRYPTO_ARCHIVE libcrypto.a)
find_library(PIPER_YAML_CPP_ARCHIVE libyaml-cpp.a)
mark_as_advanced(PIPER_CRYPTO_ARCHIVE PIPER_YAML_CPP_ARCHIVE)
if(PIPER_CRYPTO_ARCHIVE)
  set(OPENSSL_USE_STATIC_LIBS TRUE)   # read by find_package(OpenSSL)
endif()
