piper_test(dag_text_test LABELS unit SOURCES dag_text_test.cc LINK piper_passes)
