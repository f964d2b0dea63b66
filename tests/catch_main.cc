// The one translation unit that holds Catch2's main (it takes 20 s to compile).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
