#include "compiler/ir/element_wise.h"

namespace piper::ir {

bool is_element_wise_unary(OpKind kind) {
  switch (kind) {
    case OpKind::kCast:
    case OpKind::kNeg:
    case OpKind::kAbs:
    case OpKind::kSign:
    case OpKind::kExp:
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kRsqrt:
    case OpKind::kReciprocal:
    case OpKind::kSin:
    case OpKind::kCos:
    case OpKind::kErf:
    case OpKind::kTanh:
    case OpKind::kSigmoid:
    case OpKind::kLogSigmoid:
    case OpKind::kSoftplus:
    case OpKind::kRelu:
    case OpKind::kLeakyRelu:
    case OpKind::kGelu:
    case OpKind::kSilu:
    case OpKind::kPowScalar:
    case OpKind::kClamp:
    case OpKind::kLogicalNot:
    case OpKind::kIsNan: return true;
    default: return false;
  }
}

bool is_element_wise_broadcast(OpKind kind) {
  switch (kind) {
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMaximum:
    case OpKind::kMinimum:
    case OpKind::kEq:
    case OpKind::kNe:
    case OpKind::kLt:
    case OpKind::kLe:
    case OpKind::kGt:
    case OpKind::kGe:
    case OpKind::kLogicalAnd:
    case OpKind::kLogicalOr:
    case OpKind::kWhere: return true;
    default: return false;
  }
}

}  // namespace piper::ir
