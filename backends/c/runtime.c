/* The way from a Python call to a kernel, and the timing loop. Compiled once per compiler.

   Arguments come in through the buffer protocol. Everything used here is in the stable ABI, and the
   prototypes are declared below so that no Python header is needed. The entry answers
     0  the kernel ran
     1  the arguments were refused before anything was touched; Python finds the reason
     2  the kernel itself reported a failure
*/
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef intptr_t ssize;
typedef struct _object PyObject;
typedef struct _ts PyThreadState;

typedef struct {
  void *buf;
  PyObject *obj;
  ssize len, itemsize;
  int readonly, ndim;
  char *format;
  ssize *shape, *strides, *suboffsets;
  void *internal;
} Py_buffer;

typedef struct {
  const char *name;
  PyObject *(*function)(PyObject *, PyObject *const *, ssize);
  int flags;
  const char *doc;
} PyMethodDef;

enum { WRITABLE = 0x1, FORMAT = 0x4, C_CONTIGUOUS = 0x38, METH_FASTCALL = 0x80 };

int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
void PyBuffer_Release(Py_buffer *);
void PyErr_Clear(void);
PyObject *PyLong_FromLong(long);
PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
void *PyCapsule_GetPointer(PyObject *, const char *);
PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
PyObject *PyObject_Type(PyObject *);
long long PyLong_AsLongLong(PyObject *);
double PyFloat_AsDouble(PyObject *);
int PyObject_IsTrue(PyObject *);
PyObject *PyErr_Occurred(void);
int PyObject_HasAttrString(PyObject *, const char *);
int PyType_IsSubtype(PyObject *, PyObject *);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);
void Py_DecRef(PyObject *);

typedef int (*Kernel)(void **, const int64_t *);

/* A kernel takes `total` arrays: those of `bound` that are not null belong to it, and `params` are
   the arguments of a call. One array in the table: letters of its format, itemsize, is_output,
   position among all arrays, rank, and one number per dimension, the extent itself or -1 - k for
   the k-th symbolic size. For an integer: -1, least and largest value, which number it is, 0. For
   another number: -2, its type, 0, which number it is, 0. Numbers are symbolic sizes, and after them
   the bits of values; `sizes` counts both. */
typedef struct {
  Kernel kernel;
  int64_t params, total, sizes;
  void **bound;
  int64_t table[];
} Entry;

static const char *const LETTERS[] = {"?", "bhilq", "BHILQ", "efd"};

#ifdef _OPENMP
int omp_get_max_threads(void);
/* Keeps the library of OpenMP, where threads wait between kernels, when the last kernel goes. */
int (*const tensorir_openmp)(void) = omp_get_max_threads;
#endif

static PyObject *ndarray, *integer, *real, *truth; /* the types of NumPy and of Python's numbers */

void tensorir_types(PyObject *array, PyObject *whole, PyObject *number, PyObject *boolean) {
  ndarray = array, integer = whole, real = number, truth = boolean;
}

/* An array may know of masked elements, which its buffer does not show; Python looks closer. */
static int may_be_masked(PyObject *array) {
  PyObject *type = PyObject_Type(array);
  int other = type != ndarray && PyType_IsSubtype(type, ndarray);
  Py_DecRef(type);
  return other && PyObject_HasAttrString(array, "mask");
}

static int matches(const Py_buffer *view, const int64_t *param, int64_t *sizes) {
  const char *format = view->format;
  if (!format || !format[0] || format[1] || !strchr(LETTERS[param[0]], format[0])) return 0;
  if (view->itemsize != param[1] || (uintptr_t)view->buf % param[1]) return 0;
  if (view->ndim != param[4]) return 0;
  for (int axis = 0; axis < view->ndim; axis++) {
    int64_t expected = param[5 + axis], actual = view->shape[axis];
    if (expected < 0) {
      int64_t *size = &sizes[-1 - expected];
      if (*size < 0) *size = actual;
      expected = *size;
    }
    if (actual != expected) return 0;
  }
  return 1;
}

/* An argument that is a number; Python looks closer at all but plain ints. */
static int takes(PyObject *arg, const int64_t *param, int64_t *sizes) {
  PyObject *type = PyObject_Type(arg);
  int plain = type == integer;
  Py_DecRef(type);
  if (!plain) return 0;
  long long value = PyLong_AsLongLong(arg);
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return 0;
  }
  int64_t *size = &sizes[param[3]];
  if (value < param[1] || value > param[2] || (*size >= 0 && *size != value)) return 0;
  *size = value;
  return 1;
}

/* The bits of the number nearest to x, ties to even, of a type with so many bits of exponent and
   mantissa; those of infinity beyond the largest. */
static uint32_t narrow(double x, int exponent, int mantissa) {
  uint64_t bits, top = (1u << exponent) - 1;
  memcpy(&bits, &x, sizeof bits);
  uint32_t sign = (uint32_t)(bits >> 63) << (exponent + mantissa);
  uint64_t fraction = bits & ((1ull << 52) - 1);
  int at = (int)(bits >> 52 & 0x7ff), shift = 52 - mantissa;
  if (at == 0x7ff) return sign | (uint32_t)(top << mantissa) | (fraction ? 1u << (mantissa - 1) : 0);
  at += (int)(top >> 1) - 1023;
  if (at < 1) shift += 1 - at, at = 1; /* among the least, which have one distance */
  if (shift > 63) return sign;
  uint64_t whole = fraction | 1ull << 52, half = 1ull << (shift - 1);
  uint64_t kept = whole >> shift, rest = whole & (2 * half - 1);
  kept += rest > half || (rest == half && (kept & 1));
  uint64_t found = ((uint64_t)(at - 1) << mantissa) + kept; /* a carry raises the exponent */
  return sign | (uint32_t)(found < top << mantissa ? found : top << mantissa);
}

/* An argument that is a truth value or a float; Python looks closer at all but plain ones, and at
   those that would become infinite. */
static int takes_value(PyObject *arg, const int64_t *param, int64_t *numbers) {
  enum { BOOL, DOUBLE, SINGLE, HALF, BRAIN };
  int64_t *word = &numbers[param[3]];
  PyObject *type = PyObject_Type(arg);
  int plain = type == (param[1] == BOOL ? truth : real);
  Py_DecRef(type);
  if (!plain) return 0;
  if (param[1] == BOOL) {
    *word = PyObject_IsTrue(arg);
    return 1;
  }
  double x = PyFloat_AsDouble(arg);
  if (param[1] == DOUBLE) {
    memcpy(word, &x, sizeof x);
    return 1;
  }
  int exponent = param[1] == HALF ? 5 : 8;
  int mantissa = param[1] == HALF ? 10 : param[1] == BRAIN ? 7 : 23;
  uint32_t bits = narrow(x, exponent, mantissa), infinite = ((1u << exponent) - 1) << mantissa;
  if ((bits & ((1u << (exponent + mantissa)) - 1)) == infinite && x - x == 0) return 0;
  *word = bits;
  return 1;
}

static int overlaps(const Py_buffer *a, const Py_buffer *b) {
  const char *a0 = a->buf, *b0 = b->buf;
  return a->len && b->len && a0 < b0 + b->len && b0 < a0 + a->len;
}

static PyObject *call(PyObject *self, PyObject *const *args, ssize count) {
  const Entry *entry = PyCapsule_GetPointer(self, NULL);
  if (!entry) return NULL;
  if (count != entry->params) return PyLong_FromLong(1);
  Py_buffer views[count + 1];
  void *pointers[entry->total + 1];
  int64_t sizes[entry->sizes + 1];
  int output[count + 1];
  long status = 1;
  ssize held = 0;
  for (int64_t k = 0; k < entry->sizes; k++) sizes[k] = -1;
  memcpy(pointers, entry->bound, entry->total * sizeof(void *));
  const int64_t *param = entry->table;
  for (ssize i = 0; i < count; i++, param += 5 + param[4]) {
    if (param[0] < 0) {
      if (!(param[0] == -1 ? takes : takes_value)(args[i], param, sizes)) goto done;
      continue;
    }
    output[held] = (int)param[2];
    if (may_be_masked(args[i])) goto done;
    int flags = C_CONTIGUOUS | FORMAT | (output[held] ? WRITABLE : 0);
    if (PyObject_GetBuffer(args[i], &views[held], flags)) {
      PyErr_Clear();
      goto done;
    }
    held++;
    if (!matches(&views[held - 1], param, sizes)) goto done;
    pointers[param[3]] = views[held - 1].buf;
  }
  for (ssize i = 0; i < held; i++)
    for (ssize j = 0; output[i] && j < held; j++)
      if (i != j && overlaps(&views[i], &views[j])) goto done;
  PyThreadState *thread = PyEval_SaveThread();
  status = entry->kernel(pointers, sizes) ? 2 : 0;
  PyEval_RestoreThread(thread);
done:
  while (held) PyBuffer_Release(&views[--held]);
  return PyLong_FromLong(status);
}

static PyMethodDef method = {"kernel", call, METH_FASTCALL, NULL};

static void destroy(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, NULL)); }

/* A Python function that checks its arguments against the table and runs the kernel. */
PyObject *tensorir_entry(void *kernel, int64_t params, int64_t sizes, const int64_t *table,
                         int64_t words, int64_t total, void *const *bound) {
  Entry *entry = malloc(sizeof(Entry) + words * sizeof(int64_t) + total * sizeof(void *));
  if (!entry) abort();
  entry->kernel = (Kernel)kernel;
  entry->params = params;
  entry->total = total;
  entry->sizes = sizes;
  entry->bound = (void **)(entry->table + words);
  memcpy(entry->table, table, words * sizeof(int64_t));
  memcpy(entry->bound, bound, total * sizeof(void *));
  PyObject *capsule = PyCapsule_New(entry, NULL, destroy);
  PyObject *function = capsule ? PyCFunction_NewEx(&method, capsule, NULL) : NULL;
  if (capsule) Py_DecRef(capsule);
  return function;
}

/* Seconds that `calls` calls take; negative when the kernel reports a failure. */
double tensorir_time(void *kernel, void **args, const int64_t *sizes, int64_t calls) {
  struct timespec start, end;
  int failed = 0;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int64_t i = 0; i < calls; i++) failed |= ((Kernel)kernel)(args, sizes);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (failed) return -1.0;
  return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}
