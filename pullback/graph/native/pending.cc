// Pending work: what it consists of, and its structural key. As `pullback.lazy.collect` in Python.

#include <algorithm>

#include "native.h"

namespace pullback {

namespace {

bool is_pending(PyObject* node) { return as_node(node)->value == Py_None; }

// The node behind aliases.
PyObject* behind_aliases(PyObject* node) {
  while (is_pending(node) && is_kind(as_node(node)->op, bound.Transparent)) {
    node = PyTuple_GetItem(as_node(node)->inputs, 0);
  }
  return node;
}

// Nodes to compute and the leaves that they use; marks say which a node is.
class Collection {
 public:
  // Whether `target` shares work or leaves; if so, or if `always`, adds its own to them.
  bool explore(PyObject* target, bool always) {
    if (mark(target) == WORK) return true;
    PyObject* inputs = inputs_of(target);
    if (PyTuple_Size(inputs) == 1 && mark(PyTuple_GetItem(inputs, 0)) == WORK) {
      add_work(target);  // mostly further results of an op
      return true;
    }
    bool touches = always;
    Py_ssize_t trial = next_trial_++;
    std::vector<PyObject*> seen{target}, leaves;
    set_mark(target, trial);
    for (std::size_t i = 0; i < seen.size(); i++) {
      PyObject* operands = inputs_of(seen[i]);
      Py_ssize_t count = PyTuple_Size(operands);
      for (Py_ssize_t j = 0; j < count; j++) {
        PyObject* x = behind_aliases(PyTuple_GetItem(operands, j));
        if (!is_pending(x)) {
          if (as_node(x)->op == bound.scalar) continue;
          touches = touches || mark(x) == LEAF;
          leaves.push_back(x);
        } else if (mark(x) == WORK) {
          touches = true;
        } else if (mark(x) != trial) {
          set_mark(x, trial);
          seen.push_back(x);
        }
      }
    }
    if (!touches) return false;
    for (PyObject* x : seen) add_work(x);
    for (PyObject* x : leaves) set_mark(x, LEAF);
    return true;
  }

  PyObject* work() { return in_order(work_); }

 private:
  static constexpr Py_ssize_t NEW = 0, WORK = 1, LEAF = 2;

  Py_ssize_t mark(PyObject* node) const {
    return as_node(node)->walk == walk_ ? as_node(node)->mark : NEW;
  }
  void set_mark(PyObject* node, Py_ssize_t mark) {
    as_node(node)->walk = walk_;
    as_node(node)->mark = mark;
  }
  void add_work(PyObject* node) {
    set_mark(node, WORK);
    work_.push_back(node);
  }

  std::int64_t walk_ = new_walk();
  Py_ssize_t next_trial_ = 3;
  std::vector<PyObject*> work_;
};

// Finds the tokens that nodes keep when their values are set; nodes of a step share their tokens.
class LastingTokens {
 public:
  // 1 if no derivative needs what has these tokens, 0 if one does, -1 with an error.
  int find(PyObject* tokens) {
    if (tokens == known_.get()) return 1;
    int alive = any_alive(tokens);
    if (alive != 0) return alive < 0 ? -1 : 0;
    lasting_ = Ref(PyObject_CallFunctionObjArgs(bound.lasting_tokens, tokens, nullptr));
    known_ = Ref(lasting_ ? shared(tokens) : nullptr);
    return lasting_ ? 1 : -1;
  }

  PyObject* lasting() const { return lasting_.get(); }

 private:
  Ref known_{shared(names.nothing)}, lasting_{shared(names.nothing)};
};

// Sets the value of a node that no derivative needs, which becomes a leaf.
bool set_last_value(Node* node, PyObject* value, PyObject* tokens) {
  Ref leaf;
  if (reinterpret_cast<PyObject*>(Py_TYPE(node->op)) != bound.Leaf) {
    Ref name(PyObject_GetAttr(node->op, names.name));
    if (!name) return false;
    leaf = Ref(PyObject_CallFunctionObjArgs(bound.computed_leaf, name.get(), nullptr));
    if (!leaf) return false;
  }
  Ref old_value(node->value), old_op, old_inputs;  // freed at the end: that may run any code
  Ref old_tokens(node->tokens);
  node->tokens = shared(tokens);
  node->value = shared(value);
  if (leaf) {
    old_op = Ref(node->op);
    node->op = leaf.release();
  }
  old_inputs = Ref(node->inputs);
  node->inputs = shared(names.nothing);
  return true;
}

// Numbers nodes and leaves, and writes the key.
class WorkKeyWriter {
 public:
  WorkKeyWriter(PyObject* leaves, PyObject* scalars, PyObject* index)
      : leaves_(leaves), scalars_(scalars), index_(index) {}

  // Adds a node; false with an error, or without one if it needs a value that there is not.
  bool add(PyObject* node, Py_ssize_t number) {
    PyObject *op = as_node(node)->op, *inputs = inputs_of(node);
    Ref executed;
    if (is_kind(op, bound.RunsAs)) {
      executed = Ref(PyObject_GetAttr(op, names.executed));
      if (!executed) return false;
      int runs = PyObject_IsTrue(executed.get());
      if (runs < 0) return false;
      if (runs) op = executed.get();
    }
    if (!append(shared(op))) return false;
    Py_ssize_t count = PyTuple_Size(inputs);
    if (count == 0 && reinterpret_cast<PyObject*>(Py_TYPE(as_node(node)->op)) == bound.Input) {
      return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
      if (!add_operand(PyTuple_GetItem(inputs, i))) return false;
    }
    return give_number(node, number);
  }

  PyObject* key() const { return PyList_AsTuple(key_.get()); }

 private:
  bool append(PyObject* owned) {
    Ref part(owned);
    return part && PyList_Append(key_.get(), part.get()) == 0;
  }

  bool give_number(PyObject* node, Py_ssize_t number) {
    as_node(node)->walk = walk_;
    as_node(node)->mark = number;
    Ref value(PyLong_FromSsize_t(number));
    return value && PyDict_SetItem(index_, node, value.get()) == 0;
  }

  bool add_operand(PyObject* x) {
    if (as_node(x)->walk != walk_) {
      x = behind_aliases(x);
      if (as_node(x)->walk != walk_ && !add_leaf(x)) return false;
    }
    return append(PyLong_FromSsize_t(as_node(x)->mark));
  }

  // Before the number of a new leaf comes its type. Numbers of leaves and scalars are negative.
  bool add_leaf(PyObject* x) {
    if (is_pending(x)) return false;
    bool scalar = as_node(x)->op == bound.scalar;
    PyObject* list = scalar ? scalars_ : leaves_;
    Py_ssize_t number = ~(2 * PyList_Size(list) + scalar);
    return PyList_Append(list, x) == 0 && give_number(x, number) &&
           append(shared(as_node(x)->type));
  }

  PyObject *leaves_, *scalars_, *index_;
  std::int64_t walk_ = new_walk();
  Ref key_{PyList_New(0)};
};

}  // namespace

// collect_related(targets, candidates): the candidates that share work or leaves with the targets,
// and all nodes to compute for both.
PyObject* collect_related(PyObject*, PyObject* args) {
  PyObject *targets, *candidates;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &targets, &PyList_Type, &candidates) ||
      !are_nodes(targets) || !are_nodes(candidates)) {
    return nullptr;
  }
  Collection found;
  for (Py_ssize_t i = 0; i < PyList_Size(targets); i++) {
    found.explore(PyList_GetItem(targets, i), true);
  }
  std::vector<char> chosen(static_cast<std::size_t>(PyList_Size(candidates)), 0);
  for (bool grown = true; grown;) {  // a candidate may share work with another one
    grown = false;
    for (std::size_t i = 0; i < chosen.size(); i++) {
      PyObject* candidate = PyList_GetItem(candidates, static_cast<Py_ssize_t>(i));
      if (!chosen[i] && found.explore(candidate, false)) chosen[i] = grown = true;
    }
  }
  Ref related(PyList_New(0)), work(found.work());
  if (!related || !work) return nullptr;
  for (std::size_t i = 0; i < chosen.size(); i++) {
    PyObject* candidate = PyList_GetItem(candidates, static_cast<Py_ssize_t>(i));
    if (chosen[i] && PyList_Append(related.get(), candidate) < 0) return nullptr;
  }
  return PyTuple_Pack(2, related.get(), work.get());
}

// work_key(nodes, leaves, scalars, index): the key of some work; fills the lists and the index.
// None if it needs a value that there is not.
PyObject* work_key(PyObject*, PyObject* args) {
  PyObject *nodes, *leaves, *scalars, *index;
  if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyList_Type, &nodes, &PyList_Type, &leaves,
                        &PyList_Type, &scalars, &PyDict_Type, &index) ||
      !are_nodes(nodes)) {
    return nullptr;
  }
  WorkKeyWriter writer(leaves, scalars, index);
  for (Py_ssize_t i = 0; i < PyList_Size(nodes); i++) {
    if (!writer.add(PyList_GetItem(nodes, i), i)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NONE;
    }
  }
  return writer.key();
}

// pending_handles(handles): those of the weak references to tensors that lead to a pending node.
PyObject* pending_handles(PyObject*, PyObject* handles) {
  if (!PyList_Check(handles)) {
    PyErr_SetString(PyExc_TypeError, "pending_handles takes a list");
    return nullptr;
  }
  Ref found(PyList_New(0));
  for (Py_ssize_t i = 0; found && i < PyList_Size(handles); i++) {
    PyObject* reference = PyList_GetItem(handles, i);
    PyObject* tensor = PyWeakref_GetObject(reference);
    if (tensor == nullptr) return nullptr;
    if (!is_tensor(tensor) || !is_node(as_tensor(tensor)->node)) continue;
    bool pending = is_pending(as_tensor(tensor)->node);
    if (pending && PyList_Append(found.get(), reference) < 0) return nullptr;
  }
  return found.release();
}

// set_values(nodes, values): `set_value_and_history` for each node.
PyObject* set_values(PyObject*, PyObject* args) {
  PyObject *nodes, *values;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &nodes, &PyList_Type, &values) ||
      !are_nodes(nodes)) {
    return nullptr;
  }
  LastingTokens tokens;
  for (Py_ssize_t i = 0; i < PyList_Size(nodes) && i < PyList_Size(values); i++) {
    PyObject *node = PyList_GetItem(nodes, i), *value = PyList_GetItem(values, i);
    int over = tokens.find(tokens_of(node));
    if (over < 0) return nullptr;
    if (!over) {
      Ref done(PyObject_CallFunctionObjArgs(bound.set_value_and_history, node, value, nullptr));
      if (!done) return nullptr;
    } else if (!set_last_value(as_node(node), value, tokens.lasting())) {
      return nullptr;
    }
  }
  Py_RETURN_NONE;
}

}  // namespace pullback
