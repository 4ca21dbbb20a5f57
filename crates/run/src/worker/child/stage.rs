//! Sets a case up on a device: its program, its tensors between guards, and the call that uses them.

use super::buffers::Buffers;
use super::job_cache::JobCache;
use crate::device::args::{Pointers, pack};
use crate::device::redzone::{Guarded, RedzonePattern};
use crate::device::{
    Address, Device, DeviceCall, Failure, LoadedProgram, MapBytes, MemoryWork, PackedStep, Restore,
    RestoredBefore, Restores, Result,
};
use build::Artifact;
use build::signature::misfit;
use check::images::{self, Image};
use check::poison::{gaps_changed, poison, poisoned};
use check::{ComparedElements, decode, same};
use model::{Arg, Case, FaultKind, MemoryStep, Role, Tensor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tensors that a kernel writes, by name, as the bytes on the device.
pub type OutputImages = BTreeMap<String, Vec<u8>>;

pub struct StagedCase<'a> {
    inputs: images::InputImages,
    pub call: DeviceCall,
    tensors: Vec<PlacedTensor<'a>>,
    /// The variables that the host writes before each launch, with the tensors that fill them.
    pub filled: Vec<(Address, String)>,
}

struct PlacedTensor<'a> {
    tensor: &'a Tensor,
    data: Guarded,
    scales: Option<Guarded>,
    zero_points: Option<Guarded>,
}

impl<'a> StagedCase<'a> {
    /// Loads the program, makes the inputs and writes them.
    pub fn set(
        device: &mut dyn Device,
        cache: &mut JobCache,
        case: &'a Case,
        artifact: &Artifact,
        seed: u64,
    ) -> Result<Self> {
        // A driver accepts the launch, and reads the bytes behind the arguments.
        if let Some(misfit) = artifact
            .entries()
            .into_iter()
            .zip(&case.steps)
            .find_map(|((_, symbol), step)| misfit(symbol, &step.args))
        {
            return Err(Failure::case_alone(FaultKind::LaunchRefused, misfit));
        }
        let program = device.load(artifact)?;
        let mut stage = Self::new(device, cache, case, program, seed)?;
        stage.filled = stage.fill_constants(device, program, artifact)?;
        Ok(stage)
    }

    /// Makes the inputs and writes them to the device.
    pub fn new(
        device: &mut dyn Device,
        cache: &mut JobCache,
        case: &'a Case,
        program: LoadedProgram,
        seed: u64,
    ) -> Result<Self> {
        let inputs = cache.inputs(case, seed)?;
        place_joined(device, &case.tensors)?;
        let tensors = case
            .tensors
            .iter()
            .filter(|tensor| tensor.role.is_placed())
            .map(|tensor| PlacedTensor::new(device, tensor, inputs.get(&tensor.name)))
            .collect::<Result<Vec<_>>>()?;
        let steps = packed(device, case, &tensors)?;
        let surfaces = surfaces(case, &tensors);
        Ok(Self {
            inputs,
            call: DeviceCall {
                program,
                steps,
                surfaces,
            },
            tensors,
            filled: Vec::new(),
        })
    }

    /// Returns the call of another case over the same tensors.
    pub fn call(
        &self,
        device: &mut dyn Device,
        case: &Case,
        program: LoadedProgram,
    ) -> Result<DeviceCall> {
        Ok(DeviceCall {
            program,
            steps: packed(device, case, &self.tensors)?,
            surfaces: surfaces(case, &self.tensors),
        })
    }

    /// Writes what the host writes to variables of a program, and says where.
    pub fn fill_constants(
        &self,
        device: &mut dyn Device,
        program: LoadedProgram,
        artifact: &Artifact,
    ) -> Result<Vec<(Address, String)>> {
        let mut filled = Vec::new();
        let constants = artifact
            .constants()
            .into_iter()
            .enumerate()
            .flat_map(|(at, all)| all.iter().map(move |constant| (at, constant)));
        for (module, constant) in constants {
            let image = self.inputs.get(&constant.tensor);
            let bytes = image.map_or(&[][..], |image| &image.bytes);
            let (address, size) = device.variable(program, module, &constant.symbol)?;
            if bytes.len() != size {
                return Err(Failure::case_alone(
                    FaultKind::LaunchRefused,
                    format!(
                        "the constant {} has {size} bytes, and the tensor `{}`, which fills it, {}: give the tensor \
                         the type and shape of the variable",
                        constant.name,
                        constant.tensor,
                        bytes.len()
                    ),
                ));
            }
            device.write(address, bytes)?;
            filled.push((address, constant.tensor.clone()));
        }
        Ok(filled)
    }

    /// Puts the data of another seed into the same buffers.
    pub fn turn_to(
        &mut self,
        device: &mut dyn Device,
        cache: &mut JobCache,
        case: &Case,
        seed: u64,
    ) -> Result<()> {
        self.inputs = cache.inputs(case, seed)?;
        for placed in &self.tensors {
            let Some(drawn) = self.drawn(placed) else {
                continue;
            };
            device.write(placed.data.address, &drawn.bytes)?;
            for (to, bytes) in [
                (placed.scales, &drawn.scales),
                (placed.zero_points, &drawn.zero_points),
            ] {
                if let (Some(to), Some(bytes)) = (to, bytes) {
                    device.write(to.address, bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Prepares memory for launch number `launch`, counted from 1: poisons outputs, and restores what is written and
    /// had drawn values.
    pub fn prepare(&self, device: &mut dyn Device, launch: u32) -> Result<()> {
        for placed in self.written() {
            if let Some(drawn) = self.drawn(placed) {
                device.write(placed.data.address, &drawn.bytes)?;
            }
        }
        for (address, tensor) in &self.filled {
            if let Some(image) = self.inputs.get(tensor) {
                device.write(*address, &image.bytes)?;
            }
        }
        self.poison(launch, |address, pattern, count| {
            device.fill(address, pattern, count)
        })
    }

    /// Poisons memory that only the kernel writes. `fill` writes the poison of launch number `launch`.
    pub fn poison(
        &self,
        launch: u32,
        mut fill: impl FnMut(Address, &[u8], usize) -> Result<()>,
    ) -> Result<()> {
        for placed in self.written() {
            if self.drawn(placed).is_none() {
                let poison = poison(placed.tensor.elem, launch);
                fill(placed.data.address, &poison, placed.tensor.span())?;
            }
        }
        Ok(())
    }

    /// Returns which elements of the outputs are compared.
    pub fn compared(&self, case: &Case) -> Result<ComparedElements> {
        let input = |name: &str| {
            let tensor = case.tensors.iter().find(|tensor| tensor.name == name)?;
            decode(tensor, &self.inputs.get(name)?.bytes).ok()
        };
        ComparedElements::for_case(case, &input)
            .map_err(|error| Failure::case_alone(FaultKind::Reference, error.to_string()))
    }

    /// Waits for the launch and reads what it wrote.
    pub fn outputs(&self, device: &mut dyn Device, buffers: &mut Buffers) -> Result<OutputImages> {
        self.written()
            .map(|placed| {
                let image = read(device, placed.data, buffers)?;
                Ok((placed.tensor.name.clone(), image))
            })
            .collect()
    }

    /// Returns the number of bytes that `outputs` returns.
    pub fn output_bytes(&self) -> usize {
        self.written().map(|placed| placed.data.bytes).sum()
    }

    /// Lists the gaps between the strides of its outputs that launch number `launch` changed. It must not write there.
    pub fn gaps(&self, outputs: &OutputImages, launch: u32) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for placed in self
            .written()
            .filter(|placed| placed.tensor.strides.is_some())
        {
            let name = &placed.tensor.name;
            let after = outputs.get(name).map_or(&[][..], Vec::as_slice);
            let changed = gaps_changed(placed.tensor, &self.before(placed, launch), after)
                .map_err(|wrong| Failure::case_alone(FaultKind::Environment, wrong.to_string()))?;
            if changed > 0 {
                found.push(format!("{name}: {changed} elements between its strides"));
            }
        }
        Ok(found)
    }

    /// Returns the names of tensors that are only read but were written to.
    pub fn clobbered(&self, device: &mut dyn Device, buffers: &mut Buffers) -> Result<Vec<String>> {
        let mut clobbered = Vec::new();
        let mut changed = |placed: Guarded, bytes: &[u8]| {
            let image = read(device, placed, buffers)?;
            let changed = !same(&image, bytes);
            buffers.put(image);
            Ok(changed)
        };
        for placed in &self.tensors {
            let name = &placed.tensor.name;
            let Some(drawn) = self.drawn(placed) else {
                continue;
            };
            if placed.tensor.role == Role::In && changed(placed.data, &drawn.bytes)? {
                clobbered.push(name.clone());
            }
            for (constant, bytes, what) in [
                (placed.scales, &drawn.scales, "scales"),
                (placed.zero_points, &drawn.zero_points, "zero points"),
            ] {
                if let (Some(constant), Some(bytes)) = (constant, bytes)
                    && changed(constant, bytes)?
                {
                    clobbered.push(format!("{name} ({what})"));
                }
            }
        }
        Ok(clobbered)
    }

    /// Returns the writes outside the buffers that did not fault.
    pub fn overruns(&self, device: &mut dyn Device) -> Result<Vec<String>> {
        let mut overruns = Vec::new();
        for placed in &self.tensors {
            for (buffer, what) in [
                (Some(placed.data), ""),
                (placed.scales, " (scales)"),
                (placed.zero_points, " (zero points)"),
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

    /// Returns the copies on the device that restore what is written, while times are taken.
    pub fn restores(&self, device: &mut dyn Device) -> Result<Restores> {
        let restored = || {
            let placed = self.tensors.iter();
            placed.filter(|placed| placed.tensor.is_restored())
        };
        let copies = restored().map(|placed| {
            let restore = Restore {
                from: device.alloc(&placed.tensor.name, placed.data.bytes)?,
                to: placed.data.address,
                bytes: placed.data.bytes,
            };
            device.write(restore.from, &self.before(placed, 1))?;
            Ok(restore)
        });
        let copies = copies.collect::<Result<_>>()?;
        // A kernel may work on its own results, but not with working memory whose content is wrong. Nobody knows which
        // captured memory that is, so it is tried out.
        let is_needed = |tensor: &Tensor| tensor.role == Role::Scratch && !tensor.is_captured();
        let has_scratch = restored().any(|placed| is_needed(placed.tensor));
        let each_launch = has_scratch || self.does_less_again(device)?;
        Ok(Restores {
            copies,
            when: if each_launch {
                RestoredBefore::EachLaunch
            } else {
                RestoredBefore::EachSample
            },
        })
    }

    /// Returns true if a launch does less when it finds what the launch before left.
    fn does_less_again(&self, device: &mut dyn Device) -> Result<bool> {
        let captured = self
            .written()
            .filter(|placed| placed.tensor.address.is_some());
        let captured: Vec<&PlacedTensor> = captured.collect();
        if captured.is_empty() {
            return Ok(false);
        }
        let mut launch = || {
            device.launch(&self.call)?;
            device.sync()?;
            captured
                .iter()
                .map(|placed| {
                    let mut image = vec![0; placed.data.bytes];
                    device.read(placed.data.address, &mut image)?;
                    Ok(image)
                })
                .collect::<Result<Vec<_>>>()
        };
        let (first, second) = (launch()?, launch()?);
        let before: Vec<Cow<[u8]>> = captured
            .iter()
            .map(|captured| self.before(captured, 1))
            .collect();
        Ok(changes_less(before.iter().zip(&first).zip(&second).map(
            |((before, first), second)| [before.as_ref(), first, second],
        )))
    }

    /// Adds what the host writes to `__device__` variables of a program before each launch. A kernel cannot change
    /// `__constant__` ones.
    pub fn restore_variables(
        &self,
        device: &mut dyn Device,
        program: LoadedProgram,
        filled: &[(Address, String)],
        restores: &mut Restores,
    ) -> Result<()> {
        let variables = device.variables(program)?;
        for (address, tensor) in filled {
            let is_written = variables.iter().any(|(_, variable, _)| variable == address);
            let (true, Some(image)) = (is_written, self.inputs.get(tensor)) else {
                continue;
            };
            let restore = Restore {
                from: device.alloc(tensor, image.bytes.len())?,
                to: *address,
                bytes: image.bytes.len(),
            };
            device.write(restore.from, &image.bytes)?;
            restores.copies.push(restore);
            restores.when = RestoredBefore::EachLaunch;
        }
        Ok(())
    }

    fn written(&self) -> impl Iterator<Item = &PlacedTensor<'a>> {
        self.tensors
            .iter()
            .filter(|placed| placed.tensor.role != Role::In)
    }

    fn drawn(&self, placed: &PlacedTensor) -> Option<&Image> {
        self.inputs.get(&placed.tensor.name).map(AsRef::as_ref)
    }

    fn before(&self, placed: &PlacedTensor, launch: u32) -> Cow<'_, [u8]> {
        match self.drawn(placed) {
            Some(drawn) => (&drawn.bytes).into(),
            None => poisoned(placed.tensor, launch).into(),
        }
    }
}

/// Compares memory before the launches, after the first and after the second. Returns true if the second launch changes
/// something, but little of what the first one changed. A kernel of a program may count in memory that another one
/// resets: matmuls of cuBLAS take tiles so, and a second launch finds none. A kernel that works in place changes all of
/// it again, and any other nothing.
fn changes_less<'a>(images: impl Iterator<Item = [&'a [u8]; 3]>) -> bool {
    /// The size of blocks in bytes, which are compared faster than single bytes.
    const BLOCK: usize = 256;
    let count = |one: &[u8], other: &[u8]| {
        one.chunks(BLOCK)
            .zip(other.chunks(BLOCK))
            .filter(|(one, other)| one != other)
            .count()
    };
    let (mut at_first, mut again) = (0, 0);
    for [before, first, second] in images {
        at_first += count(before, first);
        again += count(first, second);
    }
    again > 0 && again * 2 <= at_first
}

impl<'a> PlacedTensor<'a> {
    fn new(
        device: &mut dyn Device,
        tensor: &'a Tensor,
        drawn: Option<&Arc<Image>>,
    ) -> Result<Self> {
        let pattern = match tensor.role {
            Role::In | Role::Reference => RedzonePattern::NotANumber,
            Role::Out | Role::Inout | Role::Scratch => RedzonePattern::Mark,
        };
        let bytes = tensor.span() * tensor.elem.size();
        let data = match tensor.address {
            Some(at) => Guarded::placed(at, bytes),
            None => {
                let ahead = tensor.offset * tensor.elem.size();
                Guarded::alloc(device, &tensor.name, (ahead, bytes), pattern)?
            }
        };
        let mut placed = Self {
            tensor,
            data,
            scales: None,
            zero_points: None,
        };
        if let Some(drawn) = drawn {
            device.write(data.address, &drawn.bytes)?;
            let mut constant = |what: &str, bytes: &Option<Vec<u8>>| {
                let name = format!("{} ({what})", tensor.name);
                let placed = bytes.as_ref().map(|bytes| constant(device, &name, bytes));
                placed.transpose()
            };
            placed.scales = constant("scales", &drawn.scales)?;
            placed.zero_points = constant("zero points", &drawn.zero_points)?;
        }
        Ok(placed)
    }
}

/// Places the memory of a program. Tensors of one allocation are placed together: a kernel may read across them.
fn place_joined(device: &mut dyn Device, tensors: &[Tensor]) -> Result<()> {
    for allocation in tensors.chunk_by(|_, next| next.joined) {
        let Some(at) = allocation.first().and_then(|allocation| allocation.address) else {
            continue;
        };
        device.place(
            &format!("at_{at:x}"),
            at,
            allocation
                .iter()
                .map(|allocation| allocation.span() * allocation.elem.size())
                .sum(),
        )?;
    }
    Ok(())
}

fn packed(
    device: &mut dyn Device,
    case: &Case,
    tensors: &[PlacedTensor],
) -> Result<Vec<PackedStep>> {
    let mut pointers = Placement {
        tensors,
        objects: Vec::new(),
        maps: Vec::new(),
        stream: device.stream(),
    };
    for step in &case.steps {
        pointers.bind(device, &step.args)?;
    }
    let works = |steps: &[MemoryStep]| -> Result<Vec<MemoryWork>> {
        steps.iter().map(|step| pointers.work(step)).collect()
    };
    case.steps
        .iter()
        .map(|step| {
            Ok(PackedStep {
                args: pack(&step.args, &pointers)?,
                launch: step.launch,
                before: works(&step.before)?,
                after: works(&step.after)?,
            })
        })
        .collect()
}

fn surfaces(case: &Case, tensors: &[PlacedTensor]) -> Vec<Address> {
    tensors
        .iter()
        .filter(|placed| {
            let name = &placed.tensor.name;
            case.steps.iter().any(|step| has_surface(&step.args, name))
        })
        .map(|placed| placed.data.address)
        .collect()
}

fn has_surface(args: &[Arg], name: &str) -> bool {
    args.iter().any(|arg| match arg {
        Arg::Surface { tensor, .. } => tensor == name,
        Arg::Struct { fields } => has_surface(fields, name),
        _ => false,
    })
}

/// Places bytes that a kernel may only read, in addition to the tensors, between guards.
fn constant(device: &mut dyn Device, name: &str, bytes: &[u8]) -> Result<Guarded> {
    let placed = Guarded::alloc(device, name, (0, bytes.len()), RedzonePattern::NotANumber)?;
    device.write(placed.address, bytes)?;
    Ok(placed)
}

fn read(device: &mut dyn Device, buffer: Guarded, buffers: &mut Buffers) -> Result<Vec<u8>> {
    let mut bytes = buffers.take(buffer.bytes);
    device.read(buffer.address, &mut bytes)?;
    Ok(bytes)
}

struct Placement<'a> {
    tensors: &'a [PlacedTensor<'a>],
    /// Textures and surfaces, with their handles.
    objects: Vec<(Arg, u64)>,
    maps: Vec<(Arg, MapBytes)>,
    stream: u64,
}

impl Placement<'_> {
    fn work(&self, step: &MemoryStep) -> Result<MemoryWork> {
        let data = |name: &str| {
            let placed = self.find(name).map(|placed| placed.data);
            placed.ok_or_else(|| {
                let message = format!("a step of the sequence names `{name}`, which is no tensor");
                Failure::case_alone(FaultKind::LaunchRefused, message)
            })
        };
        Ok(match step {
            MemoryStep::Memset { tensor, value } => {
                let to = data(tensor)?;
                MemoryWork::Set {
                    to: to.address,
                    value: *value,
                    bytes: to.bytes,
                }
            }
            MemoryStep::Copy { from, to } => {
                let (from, to) = (data(from)?, data(to)?);
                MemoryWork::Copy {
                    from: from.address,
                    to: to.address,
                    bytes: from.bytes.min(to.bytes),
                }
            }
        })
    }

    fn find(&self, name: &str) -> Option<&PlacedTensor<'_>> {
        self.tensors
            .iter()
            .find(|placed| placed.tensor.name == name)
    }

    fn bind(&mut self, device: &mut dyn Device, args: &[Arg]) -> Result<()> {
        for arg in args {
            let (tensor, image, sampler) = match arg {
                Arg::Texture {
                    tensor,
                    image,
                    sampler,
                } => (tensor, image, Some(sampler)),
                Arg::Surface { tensor, image } => (tensor, image, None),
                Arg::TensorMap { tensor, map } => {
                    if self.tensor_map(arg).is_none()
                        && let Some(at) = self.tensor(tensor)
                    {
                        let made = device.tensor_map(at, map)?;
                        self.maps.push((arg.clone(), made));
                    }
                    continue;
                }
                Arg::Struct { fields } => {
                    self.bind(device, fields)?;
                    continue;
                }
                _ => continue,
            };
            if self.object(arg).is_some() {
                continue;
            }
            // An argument without a tensor is refused when it is packed.
            let Some(at) = self.find(tensor).map(|placed| placed.data.address) else {
                continue;
            };
            let handle = device.bind(at, image, sampler)?;
            self.objects.push((arg.clone(), handle));
        }
        Ok(())
    }
}

impl Pointers for Placement<'_> {
    fn tensor(&self, name: &str) -> Option<Address> {
        self.find(name).map(|placed| placed.data.address)
    }

    fn scales(&self, tensor: &str) -> Option<Address> {
        self.find(tensor)?.scales.map(|scales| scales.address)
    }

    fn zero_points(&self, tensor: &str) -> Option<Address> {
        self.find(tensor)?.zero_points.map(|zeros| zeros.address)
    }

    fn object(&self, arg: &Arg) -> Option<u64> {
        let known = self.objects.iter().find(|(bound, _)| bound == arg);
        known.map(|(_, handle)| *handle)
    }

    fn tensor_map(&self, arg: &Arg) -> Option<MapBytes> {
        let known = self.maps.iter().find(|(made, _)| made == arg);
        known.map(|(_, map)| *map)
    }

    fn stream(&self) -> u64 {
        self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::changes_less;

    #[test]
    fn a_launch_that_finds_less_to_do_on_its_own_results_is_told_from_one_in_place() {
        let memory = |number: u8| vec![number; 4096];
        let [zeros, ones, twos] = [0, 1, 2].map(memory);
        let in_place = [&zeros[..], &ones, &twos];
        let into_another = [&zeros[..], &ones, &ones];
        let counter = [&zeros[..4], &ones[..4], &twos[..4]];
        assert!(!changes_less([in_place].into_iter()));
        assert!(!changes_less([into_another].into_iter()));
        assert!(changes_less([into_another, counter].into_iter()));
        // Alone, the counter is all that a launch changes.
        assert!(!changes_less([counter].into_iter()));
    }
}
