"""Checking the arguments of a call, in readable Python.

The compiled entry makes the same checks in well under a microsecond and only says yes or no. After
a no, this file finds the reason, or takes arguments that the entry does not know (DLPack).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backends.call.signature import Param, Signature, dimension
from backends.call.spaces import HOST, Array, Space, argument_name, back, conversion
from tensorir import (
    TensorIRError,
    Var,
    check_limits,
    int_value,
    number_of,
    variables,
    word_of,
)
from tensorir import dtype as dt

Empty = Callable[[tuple[int, ...], str], Array]


def wrong_count(signature: Signature, count: int) -> TensorIRError:
    """The error of a call with `count` arguments, neither all of them nor the inputs alone."""
    every, given = len(signature.params), len(signature.given)
    reads = ", ".join(signature.params[i].name for i in signature.given)
    kept = ", ".join(repr(p.name) for p in signature.params if p.is_given and p.is_output)
    note = f"; the kernel needs what is in {kept} before, and writes there" if kept else ""
    if given == every:
        return TensorIRError(
            f"{signature.name}: {count} arguments given; expected {every} ({reads}){note}"
        )
    all_names = ", ".join(p.name for p in signature.params)
    return TensorIRError(
        f"{signature.name}: {count} arguments given; expected {given} ({reads}) to allocate "
        f"the outputs, or {every} ({all_names}) to write into them{note}"
    )


def in_order(
    signature: Signature, args: Sequence[object], named: Mapping[str, object]
) -> tuple[object, ...]:
    """The arguments of a call in order: all of them, or those that have to be given.

    Those that are not named take the others' places in order. Raises TensorIRError for a name that
    is none, and where too few or too many are left.
    """
    places = {p.name: i for i, p in enumerate(signature.params)}
    for name in named:
        if name not in places:
            raise TensorIRError(
                f"{signature.name}: has no argument {name!r}; it has {', '.join(places)}"
            )
    taken = {places[name]: value for name, value in named.items()}
    for wanted in (range(len(signature.params)), signature.given):
        left = [i for i in wanted if i not in taken]
        if len(left) == len(args) and taken.keys() <= {*wanted}:
            taken.update(zip(left, args))
            return tuple([taken[i] for i in wanted])
    given = [p.name for i, p in enumerate(signature.params) if p.is_given and i not in taken]
    rest = [p.name for i, p in enumerate(signature.params) if i not in taken]
    raise TensorIRError(
        f"{signature.name}: {len(args)} arguments given beside {', '.join(named)}; expected "
        f"{len(given)} ({', '.join(given) or 'none'}), or {len(rest)} ({', '.join(rest)}) with the "
        "outputs"
    )


def prepare(
    signature: Signature, args: Sequence[object], space: Space = HOST
) -> tuple[list[Any], list[int]]:
    """The arrays behind the arguments, and the numbers in the kernel's order: its sizes, and the
    bits of the values among its arguments.

    Raises TensorIRError naming the kernel, the argument and the remedy. Nothing is copied.
    """
    adopted = adopt(signature, args, space)
    arrays: dict[int, Any] = {i: adopted[i] for i in signature.arrays}
    for i, array in arrays.items():
        _check_type(signature, i, array, args[i])
    sizes = bind_sizes(signature, adopted)
    for i, array in arrays.items():
        space.check_memory(signature, i, array, args[i])
    _check_overlap(signature, {i: space.span(array) for i, array in arrays.items()})
    numbers = [sizes[var] for var in signature.sizes]
    return list(arrays.values()), numbers + value_words(signature, adopted)


def value_words(signature: Signature, args: Sequence[Any]) -> list[int]:
    """The bits of those among all arguments that are numbers and no sizes.

    Raises TensorIRError for the first that is none of its type.
    """
    return [
        word_of(
            number_of(args[i], signature.params[i].dtype, argument_name(signature, i)),
            signature.params[i].dtype,
        )
        for i in signature.values
    ]


def adopt(signature: Signature, args: Sequence[object], space: Space = HOST) -> list[Any]:
    """The arrays that share the memory of the arguments, and numbers as those of Python;
    TensorIRError for what is neither."""
    return [
        number_of(arg, signature.params[i].dtype, argument_name(signature, i))
        if signature.params[i].is_scalar
        else space.adopt(signature, i, arg)
        for i, arg in enumerate(args)
    ]


def complete(
    signature: Signature, inputs: Sequence[object], empty: Empty, space: Space = HOST
) -> list[object]:
    """All arguments: `inputs`, those that are given, and every output that is not made by
    `empty(shape, dtype)` at its place.

    Raises TensorIRError where the shape of an input is wrong or leaves a size of an output open.
    """
    known: list[tuple[int, Any]] = []
    numbers: dict[int, int] = {}
    for i, arg in zip(signature.given, inputs, strict=True):
        param = signature.params[i]
        if param.is_size:
            numbers[i] = int(number_of(arg, param.dtype, argument_name(signature, i)))
        elif not param.is_scalar:
            known.append((i, space.adopt(signature, i, arg)))
    sizes, first = _told(signature, numbers)
    for i, array in known:
        _bind(signature, i, array.shape, sizes, first)
    check_sizes(signature, sizes)
    given = iter(inputs)
    result: list[object] = []
    for param in signature.params:
        if param.is_given:
            result.append(next(given))
            continue
        for dim in param.shape:
            if isinstance(dim, Var) and dim not in sizes:
                raise TensorIRError(
                    f"{signature.name}: the inputs do not tell size {dim.name!r} of output "
                    f"{param.name!r}; pass the output array too"
                )
        result.append(_made(signature, param, sizes, empty))
    return result


def adopt_some(
    signature: Signature, args: Mapping[int, object]
) -> tuple[dict[int, Array], dict[Var, int]]:
    """The arrays behind some of the arguments, by position, and the sizes that they tell.

    Raises TensorIRError for a wrong type, a wrong shape, and a dimension that stays unknown.
    """
    arrays = {i: HOST.adopt(signature, i, arg) for i, arg in args.items()}
    sizes: dict[Var, int] = {}
    first: dict[Var, str] = {}
    for i, array in arrays.items():
        _check_type(signature, i, array)
        _bind(signature, i, array.shape, sizes, first)
    check_sizes(signature, sizes)
    for i, array in arrays.items():
        for dim in signature.params[i].shape:
            unknown = [v.name for v in variables(dim) if v not in sizes]
            if unknown:
                raise TensorIRError(
                    f"{argument_name(signature, i)} has the dimension {dim!r}, and none of these "
                    f"arrays has {unknown[0]} as a dimension of its own; give one that has, too"
                )
        _check_derived(signature, i, array.shape, sizes)
    return arrays, sizes


def bind_sizes(signature: Signature, adopted: Sequence[Any]) -> dict[Var, int]:
    """The value of each symbolic size; raises TensorIRError for the first number or shape that is
    wrong."""
    given = enumerate(zip(signature.params, adopted, strict=True))
    sizes, first = _told(signature, {i: value for i, (p, value) in given if p.is_size})
    for i in signature.arrays:
        _bind(signature, i, adopted[i].shape, sizes, first)
    check_sizes(signature, sizes)
    for i in signature.arrays:
        _check_derived(signature, i, adopted[i].shape, sizes)
    return sizes


def _told(
    signature: Signature, numbers: Mapping[int, int]
) -> tuple[dict[Var, int], dict[Var, str]]:
    """The sizes that are `numbers` among the arguments, by position, and which tells each."""
    sizes, first = {}, {}
    for i, value in numbers.items():
        var = Var(signature.params[i].name)
        check_limits(value, signature.params[i].least, True, argument_name(signature, i))
        sizes[var], first[var] = value, var.name
    return sizes, first


def check_sizes(signature: Signature, sizes: Mapping[Var, int]) -> None:
    """Raise TensorIRError for a size that is less than the kernel can take."""
    numbers = {p.name for p in signature.params if p.is_size}
    for var, value in sizes.items():
        where = f"{signature.name}: size {var.name!r}"
        check_limits(value, signature.least.get(var), var.name in numbers, where)


def _made(signature: Signature, param: Param, sizes: Mapping[Var, int], empty: Empty) -> Array:
    """A new array for an output."""
    shape = signature.shape(param, sizes)
    for dim, size in zip(param.shape, shape, strict=True):
        if size < 0:
            known = ", ".join(f"{v.name} = {sizes[v]}" for v in sorted(dim.variables, key=str))
            raise TensorIRError(
                f"{signature.name}: output {param.name!r} has the dimension {dim!r}, which is "
                f"{size} for {known}"
            )
    return empty(shape, param.dtype)


def _check_type(signature: Signature, position: int, array: Array, arg: object = None) -> None:
    param = signature.params[position]
    expected = dt.numpy_dtype(param.dtype)
    if array.dtype == expected:
        return
    where = argument_name(signature, position)
    if array.dtype == expected.newbyteorder("S"):
        raise TensorIRError(
            f"{where} has the byte order of another machine ({array.dtype.str}); "
            f"convert with .astype({expected.name!r}){back(param)}"
        )
    note = " (the bits of bfloat16 in uint16)" if param.dtype == "bfloat16" else ""
    remedy = f"{conversion(arg, param.dtype)}{back(param)}"
    if note and array.itemsize == 2:
        remedy = ".view('uint16')"
    raise TensorIRError(
        f"{where} has dtype {array.dtype}, expected {expected.name}{note}; convert with {remedy}"
    )


def _bind(
    signature: Signature,
    position: int,
    shape: tuple[int, ...],
    sizes: dict[Var, int],
    first: dict[Var, str],
) -> None:
    """Check the rank and the plain dimensions of one shape; note the sizes that it tells."""
    param = signature.params[position]
    if len(shape) != len(param.shape):
        raise _shape_error(signature, position, shape, "")
    for axis, (dim, size) in enumerate(zip(param.shape, shape, strict=True)):
        value = int_value(dim)
        if value is not None and value != size:
            raise _shape_error(signature, position, shape, f": dimension {axis} is not {value}")
        if not isinstance(dim, Var):
            continue
        if dim in sizes and sizes[dim] != size:
            clash = f": {dim.name} is {sizes[dim]} from {first[dim]!r} but {size} here"
            raise _shape_error(signature, position, shape, clash)
        sizes.setdefault(dim, size)
        first.setdefault(dim, param.name)


def _check_derived(
    signature: Signature, position: int, shape: tuple[int, ...], sizes: dict[Var, int]
) -> None:
    """Check the dimensions that are expressions, such as n // 2 + 1."""
    param = signature.params[position]
    for axis, (dim, size) in enumerate(zip(param.shape, shape, strict=True)):
        value = dimension(dim, sizes)
        if value != size:
            reason = f": dimension {axis} is {size}, and {dim!r} is {value}"
            raise _shape_error(signature, position, shape, reason)


def _shape_error(
    signature: Signature, position: int, shape: tuple[int, ...], reason: str
) -> TensorIRError:
    expected = ", ".join(map(repr, signature.params[position].shape))
    where = argument_name(signature, position)
    return TensorIRError(f"{where} has shape {list(shape)}, expected [{expected}]{reason}")


def _check_overlap(signature: Signature, spans: Mapping[int, tuple[int, int]]) -> None:
    for i in signature.outputs:
        for j, (start, end) in spans.items():
            if i != j and max(start, spans[i][0]) < min(end, spans[i][1]):
                raise TensorIRError(
                    f"{argument_name(signature, i)} shares memory with argument "
                    f"{signature.params[j].name!r} ({j}); outputs need memory of their own"
                )


def described(
    signature: Signature, arrays: Sequence[str], numbers: Sequence[str], taken: Sequence[Var]
) -> str:
    """What the arguments of an exported function have to be, for its header.

    `arrays` and `numbers` are their names there, `taken` the variables that the numbers are.
    """
    lines = [f"{signature}", ""]
    for name, param in zip(arrays, signature.array_params, strict=True):
        way = "written" if param.is_output else "read"
        if param.is_output and param.is_given:
            way = "read and written: the kernel needs what is in it"
        lines.append(f"{name}: {describe(param)}, {way}")
    known = {p.name: p for p in signature.params if p.is_scalar}
    for name, var in zip(numbers, taken, strict=True):
        what = describe(known[var.name]) if var.name in known else "size, int64"
        lines.append(f"{name}: {what}")
    return "\n".join(f"   {line}".rstrip() for line in lines)


_IN_C = {**dict.fromkeys(dt.STORAGE_ONLY, " (its bits)"), "bool": " (0 or 1)"}
"""How a number of a type that C lacks is given."""


def describe(param: Param) -> str:
    """What to pass for `param`, in words: "float32 array of shape [n, 4]"."""
    if param.is_scalar:
        least = "" if param.least is None else f", {param.least} or more"
        return f"{param.dtype} number{_IN_C.get(param.dtype, '')}{least}"
    stored = " (bfloat16 bits)" if param.dtype == "bfloat16" else ""
    dims = ", ".join(map(repr, param.shape))
    return f"{dt.numpy_dtype(param.dtype).name}{stored} array of shape [{dims}]"
