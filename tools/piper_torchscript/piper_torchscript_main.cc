// piper-torchscript: TRACED.pt -> MODEL.pt2. Flags, messages and exit status; convert.h does the work.
#include <CLI/CLI.hpp>
#include <iostream>

#include "schemas/command_line/command_line.h"
#include "tools/piper_torchscript/convert.h"

int main(int argc, char** argv) {
  CLI::App app{"Rewrites a model of torch.jit.trace as a .pt2 archive that piperc reads.", "piper-torchscript"};
  std::string from, to;
  std::vector<std::string> texts;
  app.add_option("model", from, "the file of torch.jit.save")->required();
  app.add_option("-o,--out", to, "the .pt2 archive to write")->required();
  app.add_option("-i,--input", texts,
                 "one for each argument of forward, in its order: NAME:DTYPE[EXTENT,...], e.g. input_ids:int64[B,16]; "
                 "the batch is a symbol")
      ->required();
  piper::command_line::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return piper::command_line::end(app, error, 2);
  }
  const auto fail = [](const piper::Error& error) {
    std::cerr << "piper-torchscript: " << error.message << "\n";
    return 1;
  };
  std::vector<piper::torchscript::InputSpec> inputs;
  for (const std::string& text : texts) {
    auto input = piper::torchscript::parse_input(text);
    if (!input.ok()) return fail(input.error());
    inputs.push_back(std::move(input).value());
  }
  const auto done = piper::torchscript::convert(from, to, inputs);
  if (!done.ok()) return fail(done.error());
  std::cout << to << ": " << done->calls << " calls, " << done->parameters << " parameters\n"
            << "A trace keeps no torch.no_grad and no custom backward; freeze what must not train by model.freeze.\n";
  return 0;
}
