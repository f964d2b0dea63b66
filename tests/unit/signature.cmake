piper_test(signature_test LABELS unit SOURCES signature_test.cc LINK piper_plan)
