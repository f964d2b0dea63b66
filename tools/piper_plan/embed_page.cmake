# cmake -DFOLDER=page -DOUTPUT=page.cc -P embed_page.cmake: the page's files as the texts that page.h declares.
set(text "#include \"tools/piper_plan/page.h\"\n\nnamespace piper::tools::page {\n")
foreach(pair "page.html=kHtml" "page.css=kStyle" "step.js=kStepScript" "chart.js=kChartScript" "page.js=kPageScript")
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 file)
  list(GET pair 1 name)
  file(READ ${FOLDER}/${file} bytes HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  # Lines of 16 bytes.
  string(REGEX REPLACE "(................................................................)" "\\1\"\n  \"" bytes "${bytes}")
  file(SIZE ${FOLDER}/${file} size)
  string(APPEND text "const std::string_view ${name}(\n  \"${bytes}\", ${size});\n")
endforeach()
file(WRITE ${OUTPUT} "${text}}  // namespace piper::tools::page\n")
