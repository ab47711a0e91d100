"""Groups of kernels that another form of the same computation replaces, by their operators.

Definitions: docs/findings/norm-unfused.md and the pages of the rules in chains.py. A kernel belongs to one group at most; groups
are looked for in the order of `Finder.find`.
"""

import collections
import math
import re

from operators import CACHE, FLOATS, broadcast, bytes_of, elements, order, sizes, stored, Tensor, tensors_of

ROOTS = {"rsqrt", "var", "var_mean", "std"}
REDUCTIONS = {"mean", "sum", "var", "var_mean", "std", "norm", "linalg_vector_norm", "max", "min", "amax", "amin", "logsumexp",
              "prod"}
FILLS = {"aten::fill_", "aten::zero_", "aten::zeros"}
COPYING = {"copy_", "_to_copy", "to", "clone", "contiguous"}
INDEXING = {"aten::index", "aten::index_select", "aten::gather", "aten::nonzero", "aten::_index_put_impl_", "aten::index_add_",
            "aten::scatter_add_"}
MASKS = {"aten::masked_fill_", "aten::where", "aten::add", "aten::add_"}
ADDING = {"aten::index_add_", "aten::scatter_add_", "aten::scatter_reduce_", "aten::_index_put_impl_",
          "aten::embedding_dense_backward"}

DENSE = {"aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward"}

# By name alone: kernels on each element and reductions of PyTorch, and what only looks like them; casts.
ELEMENTWISE = re.compile(r"at::native::.*(elementwise_kernel|reduce_kernel)")
OTHERS = re.compile(r"FillFunctor|multi_tensor|embedding|index_elementwise|_scatter_gather|grid_stride")
CASTS = re.compile(r"b?float16_copy_kernel|unrolled_elementwise_kernel.*direct_copy_kernel")

Chain = collections.namedtuple("Chain", "kind launches bound example scale left others also within", defaults=(1, 1, 0, 0, False))


class Finder:
    """Groups of the kernels of one stream."""

    def __init__(self, launches, roof, work):
        self.launches, self.roof, self.work, self.chains, self.taken = launches, roof, work, [], set()

    def add(self, kind, launches, bound, example=None, **more):
        kernels = tuple(self.launches[at].kernel for at in launches)
        own = dict(operators=self.names(launches), names=kernels, sizes="", source="", target="", factor=None, around=None)
        first = next((self.launches[at].call for at in launches if self.launches[at].call), None)
        self.chains.append(Chain(kind, launches, bound, own | (example or {}) | dict(first=first), **more))
        self.taken.update(launches)

    def names(self, launches):
        names = [self.launches[at].name.removeprefix("aten::") for at in launches if self.launches[at].name]
        return in_order(names) or None

    def free(self, wanted):
        return [at for at, launch in enumerate(self.launches) if at not in self.taken and wanted(launch)]

    def find(self):
        self.gradients()
        self.embeddings()
        self.optimizers()
        self.attention()
        self.loops()
        self.additions()
        self.repeats()
        self.doubles()
        self.layouts()
        self.elementwise()
        self.epilogues()
        for at in self.free(lambda launch: launch.copy()):
            target, source = self.launches[at].copy()
            if target.dtype != source.dtype and elements(target) == elements(source):
                self.avoidable("dtype-casts", at, target, source)
        return self.chains

    def gradients(self):
        """Kernels of backward after the last gradient of a parameter that a step of an optimizer updates."""
        steps = [(start, -end, thread) for start, end, thread, name in self.work.ranges if (name or "").startswith("Optimizer.step#")]
        updated = set()
        for launch in self.launches:
            if launch.call and launch.name not in FILLS and any(thread == launch.call.thread and start <= launch.call.start < end
                                                                for start, end, thread in steps):
                updated |= {dims for dims in launch.call.list if dims} or {one.dims for one in launch.tensors[:1]}
        backward = collections.defaultdict(list)
        for at, launch in enumerate(self.launches):
            if any(one.name.startswith("autograd::engine::") for one in launch.around):
                backward[launch.call.thread, launch.place].append((launch.call.start, at))
        ordered = sorted((thread, sorted(own)) for (thread, _), own in backward.items())
        for number, (thread, own) in enumerate(ordered):
            follows = ordered[number + 1] if number + 1 < len(ordered) else (None, None)
            end = follows[1][0][0] if follows[0] == thread else math.inf
            every = [(one[0], tensors_of(one[3])[0]) for one in self.work.capture.operators[thread]
                     if one[2] == "torch::autograd::AccumulateGrad" and own[0][0] <= one[0] < end and tensors_of(one[3])]
            used = [start for start, tensor in every if tensor.dims in updated]
            after = [tensor for start, tensor in every if used and start > max(used)]
            late = sorted(at for start, at in own if used and start > max(used))
            if updated and updated <= {tensor.dims for _, tensor in every} and after and late:
                largest = max(reversed(after), key=elements)
                self.add("unused-gradients", late, 0, dict(sizes=sizes(largest)), left=0)

    def embeddings(self):
        """Fills of dense gradients of tables, and elementwise kernels and lists of tensors on all of their rows."""
        fills, tables = {}, {}
        for at, launch in enumerate(self.launches):
            dense = [one for one in launch.around if one.name in DENSE]
            if launch.name in FILLS and dense and launch.tensors and len(launch.tensors[0].dims) == 2:
                indices = next((one for one in dense[-1].tensors if one.dtype not in FLOATS), None)
                if indices is not None:
                    fills[at] = (launch.tensors[0], elements(indices))
        for dims in {gradient.dims for gradient, _ in fills.values()}:
            own = [at for at, (gradient, _) in fills.items() if gradient.dims == dims]
            rows = max(fills[at][1] for at in own)
            count = max(collections.Counter(self.launches[at].place for at in own).values())
            adds = any(launch.name in ("aten::add", "aten::add_") and [one.dims for one in launch.tensors] == [dims, dims]
                       and any(one.name.startswith("autograd::engine::") for one in launch.around) for launch in self.launches)
            products = any((launch.product() or (None,) * 4)[3] == math.prod(dims) for launch in self.launches)
            if rows <= dims[0] / 2 and not (adds and products):
                tables[dims] = (rows, count, fills[own[0]][0].dtype)
        parts = collections.defaultdict(list)
        for at, launch in enumerate(self.launches):
            listed = launch.call.list if launch.call else []
            if at in fills and fills[at][0].dims in tables:
                parts[launch.place].append((at, 1, 0))
            elif listed:
                own = {dims: math.prod(dims) * min(listed.count(dims), tables[dims][1]) for dims in tables if dims in listed}
                if own:
                    kept = sum(size * tables[dims][0] / dims[0] for dims, size in own.items()) / sum(own.values())
                    parts[launch.place].append((at, sum(own.values()) / sum(map(math.prod, listed)), kept))
            elif launch.tensors and launch.tensors[0].dims in tables and launch.kind in ("elementwise", "layout", "reduction", "optimizer"):
                dims = launch.tensors[0].dims
                parts[launch.place].append((at, 1, tables[dims][0] / dims[0]))
        for own in parts.values():
            largest = max(tables, key=math.prod)
            time = {at: self.launches[at].time for at, _, _ in own}
            scale = sum(time[at] * share for at, share, _ in own) / sum(time.values())
            self.add("dense-embeddings", [at for at, _, _ in own], sum(time[at] * share * kept for at, share, kept in own),
                     dict(sizes=" × ".join(map(str, largest)), source=tables[largest][2], factor=tables[largest][0]),
                     scale=scale, left=len(own) * scale - sum(at in fills for at, _, _ in own))

    def optimizers(self):
        steps = [(start, -end, thread, name) for start, end, thread, name in self.work.ranges
                 if (name or "").startswith("Optimizer.step#")]
        for start, end, thread, name in steps:
            own = [at for at, launch in enumerate(self.launches) if launch.call and launch.call.thread == thread
                   and start <= launch.call.start < end and launch.name not in FILLS and at not in self.taken]
            joint = sum("_foreach" in self.launches[at].name or "_fused" in self.launches[at].name
                        or "multi_tensor_apply" in self.launches[at].kernel for at in own)
            if len(own) >= 48 and joint <= len(own) / 5:
                sums = collections.Counter()
                for at in own:
                    sums[self.launches[at].name] += self.launches[at].bytes()
                self.add("optimizer-loop", own, self.roof.moving(max(sums.values())), dict(around=name))

    def attention(self):
        for at, launch in enumerate(self.launches):
            backward = launch.name == "aten::_softmax_backward_data"
            if at in self.taken or not backward and launch.name not in ("aten::_softmax", "aten::_safe_softmax"):
                continue
            scores = launch.tensors[0]
            number = elements(scores)

            def makes(other):
                return (product := self.launches[other].product()) is not None and product[3] == number

            def reads(other):
                return (product := self.launches[other].product()) is not None and number in map(elements, product[:2])

            before = [other for other in range(max(at - 16, 0), at) if makes(other)]
            after = [other for other in range(at + 1, min(at + 17, len(self.launches))) if reads(other)]
            if not before or not after or len(scores.dims) < 2:
                continue
            first, last = before[-1], after[min(1, len(after) - 1)] if backward else after[0]
            first -= backward and first > 0 and reads(first - 1)
            own = [other for other in range(first, last + 1) if other not in self.taken
                   and self.launches[other].place == launch.place
                   and (makes(other) or number in map(elements, self.launches[other].tensors))]
            depth = next(self.launches[other].product()[2] for other in range(first, last + 1) if makes(other))
            left = next(self.launches[other].product()[0] for other in range(first, last + 1) if self.launches[other].product())
            queries, keys = scores.dims[-2:]
            size = number / (queries * keys) * depth * 2 * (queries + keys) * left.size
            masked = any(self.launches[other].name in MASKS for other in own)
            flops = (10 if backward else 4) * number * depth * (0.5 if masked else 1)
            math_ = next((one.name for one in launch.around if one.name == "aten::_scaled_dot_product_attention_math"), None)
            self.add("attention-math", own, self.roof.computing(flops, left.dtype, size),
                     dict(sizes=sizes(scores), source=left.dtype, around=math_))

    def main_product(self, at):
        launch = self.launches[at]
        return launch.product() if launch.is_gemm and at not in self.taken else None

    def loops(self):
        """Products with a weight of the same size: in a row, or with index operations between."""
        by_weight, loops = collections.defaultdict(list), []
        for at, launch in enumerate(self.launches):
            product = self.main_product(at)
            if product:
                by_weight[launch.name, product[1].dims].append(at)
        weight_of = {at: own for own in by_weight.values() for at in own}
        for _, own in sorted(by_weight.items()):
            def follows(a, b):
                rare = any(2 * len(weight_of.get(between, own)) < len(own) for between in range(a + 1, b))
                return b - a <= 16 and self.launches[a].place == self.launches[b].place and not rare

            rows = []
            for run in chunks(own, follows):
                rows += [row for row in chunks(run, lambda a, b: all(self.launches[at].is_gemm for at in range(a, b))) if len(row) >= 8]
                indexed = sum(any(self.launches[at].name in INDEXING for at in range(a, b)) for a, b in zip(run, run[1:]))
                if len(run) >= 8 and indexed >= 0.8 * (len(run) - 1):
                    loops.append(("expert-loop", run))
            independent = [row for row in rows if self.is_independent(row)]
            # What reads the last row can lie beyond the end of the trace.
            cut = [row for row in rows if independent and row not in independent and row[-1] + 4 >= len(self.launches)]
            loops += [("gemm-loop", self.with_join(row)) for row in independent + cut]
        for kind, run in sorted(loops, key=lambda one: one[1][0] - one[1][-1]):
            self.loop(kind, run)

    def with_join(self, row):
        """A row with the copy that joins its results, which a batch does not need."""
        after = row[-1] + 1
        joins = after < len(self.launches) and self.launches[after].name == "aten::cat"
        return row + [after] if joins and self.launches[after].place == self.launches[row[-1]].place else row

    def is_independent(self, row):
        left, _, _, number = self.main_product(row[-1])
        last, joined = row[-1], number * len(row)
        follows = self.launches[last + 1] if last + 1 < len(self.launches) else None
        is_joined = follows is not None and follows.name == "aten::cat" and any(
            joined in map(elements, launch.tensors) for launch in self.launches[last + 2:last + 6])
        return left.dims[-1] != self.main_product(last)[1].dims[-1] or is_joined

    def loop(self, kind, run):
        first, last = run[0], run[-1]
        own = list(range(first, last + 1))
        if any(at in self.taken for at in own):
            return
        flops = size = 0
        for at in own:
            product = self.main_product(at)
            if product:
                left, right, depth, number = product
                flops += 2 * number * depth
                size += bytes_of(left) + bytes_of(right) + number * left.size
        left, right = self.main_product(first)[:2]
        bound = self.roof.computing(flops, left.dtype, size)
        if bound > sum(self.launches[at].time for at in own) / 2:
            return
        scale = len(run) / (len(run) - 1) if kind == "expert-loop" else 1
        others = self.launches[last].at - self.launches[first].at + 1 - len(own)
        self.add(kind, own, bound, dict(sizes=sizes(right), source=left.dtype, factor=sum(self.launches[at].is_gemm for at in run)),
                 scale=scale, others=others)

    def additions(self):
        for at in self.free(lambda launch: launch.name in ADDING and launch.tensors):
            launch = self.launches[at]
            target, floats = launch.tensors[0], [one for one in launch.tensors if one.dtype in FLOATS]
            source = max(reversed(floats), key=elements, default=None)
            if source is None:
                continue
            factor = elements(source) / max(elements(target), 1)
            least = self.roof.moving(bytes_of(source) + bytes_of(target))
            if factor >= 64 and launch.time > 4 * least:
                self.add("row-additions", [at], least, dict(sizes=f"{sizes(source)} → {sizes(target)}", source=source.dtype,
                                                            target=target.dtype, factor=factor))

    def repeats(self):
        for at in self.free(lambda launch: launch.copy() or launch.expansion()):
            copy = self.launches[at].copy()
            target, source = copy or self.launches[at].expansion()
            factor = elements(target) / max(stored(source), 1)
            if stored(source) < 65_536 or factor < 2:
                continue
            reader, also = self.reader(at, target, factor)
            if not copy and not reader:
                continue
            self.add("repeated-tensors", [at], 0, dict(sizes=sizes(target), source=source.dtype, target=target.dtype, factor=factor,
                                                       around=reader), also=also)

    def reader(self, at, copy, factor):
        """What reads a repeated tensor, and its time beyond that with each repeated element read once."""
        for launch in self.launches[at + 1:at + 5]:
            repeated = [one for one in launch.tensors if elements(one) == elements(copy)]
            if launch.kind in ("attention", "gemm") and repeated:
                size = sum(bytes_of(one) / factor if elements(one) == elements(copy) else bytes_of(one) for one in launch.tensors)
                query, key = launch.tensors[:2]
                flops = 4 * elements(query) * key.dims[-2] if len(key.dims) > 1 else 0
                least = self.roof.computing(flops, copy.dtype, size)
                return launch.name, max(launch.time - least, 0) / len(repeated)
        return None, 0

    def doubles(self):
        for at in self.free(lambda launch: launch.call):
            launch = self.launches[at]
            if (launch.elements < 4096
                    or not any(one.dtype == "fp64" and elements(one) > 1 for one in launch.tensors)):
                continue
            product = launch.product()
            flops = 2 * product[3] * product[2] if product else 0
            size = launch.bytes() / 2 + (launch.elements * 4 if launch.is_elementwise or launch.is_copy else 0)
            largest = max(reversed(launch.tensors), key=elements)
            narrow = next((one.dtype for one in launch.tensors if one.dtype in FLOATS - {"fp64"}), "")
            self.add("fp64-operators", [at], self.roof.computing(flops, "simt fp32", size), dict(sizes=sizes(largest), source=narrow))

    def lost_by_norms(self):
        """By place, what batch normalization of PyTorch in NCHW loses: the part of the GPU's 132 SMs that its blocks leave empty."""
        lost = collections.Counter()
        for launch in self.launches:
            filled = launch.threads / (132 * 2048)
            if re.search("at::native::batch_norm_|bn_(fw_tr|bw)_1C11", launch.kernel) and "channels_last" not in launch.kernel and filled < 0.7:
                lost[launch.place] += launch.time * (1 - filled)
        return lost

    def layouts(self):
        lost = self.lost_by_norms()
        for at, launch in enumerate(self.launches):
            copy = launch.copy() if at not in self.taken else None
            if copy and copy[0].dtype == copy[1].dtype and copy[0].dims == copy[1].dims and order(copy[0]) is not None \
                    and order(copy[0]) != order(copy[1]) and stored(copy[1]) == elements(copy[1]):
                last = [len(one.dims) >= 4 and one.dims[1] > 1 and one.strides[1:2] == (1,) for one in copy]
                kind = "layout-conversions" if last[0] != last[1] else "transposed-copies"
                self.avoidable(kind, at, copy[0], copy[0], lost.pop(launch.place, 0) if last[0] != last[1] else 0)
            elif re.search("nchwToNhwc|nhwcToNchw", launch.kernel) and at not in self.taken:
                tensor = launch.tensors[0] if launch.tensors else Tensor((), (), "", 4)
                self.avoidable("layout-conversions", at, tensor, tensor, lost.pop(launch.place, 0))

    def avoidable(self, kind, at, target, source, norms=0):
        around = next((one.name for one in reversed(self.launches[at].around) if one.name.removeprefix("aten::") not in COPYING), None)
        also = self.lost_by_reader(at) if kind == "layout-conversions" else self.delay_of_reader(at, target) if kind == "dtype-casts" else 0
        self.add(kind, [at], 0, dict(sizes=sizes(target), source=source.dtype, target=target.dtype, around=around), left=0, also=also + norms,
                 within=kind == "layout-conversions" and self.launches[at].name != "aten::copy_")

    def delay_of_reader(self, at, target):
        """What a memory-bound GEMM takes beyond the time of its bytes, if it reads a copy that does not fit the L2 cache."""
        readers = (one for one in self.launches[at + 1:at + 5] if (one.is_gemm or one.kind == "attention")
                   and any(elements(tensor) == elements(target) for tensor in one.tensors))
        reader = next(readers, None)
        if reader is None or bytes_of(target) <= CACHE:
            return 0
        lost = reader.time - self.roof.moving(reader.bytes())
        return lost if 0 < lost < reader.time / 2 else 0

    def lost_by_reader(self, at):
        """What the elementwise kernel after a copy takes beyond the time of its bytes, if these do not fit the L2 cache."""
        reader = self.launches[at + 1] if at + 1 < len(self.launches) else None
        if reader is None or not (reader.is_elementwise and reader.tensors and reader.place == self.launches[at].place
                                  and reader.elements == self.launches[at].elements):
            return 0
        size = reader.bytes() + reader.elements * reader.output().size
        return max(reader.time - self.roof.moving(size), 0) if size > CACHE else 0

    def epilogues(self):
        """Additions of a row to the output of the GEMM right before."""
        for at in self.free(lambda launch: launch.name in ("aten::add", "aten::add_")):
            before, launch = self.launches[at - 1], self.launches[at]
            product = before.product() if at and before.is_gemm and before.place == launch.place else None
            columns = product[1].dims[-1] if product else 0
            wide = [one for one in launch.tensors if one.dims[-1:] == (columns,)]
            output = next((one for one in wide if product and elements(one) == product[3]), None)
            if output and columns > 1 and launch.elements == product[3] and any(elements(one) == columns for one in wide):
                self.add("gemm-epilogue", [at], 0, dict(operators=self.names([at - 1, at]), sizes=sizes(output),
                                                        source=output.dtype), left=0)

    def elementwise(self):
        run, whole, reduced = [], 0, False
        for at, launch in enumerate(self.launches):
            if launch.name in FILLS:
                continue
            name = (launch.name or "").removeprefix("aten::")
            is_part = (at not in self.taken and (launch.name or "").startswith("aten::") and not name.startswith("_foreach")
                       and launch.elements > 1 and (launch.is_elementwise or launch.is_reduction and name in REDUCTIONS
                                                  or launch.is_copy and name == "copy_"))
            fits = launch.elements == whole or reduced and 0 < launch.elements < whole and whole % launch.elements == 0
            if not (is_part and run and fits and self.launches[run[-1]].place == launch.place):
                self.close(run, whole)
                run, whole, reduced = [], 0, False
            if is_part:
                run.append(at)
                whole, reduced = max(whole, launch.elements), reduced or launch.is_reduction
        self.close(run, whole)

    def close(self, run, whole):
        full = [at for at in run if self.launches[at].elements == whole]
        names = {self.launches[at].name.removeprefix("aten::") for at in run}
        if len(full) < 3 or names == {"copy_"}:
            return
        # Backward of rsqrt: a power of it, which has the rows of a reduction.
        power = any(self.launches[at].name == "aten::pow" and self.launches[at].elements < whole for at in run)
        norm = any(self.launches[at].is_reduction for at in run) and (names & ROOTS or power)
        # Additions before a normalization add up its input.
        while norm and self.launches[run[0]].name in ("aten::add", "aten::add_"):
            run, full = run[1:], [at for at in full if at != run[0]]
        largest = max(reversed(self.launches[full[0]].tensors), key=elements)
        self.add("norm-unfused" if norm else "pointwise-unfused", run, self.fused(run),
                 dict(sizes=sizes(largest), source=largest.dtype))

    def fused(self, run):
        """The least time of one kernel: inputs that no kernel before wrote are read, the last output is written, in the
        narrowest type of such a tensor."""
        known, size, narrowest = set(), 0, 8
        for at in run:
            launch, read = self.launches[at], set()
            for tensor in launch.inputs():
                key = elements(tensor), tensor.dtype
                if tensor.dtype in FLOATS and elements(tensor) == launch.elements:
                    narrowest = min(narrowest, tensor.size)
                if key not in known and key not in read:
                    size += bytes_of(tensor)
                    read.add(key)
            known |= read
            if not launch.is_reduction:
                known.add((launch.elements, launch.output().dtype))
                size += launch.elements * min(launch.output().size, narrowest) if at == run[-1] else 0
        return self.roof.moving(size)


# Elements of a block of PyTorch's elementwise kernels; of vectorized ones up to twice as many, by type and version.
BLOCKS = ((re.compile(r"unrolled_elementwise_kernel"), 512), (re.compile(r"vectorized_elementwise_kernel"), 1024),
          (re.compile(r"elementwise_kernel<(\(int\))?128, (\(int\))?2"), 256), (re.compile(r"elementwise_kernel<(\(int\))?128, (\(int\))?4"), 512))
ACTIVATIONS = re.compile(r"silu_kernel|sigmoid_kernel|GeluCUDAKernel|tanh_kernel|launch_clamp_scalar|threshold_kernel|elu_kernel"
                         r"|softplus_kernel|hardswish_kernel|mish_kernel")
UPDATE, UPDATES, PERIOD = "addcdiv", 8, 16
JOINT, JOINT_UPDATE = "multi_tensor", "PointwiseOpScalarList"
SOFTMAX = re.compile(r"soft_?max|nll_loss", re.I)


class Name:
    """What the name and the grid of a kernel say."""

    def __init__(self, launch):
        name, self.launch, self.time = launch.kernel, launch, launch.time
        block = next((size for pattern, size in BLOCKS if pattern.search(name)), None)
        is_strided = "direct_copy_kernel" in name and not re.search("(unrolled|vectorized)_elementwise_kernel", name)
        self.is_fill, self.is_cast = "FillFunctor" in name, CASTS.search(name) is not None
        self.is_reduction = "reduce_kernel" in name and launch.kind == "elementwise"
        self.is_elementwise = ("at::native" in name and block is not None and not self.is_reduction and not is_strided
                               and launch.kind in ("elementwise", "gather") and not OTHERS.search(name.replace("FillFunctor", "")))
        self.elements = launch.blocks * block if block else None
        self.is_activation = ACTIVATIONS.search(name) is not None
        self.is_root = re.search("rsqrt|WelfordOps", name) is not None

    def has(self, part):
        return part in self.launch.kernel


class Names(Finder):
    """Kernels that by name, grid, order and stream show a group. Grids tell elements up to a factor of two."""

    def find(self):
        self.known = [Name(launch) for launch in self.launches]
        self.updates()
        self.joint_updates()
        self.softmaxes()
        self.layouts()
        self.elementwise()
        for at in self.free(lambda launch: CASTS.search(launch.kernel)):
            self.add("dtype-casts", [at], 0, left=0)
        return self.chains + self.after_products()

    def is_together(self, a, b):
        return self.launches[a].place == self.launches[b].place

    def updates(self):
        """Loops of an optimizer over parameters: many kernels with `addcdiv`, and elementwise ones between."""
        known = self.known
        found = [at for at, name in enumerate(known) if name.is_elementwise and name.has(UPDATE)]
        for run in chunks(found, lambda a, b: b - a <= PERIOD and self.is_together(a, b)
                          and all(known[at].is_elementwise for at in range(a, b))):
            if len(run) >= UPDATES and run[-1] - run[0] >= 3 * len(run):
                own = list(range(run[0], run[-1] + 1))
                self.add("optimizer-loop", own, min(known[at].time for at in own))

    def joint_updates(self):
        """Kernels on several tensors in a row: a fused one reads and writes seven tensors for the four of the last operation."""
        joint = [at for at, name in enumerate(self.known) if name.has(JOINT)]
        for run in chunks(joint, lambda a, b: b - a == 1 and self.is_together(a, b)):
            last = [at for at in run if self.known[at].has(JOINT_UPDATE)]
            if last:
                self.add("optimizer-loop", run, sum(self.known[at].time for at in last) * 7 / 4, left=len(last))

    def softmaxes(self):
        """A softmax between GEMMs with elementwise kernels between: a fused kernel takes a quarter of their time at least."""
        for at, launch in enumerate(self.launches):
            if at in self.taken or not SOFTMAX.search(launch.kernel) or launch.kind != "norm":
                continue
            first = next((one for one in range(at - 1, max(at - 5, -1), -1) if self.launches[one].is_gemm and self.is_together(one, at)), None)
            last = next((one for one in range(at + 1, min(at + 5, len(self.launches)))
                         if self.launches[one].is_gemm and self.is_together(one, at)), None)
            if first is not None and last is not None and all(
                    one == at or self.known[one].is_elementwise and one not in self.taken for one in range(first + 1, last)):
                self.add("attention-math", list(range(first, last + 1)), (self.known[first].time + self.known[last].time) / 4)

    def elementwise(self):
        run = []
        for at, name in enumerate(self.known):
            whole, has_reduction = self.whole(run), any(self.known[one].is_reduction for one in run)
            # Conversions of parameters lie between kernels on more elements.
            is_small = name.elements is not None and name.elements < whole / 2
            if name.is_fill or name.is_cast and is_small and not has_reduction:
                continue
            is_free, is_open = at not in self.taken, bool(run) and self.is_together(run[-1], at)
            longest = max((self.known[one].time for one in run), default=0) * (2 if self.multiplies(run, at + 1) else 1)
            is_joined = name.has("CatArrayBatchedCopy") and name.time <= longest
            ends_norm = has_reduction and any(self.known[one].is_root for one in run) and name.is_activation
            is_part = (is_open and is_free and (name.is_elementwise or name.is_reduction or is_joined)
                       and self.fits(run, name.elements) and not ends_norm)
            if not is_part:
                self.close_names(run)
                run = []
            if is_part or is_free and name.is_elementwise:
                run.append(at)
        self.close_names(run)

    def whole(self, run):
        return max((self.known[at].elements or 0 for at in run), default=0)

    def fits(self, run, elements):
        """Whether so many elements are those of a run up to a factor of two, or what a reduction of it left; of reductions they
        are unknown."""
        ratio = 1 if elements is None else elements / max(self.whole(run), 1)
        return 0.5 <= ratio <= 2 or ratio < 0.5 and any(self.known[at].is_reduction for at in run)

    def multiplies(self, run, at):
        """Whether a multiplication on the elements of a run follows, as in rotary embeddings."""
        return (bool(run) and at < len(self.known) and self.is_together(run[-1], at) and self.known[at].has("MulFunctor")
                and self.fits(run, self.known[at].elements))

    def close_names(self, run):
        whole, known = self.whole(run), self.known
        full = [at for at in run if (known[at].elements or 0) >= whole / 2]
        is_gate = any(known[at].is_activation for at in full) and not any(known[at].is_cast for at in full)
        if len(full) < (2 if is_gate else 3) or all(known[at].is_cast for at in run):
            return
        # The derivative of `rsqrt` is a power of it on the rows of a reduction.
        power = any(name.is_root for name in known) and any(known[at].has("pow_tensor_scalar") and at not in full for at in run)
        norm = any(known[at].is_reduction for at in run) and (power or any(known[at].is_root for at in run))
        bound = min(known[at].time for at in full) / 2
        # Additions before a normalization add up its input.
        while norm and known[run[0]].has("CUDAFunctor_add"):
            run = run[1:]
        self.add("norm-unfused" if norm else "pointwise-unfused", run, bound)

    def after_products(self):
        """Kernels of the program that do what the epilogue of the GEMM before them could do."""
        launches, chains = collections.defaultdict(list), []
        for at, launch in enumerate(self.launches):
            if re.search("bias|relu|gelu", launch.kernel, re.I) and not re.search("grad|backward|bwd|::", launch.kernel, re.I):
                launches[launch.kernel, launch.blocks].append(at)
        for own in launches.values():
            after = [at for at in own if at and self.launches[at - 1].is_gemm and self.launches[at - 1].place == self.launches[at].place]
            if len(after) >= 0.9 * len(own):
                chains += [Chain("gemm-epilogue", [at], 0, dict(operators=None, names=(), sizes="", source="", target="", factor=None,
                                                                around=None, first=None), left=0) for at in after]
        return chains


def in_order(names):
    kept = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    return " → ".join(kept[:10]) + (" → …" if len(kept) > 10 else "")


def chunks(row, follows):
    found = []
    for own in row:
        if found and follows(found[-1][-1], own):
            found[-1].append(own)
        else:
            found.append([own])
    return found
