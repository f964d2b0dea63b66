piper_test(natural_order_test LABELS unit SOURCES natural_order_test.cc LINK piper_emit)
