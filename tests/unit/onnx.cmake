piper_test(onnx_file_test SOURCES onnx_file_test.cc LINK piper_onnx LABELS unit)
piper_test(onnx_import_test SOURCES onnx_import_test.cc onnx_folding_test.cc onnx_refusals_test.cc LINK piper_onnx LABELS unit)
piper_test(onnx_models_test SOURCES onnx_models_test.cc LINK piper_frontend LABELS unit)
