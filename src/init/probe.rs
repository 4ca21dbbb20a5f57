//! How a kernel may be called: launches and sizes are tried in the simulator, over tensors that grow where the kernel
//! reaches past them. Only the author knows whether a call that runs is the one that is meant.

use super::call::{Argument, Call, Found, Limit, Matches, SMALL, Tensor};
use super::launches::{Extent, Launches, launches, sizes_of};
use super::parts::{OTHER_PARAMETERS, Part, PartKind, parts_of};
use super::references::{self, Observed};
use super::sizes::{Dim, Product, products};
use super::tolerances::{rounded_up, tolerance};
use build::inventory::{ListedKernel, Member, ParameterKind, Pointee};
use model::{ElemType, LaunchBounds, Role, ScalarType};
use nix::sys::resource::{UsageWho, getrusage};
use ptxsim::{FaultKind, Finding, FindingKind, Limits, Memory, Module};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time of the processor, for all trials of a kernel, and for one, whose tensors grow.
const TIME: Duration = Duration::from_secs(1);
const TIME_OF_ONE: Duration = Duration::from_millis(300);
/// The most that a call with larger sizes may take: it is made a few times more.
const TIME_OF_LARGER: Duration = Duration::from_millis(250);
/// Warp instructions of one launch, while launches are looked for and once one is found.
const INSTRUCTIONS_OF_TRIAL: u64 = 3_000_000;
const INSTRUCTIONS: u64 = 10_000_000;
/// Addresses behind a tensor that belong to nothing else.
const APART: u64 = 1 << 30;
const MOST_BYTES: u64 = 1 << 30;
const DYNAMIC_SHARED: u32 = 16 << 10;
/// Inputs with which a call is tried again.
const OTHER_INPUTS: u64 = 3;
/// Seeds whose outputs references are compared with.
const SEEDS: u64 = 2;

/// # Errors
/// Why no call was found, as a part of a sentence.
pub fn find_call(
    module: &Module,
    ptx: &str,
    kernel: &ListedKernel,
    bounds: LaunchBounds,
) -> Result<Call, String> {
    let program = module
        .kernel(&kernel.symbol)
        .map_err(|error| format!("the simulator cannot run it: {error}"))?;
    let parts = parts_of(kernel, program)?;
    let text = body(ptx, &kernel.symbol);
    let began = time_of_thread();
    let dynamic_shared = if ptx.contains(".extern .shared") {
        DYNAMIC_SHARED
    } else {
        0
    };
    let mut best: Option<Best> = None;
    let is_whole = |best: &Option<Best>| best.as_ref().is_some_and(|best| best.ended.call.is_whole);
    let mut last = "no launch came to its end".to_owned();
    // Goes with the quick sizes alone.
    let mut coincidence = None;
    // Launches that came to their end with a finding.
    let mut suspect = 0;
    for sizes in sizes_of(&parts) {
        if is_whole(&best) {
            break;
        }
        let trial_of = |dims: Vec<Dim>, may_grow| Trial {
            module,
            program,
            kernel,
            parts: &parts,
            products: products(&dims, sizes.further),
            dims,
            dynamic_shared,
            fill: Contents::Pattern(0),
            may_grow,
        };
        let trial = trial_of(sizes.dims.clone(), true);
        // Different expressions may give the same launch.
        let mut known = BTreeSet::new();
        for (block, grids) in launches(&trial.dims, &trial.products, text, bounds) {
            for grid in grids {
                if time_of_thread().saturating_sub(began) > TIME {
                    break;
                }
                let blocks: Vec<u32> = grid.iter().map(|(_, blocks)| *blocks).collect();
                if !known.insert((block.clone(), blocks)) {
                    continue;
                }
                let ended = trial.run(trial.smallest(), &grid, &block);
                suspect += usize::from(
                    ended
                        .as_ref()
                        .is_ok_and(|run: &Ended| run.call.finding.is_some()),
                );
                match ended {
                    Ok(ended)
                        if best
                            .as_ref()
                            .is_none_or(|best| ended.rank() > best.ended.rank()) =>
                    {
                        best = Some(Best {
                            ended,
                            products: trial.products.clone(),
                        });
                    }
                    Ok(_) => {}
                    Err(why) => last = why,
                }
            }
            if is_whole(&best) {
                break;
            }
        }
        let Some(dims) = sizes.larger.clone() else {
            continue;
        };
        let Some(found) = best.take_if(|best| best.ended.call.is_whole) else {
            continue;
        };
        let trial = trial_of(dims, false);
        let launches = launches(&trial.dims, &trial.products, text, bounds);
        best = match trial.enlarge(&found, launches) {
            Enlarged::Slow => Some(found),
            Enlarged::Ended(larger) => {
                let suspects = larger.ended.call.finding.is_some();
                suspect += usize::from(suspects);
                // One with a finding may not be the launch that is meant: others are tried, too.
                Some(*larger)
            }
            Enlarged::Broken => {
                coincidence = Some(found);
                None
            }
        };
    }
    let Best {
        mut ended,
        products,
    } = best.or(coincidence).ok_or(last)?;
    if let Some(finding) = &mut ended.call.finding {
        finding.launches = Some(suspect);
    }
    let with = |fill, ended: &Ended| Trial {
        module,
        program,
        kernel,
        parts: &parts,
        products: products.clone(),
        dims: ended.call.dims.clone(),
        dynamic_shared: ended.call.dynamic_shared,
        fill,
        may_grow: false,
    };
    // With other inputs it has to end, too, and what is found then counts as well.
    for salt in 1..=OTHER_INPUTS {
        let trial = with(Contents::Pattern(salt), &ended);
        let again = trial.run(ended.tried.clone(), &ended.grid, &ended.call.block)?;
        ended.call.finding = ended.call.finding.or(again.call.finding);
    }
    let case = references::case_of(&ended.call);
    let drawn: Vec<_> = (1..=SEEDS)
        .map_while(|seed| check::inputs::generate(&case, seed).ok())
        .collect();
    let mut observed = Vec::new();
    for inputs in &drawn {
        let trial = with(Contents::Drawn(inputs), &ended);
        // Where inputs of a run lead it elsewhere, nothing is known of its outputs.
        let Ok(again) = trial.run(trial.as_called(&ended), &ended.grid, &ended.call.block) else {
            break;
        };
        let outputs = case
            .tensors
            .iter()
            .filter(|tensor| tensor.role.is_result())
            .filter_map(|tensor| {
                let bytes = again.left.get(&tensor.name)?;
                Some((tensor.name.clone(), check::decode(tensor, bytes).ok()?))
            })
            .collect();
        observed.push(Observed { inputs, outputs });
    }
    ended.call.max_err = limit(&ended.call, &observed);
    if ended.call.finding.is_none() {
        ended.call.reference = references::find_references(&ended.call, &observed);
    }
    Ok(ended.call)
}

/// The largest that an output needs: one limit is for all of them.
fn limit(call: &Call, observed: &[Observed]) -> Limit {
    let Some((limit, elem, largest)) = call
        .arguments
        .iter()
        .flat_map(Argument::parts)
        .filter_map(|part| match part {
            Argument::Tensor(tensor) if tensor.role.is_result() => Some(tensor),
            _ => None,
        })
        .map(|tensor| {
            let largest = references::largest(observed, &tensor.name);
            let largest = largest.filter(|largest| largest.is_finite() && *largest > 0.0);
            let elem = tensor.pointee.elem;
            (tolerance(elem, largest.unwrap_or(1.0)), elem, largest)
        })
        .max_by(|one, other| one.0.total_cmp(&other.0))
    else {
        return Limit::default();
    };
    let because = match (elem.is_float(), largest) {
        (false, _) => format!("{} has no rounding", elem.name()),
        (true, Some(largest)) => {
            format!("rounding of {}, values up to {largest:.3}", elem.name())
        }
        (true, None) => format!("rounding of {}, values up to 1", elem.name()),
    };
    Limit {
        value: rounded_up(limit),
        because,
    }
}

/// Time of the processor: the machine's other programs change nothing in what is found.
fn time_of_thread() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD);
    usage.map_or(Duration::ZERO, |usage| {
        let time = usage.user_time();
        let seconds = Duration::from_secs(time.tv_sec().try_into().unwrap_or_default());
        seconds + Duration::from_micros(time.tv_usec().try_into().unwrap_or_default())
    })
}

/// The best call of those that were tried.
struct Best {
    ended: Ended,
    products: Vec<Product>,
}

/// A call that was made again with larger sizes.
enum Enlarged {
    Ended(Box<Best>),
    /// It takes long: the smaller ones will do.
    Slow,
    /// It does not go with other sizes than those that it was found with.
    Broken,
}

/// A launch that came to its end.
struct Ended {
    call: Call,
    /// Bytes.
    written: u64,
    tried: Vec<Option<Tried>>,
    grid: Vec<Extent>,
    /// The content of each tensor at the end, where inputs are those of a run.
    left: BTreeMap<String, Vec<u8>>,
}

impl Ended {
    /// Complete calls go before others, those without a race before those with one, and much work before little.
    fn rank(&self) -> (bool, bool, u64) {
        (
            self.call.is_whole,
            self.call.finding.is_none(),
            self.written,
        )
    }
}

/// The code that an entry executes.
fn body<'a>(ptx: &'a str, symbol: &str) -> &'a str {
    let starts = ptx.match_indices(".entry ").map(|(at, _)| at);
    let mut found = "";
    for at in starts {
        let rest = ptx.get(at..).unwrap_or_default();
        let name = rest.trim_start_matches(".entry ").trim_start();
        let is_it = name
            .strip_prefix(symbol)
            .is_some_and(|rest| rest.trim_start().starts_with('('));
        if is_it {
            found = rest;
            break;
        }
    }
    let end = found.find("\n}").unwrap_or(found.len());
    found.get(..end).unwrap_or_default()
}

struct Trial<'a> {
    module: &'a Module,
    program: &'a ptxsim::Kernel,
    kernel: &'a ListedKernel,
    parts: &'a [Part<'a>],
    dims: Vec<Dim>,
    products: Vec<Product>,
    dynamic_shared: u32,
    fill: Contents<'a>,
    may_grow: bool,
}

/// Inputs of a trial.
#[derive(Clone, Copy)]
enum Contents<'a> {
    /// Small numbers, by a number that says which.
    Pattern(u64),
    /// As a run draws them.
    Drawn(&'a check::inputs::Inputs),
}

/// A tensor of a trial: which of the products it has, and whether its values are asked for before it writes them.
#[derive(Clone, Copy)]
struct Tried {
    product: usize,
    is_read: bool,
}

impl Trial<'_> {
    /// One element each.
    fn smallest(&self) -> Vec<Option<Tried>> {
        self.parts
            .iter()
            .map(|part| match part.kind {
                PartKind::Pointer(pointee) => Some(Tried {
                    product: 0,
                    is_read: pointee.is_const,
                }),
                PartKind::Size(_) | PartKind::Value(_) => None,
            })
            .collect()
    }

    /// The tensors of a call that came to its end, each drawn that has the role of an input.
    fn as_called(&self, ended: &Ended) -> Vec<Option<Tried>> {
        let roles: BTreeMap<&str, Role> = ended
            .call
            .arguments
            .iter()
            .flat_map(Argument::parts)
            .filter_map(|part| match part {
                Argument::Tensor(tensor) => Some((tensor.name.as_str(), tensor.role)),
                _ => None,
            })
            .collect();
        self.parts
            .iter()
            .zip(&ended.tried)
            .map(|(part, tried)| {
                let role = roles.get(part.name.as_str())?;
                Some(Tried {
                    is_read: role.is_drawn(),
                    ..(*tried)?
                })
            })
            .collect()
    }

    /// Makes the same call with the sizes of this trial.
    fn enlarge(&self, found: &Best, launches: Vec<Launches>) -> Enlarged {
        let call = &found.ended.call;
        let grids = launches
            .into_iter()
            .find(|launch| launch.0 == call.block)
            .map(|(_, grids)| grids)
            .unwrap_or_default();
        let is_same = |grid: &Vec<Extent>| grid.iter().map(|(text, _)| text).eq(&call.grid);
        let grown: Option<Vec<_>> = found
            .ended
            .tried
            .iter()
            .map(|tried| {
                let Some(tried) = tried else {
                    return Some(None);
                };
                let factors = &found.products.get(tried.product)?.factors;
                let product = self
                    .products
                    .iter()
                    .position(|product| product.factors == *factors)?;
                Some(Some(Tried { product, ..*tried }))
            })
            .collect();
        let (Some(grid), Some(grown)) = (grids.into_iter().find(is_same), grown) else {
            return Enlarged::Broken;
        };
        let began = time_of_thread();
        let ended = self.run(grown, &grid, &call.block);
        if time_of_thread().saturating_sub(began) > TIME_OF_LARGER {
            return Enlarged::Slow;
        }
        match ended {
            Ok(ended) if ended.call.is_whole || ended.call.finding.is_some() => {
                Enlarged::Ended(Box::new(Best {
                    ended,
                    products: self.products.clone(),
                }))
            }
            Ok(_) | Err(_) => Enlarged::Broken,
        }
    }

    fn content(&self, part: &Part, pointee: &Pointee, bytes: u64) -> Vec<u8> {
        match self.fill {
            Contents::Pattern(salt) => content(pointee, bytes, salt),
            Contents::Drawn(inputs) => {
                let drawn = inputs.tensors.get(&part.name);
                let mut drawn = drawn.map_or_else(Vec::new, |tensor| tensor.bytes.clone());
                drawn.resize(bytes as usize, 0);
                drawn
            }
        }
    }

    /// Where inputs are those of a run, what each tensor holds.
    fn left(
        &self,
        tried: &[Option<Tried>],
        bases: &[Option<u64>],
        memory: &Memory,
    ) -> BTreeMap<String, Vec<u8>> {
        if let Contents::Pattern(_) = self.fill {
            return BTreeMap::new();
        }
        self.parts
            .iter()
            .zip(tried)
            .zip(bases)
            .filter_map(|((part, tried), base)| {
                let PartKind::Pointer(pointee) = part.kind else {
                    return None;
                };
                let bytes = self.size((*tried)?).value * bytes_each(pointee);
                let held = memory.read((*base)?, bytes as usize).ok()?;
                Some((part.name.clone(), held.to_vec()))
            })
            .collect()
    }

    fn run(
        &self,
        mut tried: Vec<Option<Tried>>,
        grid: &[Extent],
        block: &[u32],
    ) -> Result<Ended, String> {
        let began = time_of_thread();
        loop {
            if self.may_grow && time_of_thread().saturating_sub(began) > TIME_OF_ONE {
                return Err("it takes too long in the simulator".to_owned());
            }
            let mut memory = Memory::new(MOST_BYTES);
            self.module.place(&mut memory);
            let (params, bases) = self.lay_out(&tried, &mut memory)?;
            let extents = |of: &[u32]| {
                let mut all = [1; 3];
                all.iter_mut().zip(of).for_each(|(to, from)| *to = *from);
                all
            };
            let blocks: Vec<u32> = grid.iter().map(|(_, blocks)| *blocks).collect();
            let limits = Limits {
                instructions: if self.may_grow {
                    INSTRUCTIONS_OF_TRIAL
                } else {
                    INSTRUCTIONS
                },
                threads: 1,
                ..Limits::default()
            };
            let ended = ptxsim::launch(
                self.program,
                extents(&blocks),
                extents(block),
                self.dynamic_shared,
                &params,
                &mut memory,
                limits,
            );
            let at = |address: Option<u64>| {
                let address = address?;
                bases
                    .iter()
                    .enumerate()
                    .filter_map(|(at, base)| Some((at, address.checked_sub((*base)?)?)))
                    .find(|(_, offset)| *offset < APART)
            };
            match ended {
                Err(fault) if fault.kind == FaultKind::OutOfBounds => {
                    let Some((number, offset)) = at(fault.address) else {
                        return Err(format!(
                            "it reaches beyond all of its tensors ({})",
                            fault.place.at
                        ));
                    };
                    if !self.may_grow || !self.grow(&mut tried, number, offset) {
                        let name = self.parts.get(number).map_or("", |part| &part.name);
                        return Err(if self.may_grow {
                            format!(
                                "it reaches past `{name}`, of any size that its numbers give ({})",
                                fault.place.at
                            )
                        } else {
                            format!(
                                "where it reaches in `{name}` depends on what its inputs hold ({})",
                                fault.place.at
                            )
                        });
                    }
                }
                Err(fault) if fault.kind == FaultKind::Budget => {
                    return Err("it did not come to its end in the simulator".to_owned());
                }
                Err(fault) => {
                    return Err(fault.message.lines().next().unwrap_or_default().to_owned());
                }
                Ok(report) => {
                    let mut first = None;
                    let mut reads = false;
                    let mut lacks = false;
                    for finding in &report.findings {
                        match finding.kind {
                            // The place is where something is stored that it went into.
                            FindingKind::UninitialisedGlobal => {
                                lacks = true;
                                let place =
                                    at(finding.address).and_then(|(at, _)| tried.get_mut(at));
                                if let Some(Some(tried)) = place
                                    && !tried.is_read
                                {
                                    tried.is_read = true;
                                    reads = true;
                                }
                            }
                            _ => {
                                first.get_or_insert_with(|| found(finding));
                            }
                        }
                    }
                    // A result made of nothing has no value either, and does not show as written.
                    if !reads && (lacks || self.written(&tried, &bases, &memory) == 0) {
                        let each = self.parts.iter().zip(&mut tried).zip(&bases);
                        for ((part, tried), base) in each {
                            if let Some(tried) = tried
                                && !tried.is_read
                                && self.written_to(part, *tried, *base, &memory) == 0
                            {
                                tried.is_read = true;
                                reads = true;
                            }
                        }
                    }
                    if reads {
                        continue;
                    }
                    let (written, call) =
                        self.call(&tried, &bases, &memory, (grid, block), first)?;
                    return Ok(Ended {
                        call,
                        written,
                        left: self.left(&tried, &bases, &memory),
                        tried,
                        grid: grid.to_vec(),
                    });
                }
            }
        }
    }

    /// Bytes that got a value.
    fn written(&self, tried: &[Option<Tried>], bases: &[Option<u64>], memory: &Memory) -> u64 {
        self.parts
            .iter()
            .zip(tried)
            .zip(bases)
            .filter_map(|((part, tried), base)| {
                Some(self.written_to(part, (*tried)?, *base, memory))
            })
            .sum()
    }

    /// Whether any memory that had values before holds another value now.
    fn written_to(&self, part: &Part, tried: Tried, base: Option<u64>, memory: &Memory) -> u64 {
        let (PartKind::Pointer(pointee), Some(base)) = (&part.kind, base) else {
            return 0;
        };
        let bytes = self.size(tried).value * bytes_each(pointee);
        match (tried.is_read, pointee.is_const) {
            (true, true) => 0,
            (true, false) => {
                let now = memory.read(base, bytes as usize).unwrap_or_default();
                u64::from(*now != *self.content(part, pointee, bytes))
            }
            (false, _) => {
                let left = memory.without_value(base, bytes as usize);
                bytes - left.map_or(0, |gaps| gaps.iter().map(|gap| gap.len() as u64).sum())
            }
        }
    }

    /// Whether there is a larger size for a tensor that is reached at this offset.
    fn grow(&self, tried: &mut [Option<Tried>], number: usize, offset: u64) -> bool {
        let part = self.parts.get(number).map(|part| &part.kind);
        let (Some(Some(tried)), Some(PartKind::Pointer(pointee))) = (tried.get_mut(number), part)
        else {
            return false;
        };
        let needed = offset / bytes_each(pointee);
        // An access may begin inside and end outside.
        let mut larger = self.products.iter().enumerate().skip(tried.product + 1);
        match larger.find(|(_, product)| product.value > needed) {
            Some((larger, _)) => {
                tried.product = larger;
                true
            }
            None => false,
        }
    }

    fn size(&self, tried: Tried) -> Product {
        let one = || Product {
            factors: Vec::new(),
            value: 1,
        };
        self.products
            .get(tried.product)
            .cloned()
            .unwrap_or_else(one)
    }

    /// The parameter buffer, and where the tensor of each parameter lies.
    fn lay_out(
        &self,
        tried: &[Option<Tried>],
        memory: &mut Memory,
    ) -> Result<(Vec<u8>, Vec<Option<u64>>), String> {
        let mut params = vec![0; self.program.parameter_bytes() as usize];
        let mut bases = Vec::new();
        let mut sizes = self.dims.iter();
        for (part, tried) in self.parts.iter().zip(tried) {
            let mut base = None;
            let value = match (&part.kind, tried) {
                (PartKind::Pointer(pointee), Some(tried)) => {
                    let count = self.size(*tried).value;
                    let bytes = count * bytes_each(pointee);
                    let address = memory
                        .alloc("tensor", bytes)
                        .map_err(|error| error.to_string())?;
                    memory.skip(APART);
                    if tried.is_read {
                        let content = self.content(part, pointee, bytes);
                        memory
                            .write(address, &content)
                            .map_err(|memory| memory.to_string())?;
                    }
                    base = Some(address);
                    address.to_le_bytes().to_vec()
                }
                (PartKind::Pointer(_), None) => Vec::new(),
                (PartKind::Size(scalar), _) => {
                    let size = sizes.next().map_or(1, |dim| dim.value);
                    size.to_le_bytes().into_iter().take(scalar.size()).collect()
                }
                (PartKind::Value(scalar), _) => {
                    made_up(*scalar).1.into_iter().take(scalar.size()).collect()
                }
            };
            bases.push(base);
            let place = params.get_mut(part.offset..part.offset + value.len());
            let place = place.ok_or(OTHER_PARAMETERS)?;
            place.copy_from_slice(&value);
        }
        Ok((params, bases))
    }

    fn call(
        &self,
        tried: &[Option<Tried>],
        bases: &[Option<u64>],
        memory: &Memory,
        (grid, block): (&[Extent], &[u32]),
        finding: Option<Found>,
    ) -> Result<(u64, Call), String> {
        let mut written = 0;
        let mut is_whole = finding.is_none();
        let mut given = Vec::new();
        let mut sizes = self.dims.iter();
        for ((part, tried), base) in self.parts.iter().zip(tried).zip(bases) {
            given.push(match (&part.kind, tried, base) {
                (PartKind::Pointer(pointee), Some(tried), Some(base)) => {
                    let size = self.size(*tried);
                    let bytes = size.value * bytes_each(pointee);
                    let role = match (pointee.is_const, tried.is_read) {
                        (true, _) => Role::In,
                        (false, true) => {
                            let before = self.content(part, pointee, bytes);
                            let now = memory.read(*base, bytes as usize).unwrap_or_default();
                            let changed = now.iter().zip(&before).filter(|(now, was)| now != was);
                            match changed.count() as u64 {
                                0 => Role::In,
                                changed => {
                                    written += changed;
                                    Role::Inout
                                }
                            }
                        }
                        (false, false) => {
                            let left = memory.without_value(*base, bytes as usize);
                            let left: usize =
                                left.map_or(0, |gaps| gaps.iter().map(|gap| gap.len()).sum());
                            let done = bytes - left as u64;
                            written += done;
                            is_whole &= left == 0;
                            match left == 0 {
                                true => Role::Out,
                                // In part: what is not written stays what it was.
                                false if done > 0 => Role::Inout,
                                false => Role::In,
                            }
                        }
                    };
                    Argument::Tensor(Tensor {
                        name: part.name.clone(),
                        role,
                        pointee: (*pointee).clone(),
                        size,
                    })
                }
                (PartKind::Size(of), ..) => Argument::Size {
                    of: *of,
                    dim: sizes
                        .next()
                        .map_or_else(String::new, |dim| dim.name.clone()),
                },
                (PartKind::Value(of), ..) => Argument::Value {
                    name: part.name.clone(),
                    of: *of,
                },
                (PartKind::Pointer(_), ..) => return Err("a pointer has no tensor".to_owned()),
            });
        }
        let mut given = given.into_iter();
        let arguments = self
            .kernel
            .parameters
            .iter()
            .filter_map(|parameter| match &parameter.kind {
                ParameterKind::Struct(members) => Some(Argument::Struct(
                    members
                        .iter()
                        .filter_map(|member| match member {
                            Member::Pad(bytes) => Some(Argument::Pad(*bytes)),
                            _ => given.next(),
                        })
                        .collect(),
                )),
                _ => given.next(),
            })
            .collect();
        if written == 0 {
            return Err("no launch that was tried writes anything".to_owned());
        }
        let call = Call {
            dims: self.dims.clone(),
            arguments,
            grid: grid.iter().map(|(text, _)| text.clone()).collect(),
            block: block.to_vec(),
            dynamic_shared: self.dynamic_shared,
            is_whole,
            finding,
            max_err: Limit::default(),
            reference: Matches::default(),
        };
        Ok((written, call))
    }
}

fn found(finding: &Finding) -> Found {
    Found {
        kind: finding.kind,
        places: finding.places.clone(),
        launches: None,
    }
}

fn bytes_each(pointee: &Pointee) -> u64 {
    (pointee.elem.size() * pointee.count) as u64
}

/// A number for what is no size: `(text, bytes)`. No factor of 1, which changes nothing.
pub fn made_up(scalar: ScalarType) -> (&'static str, Vec<u8>) {
    match scalar {
        ScalarType::Bool => ("0", vec![0]),
        ScalarType::F16 => ("0.5", half::f16::from_f32(0.5).to_le_bytes().to_vec()),
        ScalarType::Bf16 => ("0.5", half::bf16::from_f32(0.5).to_le_bytes().to_vec()),
        ScalarType::F32 => ("0.5", 0.5f32.to_le_bytes().to_vec()),
        ScalarType::F64 => ("0.5", 0.5f64.to_le_bytes().to_vec()),
        _ => ("1", 1u64.to_le_bytes().to_vec()),
    }
}

/// 2^64 over the golden ratio: multiples of it are all over the place.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Small numbers of the element's type.
fn content(pointee: &Pointee, bytes: u64, salt: u64) -> Vec<u8> {
    let small = |at: u64| match salt {
        0 => at % SMALL,
        _ => (at + 1).wrapping_mul(salt).wrapping_mul(SPREAD) >> 40 & (SMALL - 1),
    };
    let encoded = |small: u64| -> Vec<u8> {
        let part = 0.25 + small as f32 / 16.0;
        match pointee.elem {
            ElemType::F64 => f64::from(part).to_le_bytes().to_vec(),
            ElemType::F32 => part.to_le_bytes().to_vec(),
            ElemType::F16 => half::f16::from_f32(part).to_le_bytes().to_vec(),
            ElemType::Bf16 => half::bf16::from_f32(part).to_le_bytes().to_vec(),
            elem => small.to_le_bytes().into_iter().take(elem.size()).collect(),
        }
    };
    let values: Vec<Vec<u8>> = (0..SMALL).map(encoded).collect();
    let count = bytes / pointee.elem.size() as u64;
    let mut content = Vec::with_capacity(bytes as usize);
    for at in 0..count {
        let value = values.get(small(at) as usize);
        content.extend_from_slice(value.map_or(&[], Vec::as_slice));
    }
    content
}
