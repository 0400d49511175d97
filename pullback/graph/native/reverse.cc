// Walks of reverse mode: the nodes between outputs and targets, the key of their gradients in the
// cache, and the nodes of cached gradients. They do what `pullback.transforms` does in Python.

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "native.h"

namespace pullback {

namespace {

std::int64_t walks = 0;

// Numbers nodes, and gathers what tells them apart: their ops and types, and, as bytes, whose
// operands they are.
//
// Marks are valid while no Python code runs, which could walk over the same nodes: nothing here
// allocates objects before all numbers are given.
class GradientKeyWriter {
 public:
  GradientKeyWriter() : walk_(new_walk()) {}
  ~GradientKeyWriter() {
    for (PyObject* x : nodes_) Py_DECREF(x);
    for (PyObject* x : parts_) Py_DECREF(x);
  }

  bool known(PyObject* node) const { return as_node(node)->walk == walk_; }
  std::int32_t number(PyObject* node) const {
    return known(node) ? static_cast<std::int32_t>(as_node(node)->mark) : -1;
  }

  // An operand from outside, or a seed.
  void add_source(PyObject* node) {
    put(node);
    layout_.push_back(-1);
  }

  // A node between outputs and targets.
  void add(PyObject* node) {
    PyObject* inputs = inputs_of(node);
    Py_ssize_t count = PyTuple_Size(inputs), inside = 0;
    for (Py_ssize_t i = 0; i < count; i++) inside += known(PyTuple_GetItem(inputs, i));
    // Rules run only for nodes with an operand inside; operands of others do not matter
    if (inside == 0) count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
      PyObject* x = PyTuple_GetItem(inputs, i);
      if (!known(x)) add_source(x);
    }
    put(node);
    layout_.push_back(static_cast<std::int32_t>(count));
    for (Py_ssize_t i = 0; i < count; i++) layout_.push_back(number(PyTuple_GetItem(inputs, i)));
  }

  // The numbers of seeds, outputs or targets.
  void add_numbers(PyObject* list) {
    Py_ssize_t count = PyList_Size(list);
    layout_.push_back(static_cast<std::int32_t>(count));
    for (Py_ssize_t i = 0; i < count; i++) {
      PyObject* x = PyList_GetItem(list, i);
      layout_.push_back(x == Py_None ? -1 : number(x));
    }
  }

  PyObject* key(PyObject* version) const {
    Ref made(PyTuple_New(static_cast<Py_ssize_t>(parts_.size()) + 2));
    PyObject* layout = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(layout_.data()),
                                                 layout_.size() * sizeof(layout_[0]));
    if (!made || layout == nullptr) return nullptr;
    PyTuple_SetItem(made.get(), 0, shared(version));
    PyTuple_SetItem(made.get(), 1, layout);
    for (std::size_t i = 0; i < parts_.size(); i++) {
      PyTuple_SetItem(made.get(), static_cast<Py_ssize_t>(i) + 2, shared(parts_[i]));
    }
    return made.release();
  }

  PyObject* nodes() const {
    PyObject* made = PyList_New(static_cast<Py_ssize_t>(nodes_.size()));
    for (std::size_t i = 0; made != nullptr && i < nodes_.size(); i++) {
      PyList_SetItem(made, static_cast<Py_ssize_t>(i), shared(nodes_[i]));
    }
    return made;
  }

 private:
  void put(PyObject* node) {
    as_node(node)->walk = walk_;
    as_node(node)->mark = static_cast<Py_ssize_t>(nodes_.size());
    nodes_.push_back(shared(node));
    parts_.push_back(shared(as_node(node)->op));
    parts_.push_back(shared(as_node(node)->type));
  }

  std::int64_t walk_;
  std::vector<PyObject*> nodes_, parts_;
  std::vector<std::int32_t> layout_;
};

// One node of a template: `op, operands, fetch, type, line, forward_op, selects, detached`.
PyObject* write_node(PyObject* entry, PyObject* nodes, PyObject* common, PyObject* find_tokens) {
  PyObject* op = PyTuple_GetItem(entry, 0);
  PyObject* operands = PyTuple_GetItem(entry, 1);
  Py_ssize_t count = PyTuple_Size(operands);
  Ref inputs(PyTuple_New(count));
  if (!inputs) return nullptr;
  bool any_tokens = false;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* x = PyList_GetItem(nodes, PyLong_AsSsize_t(PyTuple_GetItem(operands, i)));
    if (x == nullptr) return nullptr;
    any_tokens = any_tokens || PyTuple_Size(tokens_of(x)) != 0;
    PyTuple_SetItem(inputs.get(), i, shared(x));
  }
  PyObject* type = PyTuple_GetItem(entry, 3);
  if (PyTuple_GetItem(entry, 6) == Py_True) {  // one of several results
    Node* whole = as_node(PyTuple_GetItem(inputs.get(), 0));
    return make_node(op, inputs.release(), type, whole->where, whole->tokens, whole->forward_op,
                     Py_None);
  }
  PyObject* line = PyTuple_GetItem(entry, 4);
  if (PyLong_CheckExact(line)) {
    PyObject* source = PyList_GetItem(nodes, PyLong_AsSsize_t(line));
    if (source == nullptr) return nullptr;
    line = as_node(source)->where;
  }
  Ref tokens(shared(any_tokens ? common : names.nothing));
  if (any_tokens && (common == Py_None || PyTuple_GetItem(entry, 7) == Py_True)) {
    tokens = Ref(PyObject_CallFunctionObjArgs(find_tokens, op, inputs.get(), nullptr));
    if (!tokens) return nullptr;
  }
  return make_node(op, inputs.release(), type, line, tokens.get(), PyTuple_GetItem(entry, 5),
                   Py_None);
}

}  // namespace

std::int64_t new_walk() { return ++walks; }

int any_alive(PyObject* tokens) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tokens); i++) {
    Ref alive(PyObject_GetAttr(PyTuple_GetItem(tokens, i), names.alive));
    int found = alive ? PyObject_IsTrue(alive.get()) : -1;
    if (found != 0) return found;
  }
  return 0;
}

bool are_nodes(PyObject* list, bool none_allowed) {
  Py_ssize_t count = PyList_Size(list);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* x = PyList_GetItem(list, i);
    bool complete = is_node(x) && as_node(x)->op != nullptr && as_node(x)->type != nullptr;
    if (!complete && !(none_allowed && x == Py_None)) {
      PyErr_SetString(PyExc_TypeError, "a list of nodes is needed");
      return false;
    }
  }
  return count >= 0;
}

PyObject* in_order(std::vector<PyObject*>& nodes) {
  std::vector<std::pair<std::int64_t, PyObject*>> numbered;
  numbered.reserve(nodes.size());
  // References come first: an allocation may run the garbage collector, and with it any code
  for (PyObject* node : nodes) numbered.emplace_back(number_of(node), shared(node));
  std::sort(numbered.begin(), numbered.end());
  PyObject* made = PyList_New(static_cast<Py_ssize_t>(numbered.size()));
  for (std::size_t i = 0; i < numbered.size(); i++) {
    if (made != nullptr) {
      PyList_SetItem(made, static_cast<Py_ssize_t>(i), numbered[i].second);
    } else {
      Py_DECREF(numbered[i].second);
    }
  }
  return made;
}

// reach(outputs, targets): the nodes that outputs depend on, down to the first target.
PyObject* reach(PyObject*, PyObject* args) {
  PyObject *outputs, *targets;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &outputs, &PyList_Type, &targets) ||
      !are_nodes(outputs) || !are_nodes(targets)) {
    return nullptr;
  }
  std::int64_t walk = new_walk(), first = std::numeric_limits<std::int64_t>::max();
  for (Py_ssize_t i = 0; i < PyList_Size(targets); i++) {
    first = std::min(first, number_of(PyList_GetItem(targets, i)));
  }
  std::vector<PyObject*> found;
  auto visit = [&](PyObject* x) {
    if (as_node(x)->walk == walk || number_of(x) < first) return;
    as_node(x)->walk = walk;
    found.push_back(x);
  };
  for (Py_ssize_t i = 0; i < PyList_Size(outputs); i++) visit(PyList_GetItem(outputs, i));
  for (std::size_t i = 0; i < found.size(); i++) {
    PyObject* inputs = inputs_of(found[i]);
    Py_ssize_t count = PyTuple_Size(inputs);
    for (Py_ssize_t j = 0; j < count; j++) visit(PyTuple_GetItem(inputs, j));
  }
  return in_order(found);
}

// gradient_key(reached, outputs, seeds, targets, version): the key of gradients and the nodes that
// it numbers; None if they cannot be cached.
PyObject* gradient_key(PyObject*, PyObject* args) {
  PyObject *reached, *outputs, *seeds, *targets, *version;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O", &PyList_Type, &reached, &PyList_Type, &outputs,
                        &PyList_Type, &seeds, &PyList_Type, &targets, &version) ||
      !are_nodes(reached) || !are_nodes(outputs) || !are_nodes(seeds, true) ||
      !are_nodes(targets)) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(reached); i++) {  // may run Python
    Ref op(shared(as_node(PyList_GetItem(reached, i))->op));
    Ref predictable(PyObject_GetAttr(op.get(), names.predictable));
    if (!predictable) return nullptr;
    if (predictable.get() != Py_True) Py_RETURN_NONE;
  }
  GradientKeyWriter writer;
  for (Py_ssize_t i = 0; i < PyList_Size(reached); i++) writer.add(PyList_GetItem(reached, i));
  for (Py_ssize_t i = 0; i < PyList_Size(seeds); i++) {
    PyObject* seed = PyList_GetItem(seeds, i);
    if (seed != Py_None && !writer.known(seed)) writer.add_source(seed);
  }
  for (PyObject* list : {seeds, outputs, targets}) writer.add_numbers(list);
  Ref key(writer.key(version)), nodes(writer.nodes());
  return key && nodes ? PyTuple_Pack(2, key.get(), nodes.get()) : nullptr;
}

// distinct_tokens(nodes): the tuples of tokens of nodes, each once, but not empty ones.
PyObject* distinct_tokens(PyObject*, PyObject* nodes) {
  if (!PyList_Check(nodes) || !are_nodes(nodes)) return nullptr;
  std::vector<PyObject*> found;
  PyObject* last = nullptr;  // mostly the same
  for (Py_ssize_t i = 0; i < PyList_Size(nodes); i++) {
    PyObject* tokens = tokens_of(PyList_GetItem(nodes, i));
    if (tokens == last || PyTuple_Size(tokens) == 0) continue;
    last = tokens;
    if (std::find(found.begin(), found.end(), tokens) == found.end()) {
      found.push_back(shared(tokens));
    }
  }
  PyObject* made = PyList_New(static_cast<Py_ssize_t>(found.size()));
  for (std::size_t i = 0; i < found.size(); i++) {
    if (made != nullptr) {
      PyList_SetItem(made, static_cast<Py_ssize_t>(i), found[i]);
    } else {
      Py_DECREF(found[i]);
    }
  }
  return made;
}

// write_template(entries, nodes, common, find_tokens): append the nodes of a template to `nodes`.
PyObject* write_template(PyObject*, PyObject* args) {
  PyObject *entries, *nodes, *common, *find_tokens;
  if (!PyArg_ParseTuple(args, "O!O!OO", &PyList_Type, &entries, &PyList_Type, &nodes, &common,
                        &find_tokens) ||
      !are_nodes(nodes)) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(entries); i++) {
    Ref made(write_node(PyList_GetItem(entries, i), nodes, common, find_tokens));
    if (!made || PyList_Append(nodes, made.get()) < 0) return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace pullback
