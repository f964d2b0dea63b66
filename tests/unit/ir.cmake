piper_test(ir_test LABELS unit SOURCES ir_test.cc shapes_test.cc LINK piper_ir)
