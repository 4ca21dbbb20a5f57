//! One launch that a GPU and ptxsim both make, from the same bytes.

use crate::gpu::{Gpu, Loaded, Result, Shape};
use ptxsim::{Kernel, Limits, Memory, Report};

/// A parameter of a kernel, and its buffer.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// A pointer to a buffer with these bytes.
    In(&'a [u8]),
    /// A pointer to a buffer with this number of zeros, whose bytes are returned.
    Out(usize),
    /// A value that is passed by itself.
    Value(&'a [u8]),
}

pub struct Job<'a> {
    pub entry: &'a str,
    pub shape: Shape,
    pub args: Vec<Arg<'a>>,
}

/// The contents of the `Out` buffers afterwards, in the order of the parameters.
pub type Outputs = Vec<Vec<u8>>;

impl Job<'_> {
    pub fn on_gpu(&self, gpu: &Gpu, module: &Loaded) -> Result<Outputs> {
        let mut buffers = Vec::new();
        let mut values = Vec::new();
        for arg in &self.args {
            let buffer = match arg {
                Arg::In(bytes) => gpu.put(bytes)?,
                Arg::Out(bytes) => gpu.alloc(*bytes)?,
                Arg::Value(bytes) => {
                    values.push(bytes.to_vec());
                    continue;
                }
            };
            values.push(buffer.address.to_le_bytes().to_vec());
            buffers.push((matches!(arg, Arg::Out(_)), buffer));
        }
        let params: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        module.launch(self.entry, self.shape, &params)?;
        gpu.wait()?;
        buffers
            .iter()
            .filter(|(out, _)| *out)
            .map(|(_, b)| b.read())
            .collect()
    }

    /// A fault of the launch is an error; findings are in the report.
    pub fn on_sim(&self, kernel: &Kernel) -> Result<(Outputs, Report)> {
        let mut memory = Memory::default();
        let mut params = vec![0; kernel.parameter_bytes() as usize];
        let places = kernel.parameters();
        if places.len() != self.args.len() {
            return Err(format!("{} takes {} parameters", self.entry, places.len()).into());
        }
        let mut outputs = Vec::new();
        for ((at, size), arg) in places.into_iter().zip(&self.args) {
            let value = match arg {
                Arg::In(bytes) => {
                    let p = memory.alloc("in", bytes.len() as u64)?;
                    memory.write(p, bytes)?;
                    p.to_le_bytes().to_vec()
                }
                Arg::Out(bytes) => {
                    let p = memory.alloc("out", *bytes as u64)?;
                    memory.write(p, &vec![0; *bytes])?;
                    outputs.push((p, *bytes));
                    p.to_le_bytes().to_vec()
                }
                Arg::Value(bytes) => bytes.to_vec(),
            };
            let slot = params
                .get_mut(at as usize..(at + size) as usize)
                .filter(|s| s.len() == value.len())
                .ok_or("a parameter of another size")?;
            slot.copy_from_slice(&value);
        }
        let Shape {
            grid,
            block,
            dynamic_shared,
        } = self.shape;
        let limits = Limits::default();
        let report = ptxsim::launch(
            kernel,
            grid,
            block,
            dynamic_shared,
            &params,
            &mut memory,
            limits,
        )?;
        let read = |(p, n)| Ok(memory.read(p, n)?.to_vec());
        let outputs: Result<Outputs> = outputs.into_iter().map(read).collect();
        Ok((outputs?, report))
    }
}
