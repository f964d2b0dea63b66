// The loader's parts, one per section of the language; loader.cc calls them. Each reports every
// mistake of its section and fills what it could read.
#pragma once

#include <span>

#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "compiler/strategy/value_reader.h"

namespace piper::strategy {

void load_model(ReadContext& context, const Value& value, Strategy& out);
void load_annotations(ReadContext& context, const Value& value, Strategy& out);
void load_directives(ReadContext& context, const Value& value, std::span<const DirectiveSpec* const> specs,
                     Strategy& out);
void load_schedule(ReadContext& context, const Value& value, Strategy& out);
void load_streams(ReadContext& context, const Value& value, Strategy& out);
void load_optimizer(ReadContext& context, const Value& value, Strategy& out);
void load_lr_schedule(ReadContext& context, const Value& value, Strategy& out);
void load_precision(ReadContext& context, const Value& value, Strategy& out);
void load_head(ReadContext& context, const Value& value, Strategy& out);
void load_run(ReadContext& context, const Value& value, Strategy& out);
// Inputs that are made of documents, and the token that ends one, need each other.
void check_documents(ReadContext& context, const Strategy& strategy);
void load_eval(ReadContext& context, const Value& value, Strategy& out);

// A non-empty list of distinct, non-negative ranks (P0213), or what stands for one (mesh.h).
std::optional<Devices> read_devices(ReadContext& context, const Value& value, const std::string& what);
// One list, or a list of equally long disjoint lists, or what stands for them (mesh.h). Of a schedule, lists may have
// several lengths, and an integer is a group of one.
std::vector<Devices> read_device_groups(ReadContext& context, const Value& value, const std::string& what,
                                        bool of_schedule);

// Rules between directives that need no graph: a schedule beside its own split or order (P0226),
// BI without BW (P0222).
void check_directives(ReadContext& context, const Strategy& strategy);

// A mesh is read by some device list (P0244), and each of its ranks is in one (P0248). For when all lists are read.
void check_mesh(ReadContext& context, Strategy& strategy);

// A bare list's device lists are sets: where two directives name the same group in another order, it is that of the
// first `place`.
void align_replicas(ReadContext& context, Strategy& strategy);
// A bare list's device numbers are labels: renumbers them densely, in ascending order, with a remark.
void renumber_devices(ReadContext& context, Strategy& strategy);

}  // namespace piper::strategy
