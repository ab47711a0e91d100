//! A graph of cuDNN's operations on tensors of four dimensions.

use cudarc::cudnn::result::CudnnError;
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as Heuristic, cudnnDataType_t as Type,
    cudnnPointwiseMode_t as Pointwise, cudnnReduceTensorOp_t as Reduction,
};

use super::descriptor::Descriptor;

/// Engines that are tried, in the order of cuDNN's heuristic.
const ENGINES: usize = 16;
/// Every tensor starts at a multiple of so many bytes.
const ALIGNMENT: i64 = 16;

/// Sizes of a tensor and the elements between neighbours, in each dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    sizes: [i64; 4],
    strides: [i64; 4],
}

impl Layout {
    /// One after the other, the last dimension fastest.
    pub(super) fn dense(sizes: [u64; 4]) -> Self {
        let sizes = sizes.map(|size| size as i64);
        let [_, b, c, d] = sizes;
        Self {
            sizes,
            strides: [b * c * d, c * d, d, 1],
        }
    }

    /// With the last two dimensions exchanged: the same memory.
    pub(super) fn transposed(mut self) -> Self {
        self.sizes.swap(2, 3);
        self.strides.swap(2, 3);
        self
    }
}

/// Where the values of a tensor are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Memory,
    /// On the chip only, between two operations.
    Virtual,
    /// A number on the host.
    Host,
}

/// A tensor of a graph, by its place in the list of descriptors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tensor {
    index: usize,
    layout: Layout,
}

/// Operations in order, with all that they refer to.
#[derive(Default)]
pub(super) struct Graph {
    operations: Vec<Descriptor>,
    tensors: Vec<Descriptor>,
    /// What operations were made from; it must live as long as they do.
    kept: Vec<Descriptor>,
}

impl Graph {
    /// A tensor in memory. Its id in a variant pack is its ordinal among all tensors, from 1.
    pub(super) fn memory(&mut self, layout: Layout, dtype: Type) -> Result<Tensor, CudnnError> {
        self.tensor(layout, dtype, Place::Memory)
    }

    /// A number in fp32 that is read on the host at every launch.
    pub(super) fn scalar(&mut self) -> Result<Tensor, CudnnError> {
        self.tensor(Layout::dense([1; 4]), Type::CUDNN_DATA_FLOAT, Place::Host)
    }

    /// A tensor that is never in memory.
    pub(super) fn between(&mut self, layout: Layout, dtype: Type) -> Result<Tensor, CudnnError> {
        self.tensor(layout, dtype, Place::Virtual)
    }

    fn tensor(&mut self, layout: Layout, dtype: Type, place: Place) -> Result<Tensor, CudnnError> {
        let index = self.tensors.len();
        let tensor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
            .one(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &dtype)?
            .with(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &layout.sizes)?
            .with(Name::CUDNN_ATTR_TENSOR_STRIDES, &layout.strides)?
            .one(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &(index as i64 + 1))?
            .one(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &ALIGNMENT)?
            .one(
                Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL,
                &(place == Place::Virtual),
            )?
            .one(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, &(place == Place::Host))?
            .finish()?;
        self.tensors.push(tensor);
        Ok(Tensor { index, layout })
    }

    /// c = a · b, added up in fp32.
    pub(super) fn matmul(&mut self, [a, b, c]: [Tensor; 3]) -> Result<(), CudnnError> {
        let how = Descriptor::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?
            .one(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, &Type::CUDNN_DATA_FLOAT)?
            .finish()?;
        let operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)?
            .one(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, self.at(a))?
            .one(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, self.at(b))?
            .one(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, self.at(c))?
            .one(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &how)?
            .finish()?;
        self.add(operation, how);
        Ok(())
    }

    /// `mode` of up to three tensors, element by element, in fp32.
    pub(super) fn map(&mut self, mode: Pointwise, of: &[Tensor]) -> Result<Tensor, CudnnError> {
        self.map_to(mode, of, Type::CUDNN_DATA_FLOAT)
    }

    /// The same with a result of that format.
    pub(super) fn map_to(
        &mut self,
        mode: Pointwise,
        of: &[Tensor],
        dtype: Type,
    ) -> Result<Tensor, CudnnError> {
        let computed = match dtype {
            Type::CUDNN_DATA_BOOLEAN => Type::CUDNN_DATA_BOOLEAN,
            _ => Type::CUDNN_DATA_FLOAT,
        };
        let how = pointwise(mode, computed)?.finish()?;
        self.pointwise(how, of, dtype)
    }

    /// The index of each element of a tensor of that layout along an axis.
    pub(super) fn index(&mut self, like: Tensor, axis: i64) -> Result<Tensor, CudnnError> {
        let how = pointwise(Pointwise::CUDNN_POINTWISE_GEN_INDEX, Type::CUDNN_DATA_FLOAT)?
            .one(Name::CUDNN_ATTR_POINTWISE_AXIS, &axis)?
            .finish()?;
        self.pointwise(how, &[like], Type::CUDNN_DATA_INT32)
    }

    fn pointwise(
        &mut self,
        how: Descriptor,
        of: &[Tensor],
        dtype: Type,
    ) -> Result<Tensor, CudnnError> {
        const OPERANDS: [Name; 3] = [
            Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
            Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
            Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
        ];
        let result = self.between(of[0].layout, dtype)?;
        let mut operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?
            .one(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &how)?
            .one(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, self.at(result))?;
        for (name, tensor) in OPERANDS.into_iter().zip(of) {
            operation = operation.one(name, self.at(*tensor))?;
        }
        self.add(operation.finish()?, how);
        Ok(result)
    }

    /// `how` over the last dimension, in fp32.
    pub(super) fn reduce(&mut self, how: Reduction, of: Tensor) -> Result<Tensor, CudnnError> {
        let [a, b, c, _] = of.layout.sizes.map(|size| size as u64);
        let layout = Layout::dense([a, b, c, 1]);
        let result = self.between(layout, Type::CUDNN_DATA_FLOAT)?;
        let how = Descriptor::new(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?
            .one(
                Name::CUDNN_ATTR_REDUCTION_COMP_TYPE,
                &Type::CUDNN_DATA_FLOAT,
            )?
            .one(Name::CUDNN_ATTR_REDUCTION_OPERATOR, &how)?
            .finish()?;
        let operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)?
            .one(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &how)?
            .one(Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, self.at(of))?
            .one(Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, self.at(result))?
            .finish()?;
        self.add(operation, how);
        Ok(result)
    }

    /// The plan of the first engine of cuDNN's heuristic that takes the graph. The graph must outlive it.
    pub(super) fn plan(&mut self, handle: sys::cudnnHandle_t) -> Result<Descriptor, CudnnError> {
        let graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
            .with(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &self.operations)?
            .one(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &handle)?
            .finish()?;
        let heuristic = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
            .one(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph)?
            .one(
                Name::CUDNN_ATTR_ENGINEHEUR_MODE,
                &Heuristic::CUDNN_HEUR_MODE_A,
            )?
            .finish()?;
        let mut engines = Vec::new();
        for _ in 0..ENGINES {
            engines.push(Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?);
        }
        let count = heuristic.get(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, &mut engines)?;
        engines.truncate(count);
        let plan = |engine: &Descriptor| {
            Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
                .one(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &handle)?
                .one(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine)?
                .finish()
        };
        let mut result = Err(CudnnError(sys::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED));
        for engine in &engines {
            result = plan(engine);
            if result.is_ok() {
                break;
            }
        }
        self.kept.extend(engines);
        self.kept.extend([heuristic, graph]);
        result
    }

    fn add(&mut self, operation: Descriptor, how: Descriptor) {
        self.operations.push(operation);
        self.kept.push(how);
    }

    fn at(&self, tensor: Tensor) -> &Descriptor {
        &self.tensors[tensor.index]
    }
}

fn pointwise(mode: Pointwise, computed: Type) -> Result<Descriptor, CudnnError> {
    Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?
        .one(Name::CUDNN_ATTR_POINTWISE_MODE, &mode)?
        .one(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &computed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_layout_is_the_same_memory() {
        let dense = Layout::dense([2, 3, 5, 7]);
        assert_eq!(dense.strides, [105, 35, 7, 1]);
        let transposed = dense.transposed();
        assert_eq!(
            (transposed.sizes, transposed.strides),
            ([2, 3, 7, 5], [105, 35, 1, 7])
        );
    }
}
