//! A case on a device: its program, its tensors between guards, and the call that uses them.

use crate::build::Artifact;
use crate::check::inputs::{Inputs, TensorData, generate};
use crate::check::poison::{gaps_changed, poisoned};
use crate::device::args::{Pointers, pack};
use crate::device::redzone::{Guarded, Pattern};
use crate::device::{Address, Call, Device, Failure, Restore, Result};
use std::collections::BTreeMap;
use verdict::model::{Case, FaultKind, Role, Tensor};

/// The tensors that a kernel writes, by name, as they lie on the device.
pub type Images = BTreeMap<String, Vec<u8>>;

pub struct Stage<'a> {
    pub inputs: Inputs,
    pub call: Call,
    tensors: Vec<Placed<'a>>,
}

struct Placed<'a> {
    tensor: &'a Tensor,
    data: Guarded,
    scales: Option<Constant>,
    zero_points: Option<Constant>,
}

/// What a kernel may only read, beside the tensors themselves.
struct Constant {
    data: Guarded,
    bytes: Vec<u8>,
}

impl<'a> Stage<'a> {
    /// Loads the program, makes the inputs and writes them.
    pub fn set(
        device: &mut dyn Device,
        case: &'a Case,
        artifact: &Artifact,
        seed: u64,
    ) -> Result<Self> {
        let program = device.load(artifact)?;
        let inputs = generate(case, seed).map_err(|error| {
            Failure::of_case(
                FaultKind::Reference,
                format!("the inputs cannot be made: {error}"),
            )
        })?;
        let tensors = case
            .tensors
            .iter()
            .map(|tensor| Placed::new(device, tensor, inputs.tensors.get(&tensor.name)))
            .collect::<Result<Vec<_>>>()?;
        let pointers = Placement {
            tensors: &tensors,
            stream: device.stream(),
        };
        let call = Call {
            program,
            args: pack(&case.args, &pointers)?,
            launch: case.launch,
        };
        Ok(Self {
            inputs,
            call,
            tensors,
        })
    }

    /// Before launch number `launch`, counted from 1: outputs poisoned, in-out tensors as they were drawn.
    pub fn prepare(&self, device: &mut dyn Device, launch: u32) -> Result<()> {
        self.written()
            .try_for_each(|placed| device.write(placed.data.address, &self.before(placed, launch)))
    }

    /// Waits for the launch and reads what it wrote.
    pub fn outputs(&self, device: &mut dyn Device) -> Result<Images> {
        self.written()
            .map(|placed| {
                let image = read(device, placed.data)?;
                Ok((placed.tensor.name.clone(), image))
            })
            .collect()
    }

    /// What launch number `launch` changed between the strides of its outputs, where it has no business.
    pub fn gaps(&self, outputs: &Images, launch: u32) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for placed in self
            .written()
            .filter(|placed| placed.tensor.strides.is_some())
        {
            let name = &placed.tensor.name;
            let after = outputs.get(name).map_or(&[][..], Vec::as_slice);
            let changed = gaps_changed(placed.tensor, &self.before(placed, launch), after)
                .map_err(|wrong| Failure::of_case(FaultKind::Environment, wrong.to_string()))?;
            if changed > 0 {
                found.push(format!("{name}: {changed} elements between its strides"));
            }
        }
        Ok(found)
    }

    /// Names of what is only read and was written to.
    pub fn clobbered(&self, device: &mut dyn Device) -> Result<Vec<String>> {
        let mut clobbered = Vec::new();
        for placed in &self.tensors {
            let name = &placed.tensor.name;
            if let (Role::In, Some(data)) = (placed.tensor.role, self.inputs.tensors.get(name))
                && read(device, placed.data)? != data.bytes
            {
                clobbered.push(name.clone());
            }
            for (constant, what) in [
                (&placed.scales, "scales"),
                (&placed.zero_points, "zero points"),
            ] {
                if let Some(constant) = constant
                    && read(device, constant.data)? != constant.bytes
                {
                    clobbered.push(format!("{name} ({what})"));
                }
            }
        }
        Ok(clobbered)
    }

    /// Writes outside the buffers that did not fault.
    pub fn overruns(&self, device: &mut dyn Device) -> Result<Vec<String>> {
        let mut overruns = Vec::new();
        for placed in &self.tensors {
            for (buffer, what) in [
                (Some(placed.data), ""),
                (
                    placed.scales.as_ref().map(|scales| scales.data),
                    " (scales)",
                ),
                (
                    placed.zero_points.as_ref().map(|zeros| zeros.data),
                    " (zero points)",
                ),
            ] {
                if let Some(buffer) = buffer
                    && let Some(place) = buffer.overrun(device)?
                {
                    overruns.push(format!("{}{what}: {place}", placed.tensor.name));
                }
            }
        }
        Ok(overruns)
    }

    /// Copies on the device from which in-out tensors are restored while times are taken.
    pub fn restores(&self, device: &mut dyn Device) -> Result<Vec<Restore>> {
        self.tensors
            .iter()
            .filter(|placed| placed.tensor.role == Role::Inout)
            .map(|placed| {
                let restore = Restore {
                    from: device.alloc(placed.data.bytes)?,
                    to: placed.data.address,
                    bytes: placed.data.bytes,
                };
                device.write(restore.from, &self.before(placed, 1))?;
                Ok(restore)
            })
            .collect()
    }

    fn written(&self) -> impl Iterator<Item = &Placed<'a>> {
        self.tensors
            .iter()
            .filter(|placed| placed.tensor.role != Role::In)
    }

    fn before(&self, placed: &Placed, launch: u32) -> std::borrow::Cow<'_, [u8]> {
        match self.inputs.tensors.get(&placed.tensor.name) {
            Some(drawn) => (&drawn.bytes).into(),
            None => poisoned(placed.tensor, launch).into(),
        }
    }
}

impl<'a> Placed<'a> {
    fn new(
        device: &mut dyn Device,
        tensor: &'a Tensor,
        drawn: Option<&TensorData>,
    ) -> Result<Self> {
        let pattern = match tensor.role {
            Role::In => Pattern::NotANumber,
            Role::Out | Role::Inout | Role::Scratch => Pattern::Mark,
        };
        let data = Guarded::alloc(device, tensor.span() * tensor.elem.size(), pattern)?;
        let mut scales = None;
        let mut zero_points = None;
        if let Some(drawn) = drawn {
            device.write(data.address, &drawn.bytes)?;
            if let Some(values) = &drawn.scales {
                let bytes = values
                    .iter()
                    .flat_map(|scale| scale.to_le_bytes())
                    .collect();
                scales = Some(Constant::new(device, bytes)?);
            }
            if let Some(values) = &drawn.zero_points {
                let bytes = values.iter().flat_map(|zero| zero.to_le_bytes()).collect();
                zero_points = Some(Constant::new(device, bytes)?);
            }
        }
        Ok(Self {
            tensor,
            data,
            scales,
            zero_points,
        })
    }
}

impl Constant {
    fn new(device: &mut dyn Device, bytes: Vec<u8>) -> Result<Self> {
        let data = Guarded::alloc(device, bytes.len(), Pattern::NotANumber)?;
        device.write(data.address, &bytes)?;
        Ok(Self { data, bytes })
    }
}

fn read(device: &mut dyn Device, buffer: Guarded) -> Result<Vec<u8>> {
    let mut bytes = vec![0; buffer.bytes];
    device.read(buffer.address, &mut bytes)?;
    Ok(bytes)
}

struct Placement<'a> {
    tensors: &'a [Placed<'a>],
    stream: u64,
}

impl Placement<'_> {
    fn of(&self, name: &str) -> Option<&Placed<'_>> {
        self.tensors
            .iter()
            .find(|placed| placed.tensor.name == name)
    }
}

impl Pointers for Placement<'_> {
    fn tensor(&self, name: &str) -> Option<Address> {
        self.of(name).map(|placed| placed.data.address)
    }

    fn scales(&self, tensor: &str) -> Option<Address> {
        let scales = self.of(tensor)?.scales.as_ref()?;
        Some(scales.data.address)
    }

    fn zero_points(&self, tensor: &str) -> Option<Address> {
        let zero_points = self.of(tensor)?.zero_points.as_ref()?;
        Some(zero_points.data.address)
    }

    fn stream(&self) -> u64 {
        self.stream
    }
}
