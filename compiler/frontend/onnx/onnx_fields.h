// Field numbers of the messages of onnx-ml.proto (ONNX 1.23) that onnx_file.cc reads.
// The numbers are part of the file format and never change. Used by the reader and by tests that
// write small models; holds no logic.
#pragma once

#include <cstdint>

#include <protozero/types.hpp>

namespace piper::frontend::onnx {

enum class ModelField : protozero::pbf_tag_type {
  kIrVersion = 1,
  kProducerName = 2,
  kGraph = 7,
  kOpsetImport = 8,
  kMetadataProps = 14,
};
enum class OpsetField : protozero::pbf_tag_type { kDomain = 1, kVersion = 2 };
enum class GraphField : protozero::pbf_tag_type {
  kNode = 1,
  kName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12,
  kValueInfo = 13,
  kSparseInitializer = 15,
  kMetadataProps = 16,
};
enum class NodeField : protozero::pbf_tag_type {
  kInput = 1,
  kOutput = 2,
  kName = 3,
  kOpType = 4,
  kAttribute = 5,
  kDomain = 7,
  kMetadataProps = 9,
};
enum class AttributeField : protozero::pbf_tag_type {
  kName = 1,
  kF = 2,
  kI = 3,
  kS = 4,
  kT = 5,
  kG = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kTensors = 10,
  kGraphs = 11,
  kType = 20,
  kRefAttrName = 21,
};
enum class TensorField : protozero::pbf_tag_type {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
  kMetadataProps = 16,
};
enum class ValueInfoField : protozero::pbf_tag_type { kName = 1, kType = 2, kMetadataProps = 4 };
enum class TypeField : protozero::pbf_tag_type { kTensorType = 1 };
enum class TensorTypeField : protozero::pbf_tag_type { kElemType = 1, kShape = 2 };
enum class ShapeField : protozero::pbf_tag_type { kDim = 1 };
enum class DimField : protozero::pbf_tag_type { kDimValue = 1, kDimParam = 2 };
enum class EntryField : protozero::pbf_tag_type { kKey = 1, kValue = 2 };

// AttributeProto.AttributeType
enum class AttributeTypeCode : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
};
// TensorProto.DataType: the types that the importer reads. f16 is not among them.
enum class ElemCode : int32_t {
  kFloat = 1,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kDouble = 11,
  kBfloat16 = 16,
};

}  // namespace piper::frontend::onnx
