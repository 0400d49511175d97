// Which leaves of some work nothing else refers to. As `pullback.lazy.ownership` in Python, which
// says what the rules are.

#include "native.h"

namespace pullback {

namespace {

// The number of references to an object; later versions of Python keep flags in the upper half.
Py_ssize_t references(PyObject* object) { return Py_REFCNT(object) & 0xFFFFFFFF; }

class Ownership {
 public:
  explicit Ownership(PyObject* index) : index_(index) {}

  void add_node(PyObject* node, bool computed) { add(node)->computed = computed; }
  void add_leaf(PyObject* leaf) { add(leaf); }

  // Counts the references from tuples of inputs, also those of aliases behind the nodes; false with
  // an error.
  bool count_inputs(PyObject* nodes) {
    Py_ssize_t count = PyList_Size(nodes);
    for (Py_ssize_t i = 0; i < count; i++) {
      if (!count_inputs_of(PyList_GetItem(nodes, i))) return false;
    }
    for (std::size_t i = 0; i < aliases_.size(); i++) {
      if (!count_inputs_of(aliases_[i])) return false;
    }
    return true;
  }

  // Keeps what is referred to from elsewhere; `lists` of the caller refer to each node.
  bool keep_owned(PyObject* nodes, Py_ssize_t lists) {
    Py_ssize_t count = PyList_Size(nodes);
    for (Py_ssize_t i = 0; i < count; i++) {
      PyObject* node = PyList_GetItem(nodes, i);
      Entry* entry = find(node);
      if (entry->computed) {
        int needed = any_alive(tokens_of(node));
        if (needed < 0) return false;
        if (needed) keep_all(inputs_of(node));
      } else if (references(node) != entry->inside + 1 + lists) {
        kept_.push_back(node);
      }
    }
    for (PyObject* alias : aliases_) {
      if (references(alias) != find(alias)->inside) kept_.push_back(alias);
    }
    return true;
  }

  // Finds what the kept nodes lead to: computed ones lead to nothing.
  void reach() {
    while (!kept_.empty()) {
      PyObject* node = kept_.back();
      kept_.pop_back();
      Entry* entry = find(node);
      if (entry == nullptr || entry->reached) continue;
      entry->reached = true;
      if (as_node(node)->value == Py_None && !entry->computed) keep_all(inputs_of(node));
    }
  }

  // Whether only the work refers to a leaf: its tuples of inputs, its index and its list of leaves.
  bool is_dead(PyObject* leaf) {
    Entry* entry = find(leaf);
    return !entry->reached && references(leaf) == entry->inside + 2;
  }

 private:
  struct Entry {
    Py_ssize_t inside = 0;  // references from tuples of inputs
    bool computed = false, reached = false;
  };

  Entry* find(PyObject* node) {
    bool known = as_node(node)->walk == walk_;
    return known ? &entries_[static_cast<std::size_t>(as_node(node)->mark)] : nullptr;
  }

  Entry* add(PyObject* node) {
    if (as_node(node)->walk != walk_) {
      as_node(node)->walk = walk_;
      as_node(node)->mark = static_cast<Py_ssize_t>(entries_.size());
      entries_.emplace_back();
    }
    return find(node);
  }

  bool count_inputs_of(PyObject* node) {
    PyObject* inputs = inputs_of(node);
    Py_ssize_t count = PyTuple_Size(inputs);
    for (Py_ssize_t i = 0; i < count; i++) {
      PyObject* x = PyTuple_GetItem(inputs, i);
      if (find(x) == nullptr) {
        int numbered = PyDict_Contains(index_, x);  // a scalar is; an alias is not
        if (numbered < 0) return false;
        if (!numbered) aliases_.push_back(x);
        add(x);
      }
      find(x)->inside++;
    }
    if (count && references(inputs) != 1) keep_all(inputs);
    return true;
  }

  void keep_all(PyObject* inputs) {
    Py_ssize_t count = PyTuple_Size(inputs);
    for (Py_ssize_t i = 0; i < count; i++) kept_.push_back(PyTuple_GetItem(inputs, i));
  }

  PyObject* index_;
  std::int64_t walk_ = new_walk();
  std::vector<Entry> entries_;
  std::vector<PyObject*> aliases_, kept_;
};

}  // namespace

// leaves_without_owner(nodes, leaves, index, candidates, outputs, lists): those of the leaves with
// the numbers `candidates` that die when the outputs of some work are computed.
PyObject* leaves_without_owner(PyObject*, PyObject* args) {
  PyObject *nodes, *leaves, *index, *candidates, *outputs;
  Py_ssize_t lists;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!n", &PyList_Type, &nodes, &PyList_Type, &leaves,
                        &PyDict_Type, &index, &PyList_Type, &candidates, &PyTuple_Type, &outputs,
                        &lists) ||
      !are_nodes(nodes) || !are_nodes(leaves)) {
    return nullptr;
  }
  Ownership found(index);
  for (Py_ssize_t i = 0; i < PyList_Size(nodes); i++) {
    found.add_node(PyList_GetItem(nodes, i), false);
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(outputs); i++) {
    Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GetItem(outputs, i));
    PyObject* node = PyErr_Occurred() ? nullptr : PyList_GetItem(nodes, number);
    if (node == nullptr) return nullptr;
    found.add_node(node, true);
  }
  for (Py_ssize_t i = 0; i < PyList_Size(leaves); i++) found.add_leaf(PyList_GetItem(leaves, i));
  if (!found.count_inputs(nodes) || !found.keep_owned(nodes, lists)) return nullptr;
  found.reach();
  Ref dead(PyList_New(0));
  for (Py_ssize_t i = 0; dead && i < PyList_Size(candidates); i++) {
    PyObject* number = PyList_GetItem(candidates, i);
    Py_ssize_t place = PyLong_AsSsize_t(number);
    PyObject* leaf = PyErr_Occurred() ? nullptr : PyList_GetItem(leaves, place);
    if (leaf == nullptr) return nullptr;
    if (found.is_dead(leaf) && PyList_Append(dead.get(), number) < 0) return nullptr;
  }
  return dead.release();
}

}  // namespace pullback
