piper_test(module_text_test LABELS unit SOURCES module_text_test.cc LINK piper_ir)
