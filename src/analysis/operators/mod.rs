//! Operators, modules and Python functions of the PyTorch profiler.

pub mod backward;
pub mod call_tree;
pub mod calls;
pub mod modules;
pub mod python;
