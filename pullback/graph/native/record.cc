// Recording an op: the frequent cases of `pullback.lazy.record.record` and of operators.
//
// What is not frequent, and all that may fail, is left to Python.

#include <cmath>
#include <cstring>

#include "native.h"

namespace pullback {

namespace {

// Tables with one place for each hash: a new entry replaces an older one. They keep a bounded
// number of code objects alive.
constexpr std::size_t PLACES = 4096;

struct KnownLine {
  PyObject* code = nullptr;
  long instruction = 0;
  PyObject* line = nullptr;
};
struct KnownCode {
  PyObject* code = nullptr;
  bool internal = false;
};
KnownLine known_lines[PLACES];
KnownCode known_codes[PLACES];

std::size_t place_of(PyObject* code, long instruction) {
  auto bits = reinterpret_cast<std::uintptr_t>(code) >> 4;
  return (bits * 31 + static_cast<std::uintptr_t>(instruction) / 2) % PLACES;
}

// Whether code is pullback's or between it and user code: 1 or 0; -1 if Python must find out.
int is_internal(PyObject* code) {
  KnownCode& known = known_codes[place_of(code, 0)];
  if (known.code == code) return known.internal;
  Ref file(PyObject_GetAttr(code, names.co_filename));
  if (!file) return -1;
  PyObject* found = PyDict_GetItemWithError(bound.internal_files, file.get());
  if (found == nullptr) return -1;
  PyObject* old = known.code;
  known.code = shared(code);
  known.internal = found == Py_True;
  Py_XDECREF(old);
  return known.internal;
}

PyObject* line_at(PyObject* frame, PyObject* code) {
  Ref number(PyObject_GetAttr(frame, names.f_lasti));
  if (!number) return nullptr;
  long instruction = PyLong_AsLong(number.get());
  KnownLine& known = known_lines[place_of(code, instruction)];
  if (known.code == code && known.instruction == instruction) return shared(known.line);
  PyObject* line = PyObject_CallFunctionObjArgs(bound.SourceLine, code, number.get(), nullptr);
  if (line == nullptr) return nullptr;
  Ref old_code(known.code), old_line(known.line);
  known.code = shared(code);
  known.instruction = instruction;
  known.line = shared(line);
  return line;
}

// The settings under which nothing but recording has to be done, once they were seen.
PyObject* plain_settings = nullptr;

bool is_plain() {
  Ref mode(PyObject_CallNoArgs(bound.current));
  if (!mode) return false;
  if (mode.get() == plain_settings) return true;
  Ref plain(PyObject_GetAttr(mode.get(), names.plain));
  if (plain.get() != Py_True) return false;
  Py_XDECREF(plain_settings);
  plain_settings = mode.release();
  return true;
}

// The types of the operands as a tuple; null without an error if one is not a node.
PyObject* types_of(PyObject* inputs) {
  Py_ssize_t count = PyTuple_Size(inputs);
  Ref types(PyTuple_New(count));
  for (Py_ssize_t i = 0; types && i < count; i++) {
    PyObject* x = PyTuple_GetItem(inputs, i);
    if (!is_node(x) || as_node(x)->type == nullptr) return nullptr;
    PyTuple_SetItem(types.get(), i, shared(as_node(x)->type));
  }
  return types.release();
}

// The tokens of all operands, borrowed; null if several must be merged, or without operands.
PyObject* common_tokens(PyObject* inputs) {
  PyObject* found = nullptr;
  Py_ssize_t count = PyTuple_Size(inputs);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* tokens = tokens_of(PyTuple_GetItem(inputs, i));
    if (found == nullptr || PyTuple_Size(found) == 0) {
      found = tokens;
    } else if (tokens != found && PyTuple_Size(tokens) != 0) {
      return nullptr;
    }
  }
  return found;
}

PyObject* share(PyObject* object) {
  Py_XINCREF(object);
  return object;
}

struct Operator {
  const char *name, *left, *right;
  PyObject *op, *on_left, *on_right;
};
Operator operators[] = {{"Add", "__add__", "__radd__", nullptr, nullptr, nullptr},
                        {"Sub", "__sub__", "__rsub__", nullptr, nullptr, nullptr},
                        {"Mul", "__mul__", "__rmul__", nullptr, nullptr, nullptr},
                        {"Div", "__truediv__", "__rtruediv__", nullptr, nullptr, nullptr},
                        {"MatMul", "__matmul__", "__rmatmul__", nullptr, nullptr, nullptr}};

bool prepare(Operator& wanted) {
  Ref maker(PyObject_GetItem(bound.table, Ref(PyUnicode_FromString(wanted.name)).get()));
  if (!maker) return false;
  Ref op(PyObject_CallNoArgs(maker.get()));
  Ref left(PyObject_GetAttrString(bound.operators, wanted.left));
  Ref right(PyObject_GetAttrString(bound.operators, wanted.right));
  if (!op || !left || !right) return false;
  wanted.on_left = left.release();
  wanted.on_right = right.release();
  wanted.op = op.release();
  return true;
}

// The number `y` as an operand of a tensor of type `like`, an input of the program; null without an
// error if it is not one of the frequent kinds. As `scalar_operand` and `pack_source_bits`.
PyObject* scalar_operand(PyObject* y, PyObject* like) {
  bool whole = PyLong_CheckExact(y);
  if (!whole && !PyFloat_CheckExact(y)) return nullptr;
  Ref dtype(PyObject_GetAttr(like, names.dtype));
  bool single = dtype.get() == bound.float32;
  if (!single && (whole || dtype.get() != bound.float64)) return nullptr;
  double value = whole ? PyLong_AsDouble(y) : PyFloat_AsDouble(y);
  if (PyErr_Occurred()) {  // too large for a float
    PyErr_Clear();
    return nullptr;
  }
  // Below these bounds, a number becomes an f32 in one rounding
  if (single && !(std::abs(value) < (whole ? 9007199254740992.0 : 1e38))) return nullptr;
  std::uint64_t bits = 0;
  if (single) {
    float narrow = static_cast<float>(value);
    std::memcpy(&bits, &narrow, sizeof narrow);
  } else {
    std::memcpy(&bits, &value, sizeof value);
  }
  Ref word(PyLong_FromUnsignedLongLong(bits));
  Ref words(word ? PyTuple_Pack(1, word.get()) : nullptr);
  if (!words) return nullptr;
  return make_node(bound.scalar, shared(names.nothing), single ? bound.f32 : bound.f64, Py_None,
                   names.nothing, names.empty, words.get());
}

// Whether tensors of two types are combined without a conversion; false also with an error.
bool agree(PyObject* of_x, PyObject* of_y, bool division) {
  if (of_x == of_y && !division) return true;
  Ref dtype(PyObject_GetAttr(of_x, names.dtype)), other(PyObject_GetAttr(of_y, names.dtype));
  if (!dtype || dtype.get() != other.get()) return false;
  if (!division) return true;
  Ref inexact(PyObject_GetAttr(dtype.get(), names.is_inexact));
  return inexact.get() == Py_True;
}

// The node of a tensor that requires no gradient, as a new reference; null for all else.
PyObject* plain_node(PyObject* x) {
  if (!is_tensor(x) || as_tensor(x)->token != Py_None) return nullptr;
  PyObject* node = as_tensor(x)->node;
  return node != nullptr && is_node(node) && as_node(node)->type != nullptr ? shared(node) : nullptr;
}

// The operands of an operator as a tuple of nodes, one of them perhaps a number; null without an
// error if this is not a frequent case.
PyObject* operands_of(PyObject* x, PyObject* y, bool division) {
  Ref a(plain_node(x)), b(plain_node(y));
  if (a && b) {
    if (!agree(as_node(a.get())->type, as_node(b.get())->type, division)) return nullptr;
  } else if (a) {
    b = Ref(scalar_operand(y, as_node(a.get())->type));
  } else if (b) {
    a = Ref(scalar_operand(x, as_node(b.get())->type));
  }
  return a && b ? PyTuple_Pack(2, a.get(), b.get()) : nullptr;
}

bool takes_op_and_nodes(PyObject* const* args, Py_ssize_t count) {
  if (count == 2 && PyTuple_Check(args[1])) return true;
  PyErr_SetString(PyExc_TypeError, "recording takes an op and a tuple of nodes");
  return false;
}

// What recording an op needs: the type and tokens of its result, and the list of handles.
struct Record {
  Ref type, tokens, where, handles;

  // False, perhaps without an error, if this is not a frequent case.
  bool find(PyObject* op, PyObject* inputs) {
    if (!is_plain()) return false;
    Ref known(PyObject_GetAttr(op, names.inferred)), types(types_of(inputs));
    if (!known || !types) return false;
    type = Ref(share(PyDict_GetItemWithError(known.get(), types.get())));
    if (!type) return false;
    tokens = Ref(share(common_tokens(inputs)));
    if (!tokens) return false;
    if (PyTuple_Size(tokens.get()) && is_kind(op, bound.Detached)) return false;
    Ref own(PyObject_GetAttr(bound.thread, names.dict));
    if (!own) return false;
    handles = Ref(of_thread(own.get(), names.handles));
    Ref limit(of_thread(own.get(), names.settle_above));
    where = Ref(of_thread(own.get(), names.user_line));
    if (!handles || !limit || !where) return false;
    Py_ssize_t made = PyTuple_Check(type.get()) ? PyTuple_Size(type.get()) : 1;
    if (PyList_Size(handles.get()) + made > PyLong_AsSsize_t(limit.get())) return false;
    if (where.get() == Py_None) where = Ref(user_line());
    return static_cast<bool>(where);
  }

  PyObject* node(PyObject* op, PyObject* owned_inputs, PyObject* of_type) const {
    return make_node(op, owned_inputs, of_type, where.get(), tokens.get(), names.empty, Py_None);
  }

  // A handle on a new node, which this steals; the list of handles refers to it weakly.
  PyObject* handle(PyObject* node) const {
    Ref tensor(node == nullptr ? nullptr : make_tensor(node));
    Ref reference(tensor ? PyWeakref_NewRef(tensor.get(), nullptr) : nullptr);
    if (!reference) return nullptr;
    PyObject_GC_UnTrack(reference.get());  // it refers to nothing
    if (PyList_Append(handles.get(), reference.get()) < 0) return nullptr;
    return tensor.release();
  }
};

// The results of an op with several, each behind a handle; null as `Record::find` is false.
PyObject* record_results_quickly(PyObject* op, PyObject* inputs) {
  Record record;
  if (!record.find(op, inputs) || !PyTuple_Check(record.type.get())) return nullptr;
  Ref node(record.node(op, shared(inputs), record.type.get()));
  Py_ssize_t count = PyTuple_Size(record.type.get());
  Ref made(node ? PyTuple_New(count) : nullptr);
  for (Py_ssize_t i = 0; made && i < count; i++) {
    Ref number(PyLong_FromSsize_t(i));
    Ref select(number ? PyObject_CallFunctionObjArgs(bound.selection, number.get(), nullptr)
                      : nullptr);
    PyObject* of_result = select ? PyTuple_Pack(1, node.get()) : nullptr;
    if (of_result == nullptr) return nullptr;
    PyObject* type = PyTuple_GetItem(record.type.get(), i);
    PyObject* tensor = record.handle(record.node(select.get(), of_result, type));
    if (tensor == nullptr) return nullptr;
    PyTuple_SetItem(made.get(), i, tensor);
  }
  return made.release();
}

}  // namespace

PyObject* of_thread(PyObject* own, PyObject* name) {
  PyObject* found = PyDict_GetItemWithError(own, name);
  if (found != nullptr) return shared(found);
  if (PyErr_Occurred()) return nullptr;
  return PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(bound.thread)), name);
}

PyObject* user_line() {
  PyObject* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  if (frame == nullptr) return shared(Py_None);
  Ref at(shared(frame));
  while (at.get() != Py_None) {
    Ref code(reinterpret_cast<PyObject*>(
        PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(at.get()))));
    int internal = is_internal(code.get());
    if (internal < 0) {
      return PyErr_Occurred() ? nullptr : PyObject_CallNoArgs(bound.find_user_line);
    }
    if (!internal) return line_at(at.get(), code.get());
    at = Ref(PyObject_GetAttr(at.get(), names.f_back));
    if (!at) return nullptr;
  }
  return shared(Py_None);
}

PyObject* record_quickly(PyObject* op, PyObject* inputs) {
  Record record;
  if (!record.find(op, inputs)) return nullptr;
  return record.handle(record.node(op, shared(inputs), record.type.get()));
}

PyObject* record(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes_op_and_nodes(args, count)) return nullptr;
  PyObject* made = record_quickly(args[0], args[1]);
  if (made != nullptr || PyErr_Occurred()) return made;
  return PyObject_CallFunctionObjArgs(bound.record, args[0], args[1], nullptr);
}

PyObject* record_several(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes_op_and_nodes(args, count)) return nullptr;
  PyObject* made = record_results_quickly(args[0], args[1]);
  if (made != nullptr || PyErr_Occurred()) return made;
  return PyObject_CallFunctionObjArgs(bound.record_several, args[0], args[1], nullptr);
}

PyObject* binary(PyObject* x, PyObject* y, int which) {
  Operator& wanted = operators[which];
  if (wanted.op == nullptr && !prepare(wanted)) return nullptr;
  Ref inputs(operands_of(x, y, which == 3));
  if (inputs) {
    PyObject* made = record_quickly(wanted.op, inputs.get());
    if (made != nullptr) return made;
  }
  if (PyErr_Occurred()) return nullptr;
  return PyObject_TypeCheck(x, reinterpret_cast<PyTypeObject*>(bound.Tensor)) ? PyObject_CallFunctionObjArgs(wanted.on_left, x, y, nullptr)
              : PyObject_CallFunctionObjArgs(wanted.on_right, y, x, nullptr);
}

}  // namespace pullback
