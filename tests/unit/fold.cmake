piper_test(fold_test LABELS unit SOURCES fold_test.cc LINK piper_fold)
piper_test(form_test LABELS unit SOURCES form_test.cc LINK piper_fold)
piper_test(attention_mask_test LABELS unit SOURCES attention_mask_test.cc LINK piper_fold)
