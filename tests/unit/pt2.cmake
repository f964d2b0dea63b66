find_package(ZLIB REQUIRED)
piper_test(pt2_test SOURCES pt2_test.cc LINK piper_frontend ZLIB::ZLIB LABELS unit)
piper_test(functionalise_test SOURCES functionalise_test.cc LINK piper_frontend LABELS unit)
