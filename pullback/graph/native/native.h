// Nodes and tensors as C structures, and what the hot paths share.
//
// Only the limited API of Python 3.11 is used, so that one library serves all later versions.
#pragma once

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pullback {

// The fields of `pullback.graph.node.Node`. `mark` belongs to a walk while `walk` is its number.
struct Node {
  PyObject_HEAD
  PyObject *op, *inputs, *type, *where, *tokens, *forward_op, *value, *number, *checked;
  PyObject *weak_references;
  std::int64_t walk;
  Py_ssize_t mark;
  Node *before, *after;  // in the list of all nodes
};

// The fields of `pullback.lazy.tensor.Tensor`.
struct Tensor {
  PyObject_HEAD
  PyObject *node, *token, *grad;
  PyObject *weak_references;
};

// Objects of pullback that the hot paths use; Python sets them with `bind`.
struct Bound {
  PyObject *Node = nullptr, *Tensor = nullptr;            // classes
  PyObject *Detached = nullptr, *Transparent = nullptr, *RunsAs = nullptr;
  PyObject *SourceLine = nullptr, *Input = nullptr;
  PyObject *scalar = nullptr, *leaf = nullptr;            // ops
  PyObject *thread = nullptr;                             // the state of the current thread
  PyObject *current = nullptr;                            // returns the settings
  PyObject *internal_files = nullptr;                     // whether files are pullback's
  PyObject *find_user_line = nullptr, *operators = nullptr;
  PyObject *record = nullptr, *record_several = nullptr;  // what does all cases
  PyObject *selection = nullptr, *computed_leaf = nullptr;  // return ops, by number and by name
  PyObject *Leaf = nullptr, *set_value_and_history = nullptr, *lasting_tokens = nullptr;
  PyObject *float32 = nullptr, *float64 = nullptr;        // dtypes
  PyObject *f32 = nullptr, *f64 = nullptr;                // types of scalars
  PyObject *table = nullptr;                              // op classes by name
  PyObject *plain_values = nullptr;                       // classes of values without references
};
extern Bound bound;

// Attribute names.
struct Names {
  PyObject *closed, *inferred, *plain, *dict, *user_line, *handles, *settle_above, *f_back,
      *f_lasti, *co_filename, *predictable, *executed, *dtype, *is_inexact, *tracing_from, *mode, *check_nan,
      *execute, *cache, *lost_xla, *sharding, *consume, *latest, *compiled,
      *general_call, *alive, *name;
  PyObject *empty, *nothing;  // the empty string and tuple
};
extern Names names;

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* old = object_;
    object_ = other.release();
    Py_XDECREF(old);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* result = object_;
    object_ = nullptr;
    return result;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

inline PyObject* shared(PyObject* object) {
  Py_INCREF(object);
  return object;
}

inline Node* as_node(PyObject* object) { return reinterpret_cast<Node*>(object); }
inline Tensor* as_tensor(PyObject* object) { return reinterpret_cast<Tensor*>(object); }
inline bool is_tensor(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == bound.Tensor;
}
inline bool is_node(PyObject* object) {
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(bound.Node));
}
inline bool is_kind(PyObject* op, PyObject* kind) {
  return PyType_IsSubtype(Py_TYPE(op), reinterpret_cast<PyTypeObject*>(kind));
}

// The number of the next node; numbers increase in the order of recording.
std::int64_t take_number();
// Fields of a node; a class that is derived from it may leave them out.
inline std::int64_t number_of(PyObject* node) {
  PyObject* number = as_node(node)->number;
  return number == nullptr ? -1 : PyLong_AsLongLong(number);
}
inline PyObject* inputs_of(PyObject* node) {
  PyObject* inputs = as_node(node)->inputs;
  return inputs == nullptr ? names.nothing : inputs;
}
inline PyObject* tokens_of(PyObject* node) {
  PyObject* tokens = as_node(node)->tokens;
  return tokens == nullptr ? names.nothing : tokens;
}

// Returns a new node; steals `inputs`, borrows the rest.
PyObject* make_node(PyObject* op, PyObject* inputs, PyObject* type, PyObject* where,
                    PyObject* tokens, PyObject* forward_op, PyObject* value);
// Returns a new handle on a node; steals it.
PyObject* make_tensor(PyObject* node);

// Returns an attribute of the current thread's state, whose dict is `own`; a new reference.
PyObject* of_thread(PyObject* own, PyObject* name);
// Returns the innermost line outside of pullback, or None; a new reference.
PyObject* user_line();
// Records an application; null without an error if it is not a frequent case. Borrows `inputs`.
PyObject* record_quickly(PyObject* op, PyObject* inputs);

// Whether all items of a list are nodes, or None if that is allowed; otherwise sets an error.
bool are_nodes(PyObject* list, bool none_allowed = false);
// Whether a token is alive: 1 or 0; -1 with an error.
int any_alive(PyObject* tokens);
// A number for a walk, which marks the nodes that it has seen with it.
std::int64_t new_walk();
// Returns a list of nodes in the order of recording.
PyObject* in_order(std::vector<PyObject*>& nodes);

bool add_node_types(PyObject* module);
bool add_call_types(PyObject* module);

// Functions of the module.
PyObject* next_number(PyObject*, PyObject*);
PyObject* fast_calls(PyObject*, PyObject*);
PyObject* live_nodes(PyObject*, PyObject*);
PyObject* record(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* record_several(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* reach(PyObject*, PyObject* args);
PyObject* gradient_key(PyObject*, PyObject* args);
PyObject* distinct_tokens(PyObject*, PyObject* nodes);
PyObject* write_template(PyObject*, PyObject* args);
PyObject* collect_related(PyObject*, PyObject* args);
PyObject* work_key(PyObject*, PyObject* args);
PyObject* pending_handles(PyObject*, PyObject* handles);
PyObject* set_values(PyObject*, PyObject* args);
PyObject* leaves_without_owner(PyObject*, PyObject* args);
PyObject* binary(PyObject* x, PyObject* y, int which);

}  // namespace pullback
